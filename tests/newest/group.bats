# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Oracle's MySQL with Group Replication: three members, of which one takes writes. The primary is
# killed, stopped, left alone and comes back while locks are held and waited for.

load ../lib/helpers
load ../mysql/lease
load ../mysql/holders
load members

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

# fail_over COMMAND...: of each strategy a lock is held and waited for while COMMAND takes the primary
# away. What is a lease outlives this, and what is a session is lost; then each waiter gets its lock.
fail_over() {
	primary
	hold_all "$PRIMARY" 40s "$MYSQL" "$DLOCK" "$DLOCK"
	"$@"
	wait_until 60 moved
	# A hold of a lease is renewed at the new primary, before its end.
	pause 15
	touch end
	lost_all 30 'row|advisory|table'
	got_all
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
	has_line found '^ok +replication +Group Replication, 3 members'
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
