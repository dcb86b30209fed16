# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Oracle's MySQL with Group Replication: three members, of which one takes writes. The primary is
# killed, stopped, left alone and comes back while locks are held and waited for.

load ../lib/helpers
load ../mysql/lease
# shellcheck source=tests/lib/services/group.bash
source "$TOP/tests/lib/services/group.bash"

STRATEGIES=(strategy=lease strategy=insert strategy=row strategy=advisory strategy=table
	dialect=shedlock)

setup_file() {
	need mysqld
	export GROUP_DIR=$BATS_FILE_TMPDIR/group
	group_start "$GROUP_DIR"
	mysql_at "$GROUP_DIR/1" "GRANT SELECT ON performance_schema.replication_group_members
		TO $MYSQL_USER@'127.0.0.1'"
	MYSQL=$(members_uri "$GROUP_DIR" 3)
	export MYSQL
}

teardown_file() {
	mysql_stop_three "$GROUP_DIR"
}

# primary: sets PRIMARY to the directory of the member that takes writes, as two members see it, and
# OTHERS to the directories of the others
primary() {
	local member port
	port=$(primaries | sort | uniq -d)
	[[ -n $port ]] || return 1
	OTHERS=()
	for member in 1 2 3; do
		if [[ $(<"$GROUP_DIR/$member/port") == "$port" ]]; then
			PRIMARY=$GROUP_DIR/$member
		else
			OTHERS+=("$GROUP_DIR/$member")
		fi
	done
}

# primaries: prints the port of the primary that each member sees; one that is stopped does not answer
primaries() {
	local member
	for member in 1 2 3; do
		grep -qs '^State:[[:space:]]*T' "/proc/$(<"$GROUP_DIR/$member/pid")/status" ||
			mysql_at "$GROUP_DIR/$member" "SELECT member_port
				FROM performance_schema.replication_group_members
				WHERE member_role = 'PRIMARY' AND member_state = 'ONLINE'" 2>/dev/null || true
	done
}

# whole: all members take part in the group, as its primary sees it. One that does not joins again.
whole() {
	local member state
	primary || return 1
	[[ $(mysql_at "$PRIMARY" "SELECT COUNT(*) FROM performance_schema.replication_group_members
		WHERE member_state = 'ONLINE'") != 3 ]] || return 0
	for member in "${OTHERS[@]}"; do
		state=$(mysql_at "$member" "SELECT member_state
			FROM performance_schema.replication_group_members
			WHERE member_id IN ('', @@server_uuid)" 2>/dev/null) || continue
		[[ $state != OFFLINE && $state != ERROR ]] ||
			mysql_at "$member" "STOP GROUP_REPLICATION; START GROUP_REPLICATION USER = 'member'"
	done
	return 1
}

# inside: what each command does first: leaves "overlap" if another one is inside. It is not atomic
# that a command is killed and its mark is removed, so a mark has the pid.
INSIDE='for other in inside.$0.*; do
		[ ! -e "$other" ] || ! kill -0 "${other##*.}" 2>/dev/null || echo "$other" >>overlap
	done
	touch "inside.$0.$$"; echo "$DLOCK_FENCE" >>"fences.$0"; '

# fail_over COMMAND...: of each strategy a lock is held and waited for while COMMAND takes the primary
# away. What is a lease outlives this, and what is a session is lost; then each waiter gets its lock.
fail_over() {
	local strategy name holders=() waiters=() errs=() i
	primary
	for strategy in "${STRATEGIES[@]}"; do
		name=$LOCK-${strategy#*=}
		mysql_at "$PRIMARY" "CREATE TABLE IF NOT EXISTS \`$name\` (id INT PRIMARY KEY)"
		"$DLOCK" setup -b "$MYSQL?$strategy"
		start "$DLOCK" run -t 40s -b "$MYSQL?$strategy" "$name" -- \
			sh -c "$INSIDE"'touch "held.$0"; while [ ! -e end ]; do sleep 0.1; done' "$name"
		holders+=("$PID") errs+=("$ERR")
		wait_until 10 test -e "held.$name"
		start "$DLOCK" run -v -t 40s -w 100s -b "$MYSQL?$strategy" "$name" -- \
			sh -c "$INSIDE"'touch "got.$0"' "$name"
		waiters+=("$PID")
		wait_until 10 has_line "$ERR" 'waiting'
	done
	"$@"
	wait_until 60 moved
	# A hold of a lease is renewed at the new primary, before its end.
	pause 15
	touch end
	for i in "${!STRATEGIES[@]}"; do
		join "${holders[i]}" 30
		case ${STRATEGIES[i]} in
		*row | *advisory | *table) equal "$status" 123 "${STRATEGIES[i]}: $(<"${errs[i]}")" ;;
		*) equal "$status" 0 "${STRATEGIES[i]}: $(<"${errs[i]}")" ;;
		esac
		join "${waiters[i]}" 60
		equal "$status" 0 "waiter, ${STRATEGIES[i]}"
	done
	[[ ! -e overlap ]] || fail "two commands at once: $(<overlap)"
	for name in fences.*; do
		sort -n -C "$name" || fail "fences of $name: $(<"$name")"
	done
}

# moved: another member is the primary
moved() {
	local old=$PRIMARY
	primary && [[ $PRIMARY != "$old" ]]
}

@test "the writable member is found, and a read-only one is passed over with a reason" {
	local member reasons
	primary
	"$DLOCK" run "$LOCK" -- true
	for member in "${OTHERS[@]}"; do
		refused 'read-only' "$(mysql_uri "$member")"
	done
	# Without the primary there are two reasons.
	refused 'read-only.*; .*read-only' \
		"mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$(<"${OTHERS[0]}/port"),127.0.0.1:$(<"${OTHERS[1]}/port")/$MYSQL_DATABASE"
	"$DLOCK" check >found || equal $? 1
	has_line found '^ok +cluster +Group Replication, 3 members, this one is ONLINE'
	not has_line found '^warning +replication'
}

@test "the primary is stopped, and goes on when there is another one" {
	primary
	local old=$PRIMARY
	fail_over kill -STOP "$(<"$PRIMARY/pid")"
	# It takes itself for the primary until it has heard from the others, and can commit nothing.
	kill -CONT "$(<"$old/pid")"
	for _ in {1..10}; do
		run -0 "$DLOCK" run -w 20s "$LOCK" -- true
	done
	wait_until 60 whole
}

@test "a primary that is left alone grants and renews nothing" {
	primary
	local member
	hold -t 6s --
	for member in "${OTHERS[@]}"; do
		kill -STOP "$(<"$member/pid")"
	done
	lost 12
	run --separate-stderr "$DLOCK" run -w 8s "$LOCK" -- touch ran
	matches "$status" '^12[24]$'
	[[ ! -e ran ]]
	for member in "${OTHERS[@]}"; do
		kill -CONT "$(<"$member/pid")"
	done
	wait_until 60 whole
	run -0 "$DLOCK" run -w 30s "$LOCK" -- true
}

# A server that a test starts ends with it, so this test is the last one.
@test "the primary is killed: leases go on, sessions end, and waiters get their locks" {
	primary
	local old=$PRIMARY
	fail_over kill -KILL "$(<"$PRIMARY/pid")"
	# It comes back, and takes writes for itself until it is told to join.
	group_launch "$GROUP_DIR" "${old##*/}"
	SERVICES+=("$(<"$old/pid")")
	equal "$(mysql_at "$old" 'SELECT @@read_only')" 0
	hold --
	start "$DLOCK" run -n -b "${MYSQL/@*\//@127.0.0.1:$(<"$old/port"),127.0.0.1:$(<"$PRIMARY/port")/}" "$LOCK" -- true
	join "$PID"
	equal "$status" 124
	refused 'not part of its group' "${MYSQL/@*\//@127.0.0.1:$(<"$old/port"),127.0.0.1:1/}"
	release
	wait_until 60 whole
	run -0 "$DLOCK" run -w 10s "$LOCK" -- true
}
