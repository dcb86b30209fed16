# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper, three servers: the guarantees of holders and waiters while a leader or a
# follower dies or freezes, while there is no quorum, and when sessions end.

load ../lib/helpers
load zookeeper

# All tests share an ensemble, because three servers take 2 s of processor time to start.
setup_file() {
	export P_DIR=$BATS_FILE_TMPDIR/ensemble
	zk_ensemble_start "$P_DIR"
	begin_starter "$P_DIR" zookeeper zk_launch
}

teardown_file() {
	end_starter "$P_DIR"
	zk_ensemble_stop "$P_DIR"
}

# Each test begins with three servers that serve, whatever the one before it has done to them.
prepare() {
	local member
	export NODE=/dlock/$LOCK
	for member in 1 2 3; do
		if server_runs "$P_DIR/$member"; then
			zk_signal "$P_DIR/$member" CONT
		else
			restart_members "$member"
		fi
	done
	wait_until 30 whole
	members 1 2 3
}

# whole: the leader has two followers. One that was frozen still believes for a moment that it is one.
whole() {
	zk_ensemble_serves "$P_DIR" && [[ $(zk_counter "$P_DIR/$LEADER" zk_synced_followers) == 2 ]]
}

# restart_members N...: starts these servers, and does not wait until they serve
restart_members() {
	local member
	for member; do
		echo none >"$P_DIR/$member/pid"
		echo "$member" >"$P_DIR/start"
		wait_until 5 has_line "$P_DIR/$member/pid" '^[0-9]+$'
	done
}

# first_place NAME: the first node in line has this name
first_place() {
	[[ $(places | head -n 1) == "$1" ]]
}

@test "leader killed while holding: the command runs on under the same node" {
	zk_leader "$P_DIR"
	testify -t 40s
	local name
	name=$(places)
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	kill_members "$LEADER"
	elected
	lives_on 4000
	# A member that has just elected may not serve yet.
	wait_until 10 first_place "$name"
	end_witness
	met_nobody 15
}

# bats test_tags=more
@test "leader killed while waiting: waiters keep their places, and get the lock one at a time" {
	zk_leader "$P_DIR"
	hold -t 30s --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -t 30s -- sh -c 'mkdir in || echo overlap >>order; echo "$0" >>order; rmdir in' "$n"
		waiter+=("$PID")
	done
	kill_members "$LEADER"
	elected
	release
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	wait_until 5 no_places
}

# bats test_tags=more
@test "leader killed as the lock is handed over: one waiter gets it, and only one" {
	zk_leader "$P_DIR"
	hold -t 8s --
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	kill -KILL "$(<"$P_DIR/$LEADER/pid")"
	kill -TERM "$COMMAND"
	met_nobody 20
	join "$HOLDER" 15
	equal "$status" 143
	elected
	wait_until 10 no_places
}

# bats test_tags=more
@test "the connected server killed: holder and waiter move to another" {
	testify -t 12s
	local name
	name=$(places)
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	member_of "$NODE/$name"
	kill_members "$MEMBER"
	elected
	lives_on 3000
	equal "$(places | head -n 1)" "$name" "the holder's node"
	member_of "$NODE/$(places | tail -n 1)"
	# Two servers are a quorum: a second one comes back first.
	end_witness
	met_nobody 15
}

# bats test_tags=more
@test "the waiter's server killed: the place is kept" {
	hold -t 8s --
	wait_in_line 1 -t 8s -- sh -c 'echo 1 >>order'
	local first=$PID before
	wait_in_line 2 -t 8s -- sh -c 'echo 2 >>order'
	local second=$PID
	before=$(places)
	member_of "$NODE/$(sed -n 2p <<<"$before")"
	kill_members "$MEMBER"
	elected
	holds_for 1500 alive "$first" "$second"
	equal "$(places)" "$before"
	release
	join "$first" 15
	join "$second" 15
	equal "$(tr '\n' ' ' <order)" "1 2 "
}

# bats test_tags=more
@test "a follower cut off, the only server known: the command is dead before another client holds" {
	zk_leader "$P_DIR"
	local follower=${FOLLOWERS[0]} others
	others=("$LEADER" "${FOLLOWERS[1]}")
	members "$follower"
	hold -t 6s -- sh -c 'exec "$TOOLS/zkwitness" -i "$0" "$NODE" "$DLOCK_FENCE" log' \
		"$(<"$P_DIR/$LEADER/port")"
	wait_until 5 has_line log ' held$'
	members "${others[@]}"
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	frozen_at
	zk_signal "$P_DIR/$follower" STOP
	lost
	dead_by $((FAULT + 6000))
	met_nobody 15
	zk_signal "$P_DIR/$follower" CONT
}

@test "a follower cut off: holder and waiter move to another" {
	zk_leader "$P_DIR"
	local follower=${FOLLOWERS[0]} tries=0
	members "$LEADER" "${FOLLOWERS[1]}"
	local known=$PORTS
	members 1 2 3
	PORTS=$known
	# It is tried until dlock is connected to this follower.
	while ((++tries)); do
		testify -t 20s
		member_of "$NODE/$(places)"
		[[ $MEMBER != "$follower" ]] || break
		((tries < 30)) || fail "never connected to a member of three in $tries tries"
		end_witness
		wait_until 5 no_places
	done
	zk_signal "$P_DIR/$follower" STOP
	# The command runs on for longer than the session would last without another server.
	lives_on 13000
	end_witness
	zk_signal "$P_DIR/$follower" CONT
}

# bats test_tags=more
@test "the leader frozen: the command is dead in time, or runs on with a session that is long enough" {
	# The followers notice after 3 s.
	zk_leader "$P_DIR"
	members "${FOLLOWERS[@]}"
	local short
	testify -t 2s
	short=$HOLDER
	"$DLOCK" acquire -t 30s --pid $$ "$LOCK-long" >token
	frozen_at
	zk_signal "$P_DIR/$LEADER" STOP
	HOLDER=$short lost
	dead_by $((FAULT + 2000))
	elected
	run -0 "$DLOCK" verify "$LOCK-long" "$(<token)"
	run -0 "$DLOCK" run -w 15s "$LOCK" -- true
	zk_signal "$P_DIR/$LEADER" CONT
	"$DLOCK" release "$LOCK-long" "$(<token)"
}

# bats test_tags=more
@test "the old leader thaws when there is a new one: two clients never hold at once" {
	zk_leader "$P_DIR"
	local old=$LEADER
	# The holder knows the old leader only, the next client those that elect another one.
	members "$old"
	hold -t 4s -- "$TOOLS/witness" -i -l log
	members "${FOLLOWERS[@]}"
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	frozen_at
	zk_signal "$P_DIR/$old" STOP
	lost
	dead_by $((FAULT + 4000))
	elected
	zk_signal "$P_DIR/$old" CONT
	met_nobody 20
}

@test "quorum lost: the command is dead in time, and waiters go on when the quorum is back" {
	zk_leader "$P_DIR"
	local gone=("$LEADER" "${FOLLOWERS[0]}")
	testify -t 5s
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	frozen_at
	kill_members "${gone[@]}"
	lost
	dead_by $((FAULT + 5000))
	holds_for 1500 alive "$CONTENDER"
	restart_members "${gone[@]}"
	met_nobody 30
	wait_until 5 no_places
}

# bats test_tags=more
@test "quorum lost for a moment: the command runs on" {
	zk_leader "$P_DIR"
	local gone=("$LEADER" "${FOLLOWERS[0]}")
	testify -t 30s
	CONTEND_WITH=-v contend "$COMMAND"
	wait_until 5 has_line "$ERR" ': waiting'
	kill_members "${gone[@]}"
	restart_members "${gone[@]}"
	elected
	lives_on 5000
	end_witness
	met_nobody 15
}

# bats test_tags=more
@test "all servers restarted: holder and waiters stay, in their order" {
	testify -t 60s
	local n waiter=() before
	for n in 1 2; do
		wait_known "$n" -t 60s -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	before=$(places)
	kill_members 1 2 3
	restart_members 1 2 3
	elected
	lives_on 4000
	equal "$(places)" "$before"
	end_witness
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 "
	wait_until 5 no_places
}

# bats test_tags=more
@test "session expired by the ensemble: the holder stops, the waiter queues again" {
	hold -t 20s --
	wait_in_line 1 -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	# It gets in line behind the others.
	expire_owner "$NODE/$(places | sed -n 2p)"
	wait_until 5 waiters 2
	# The holder cannot foresee this: the next one may hold before the command is dead.
	expire_owner "$NODE/$(places | head -n 1)"
	lost 5
	join "$first" 10
	join "$second" 10
	equal "$(tr '\n' ' ' <order)" "2 1 "
	wait_until 5 no_places
}

@test "no quorum from the start: one line within connect-timeout, and status 122" {
	zk_leader "$P_DIR"
	kill_members "$LEADER" "${FOLLOWERS[0]}"
	local member=${FOLLOWERS[1]}
	wait_until 10 not zk_serves "$P_DIR/$member"
	timed timeout 20 "$DLOCK" run -b "zk://127.0.0.1:$(<"$P_DIR/$member/port")?connect-timeout=1s" "$LOCK" -- touch ran
	equal "$status" 122
	took "$MS" 0 6000
	one_line '127\.0\.0\.1'
	[[ ! -e ran ]]
	# With a longer limit the quorum may come back in time.
	start "$DLOCK" run -w 40s "$LOCK" -- true
	restart_members "$LEADER" "${FOLLOWERS[0]}"
	join "$PID" 40
	matches "$status" '^(0|122)$'
}

# bats test_tags=more
@test "servers killed at random while many take the lock: two are never inside at once" {
	local n pid=() member
	echo 0 >count
	# Each client adds one in two steps; a lock of the kernel shows when two are inside at once.
	for n in {1..6}; do
		start bash -c 'while [[ ! -e stop ]]; do
			"$DLOCK" run -q -t 4s -k 200ms -w 10s "$LOCK" -- flock -n -E 99 inside sh -c "
				number=\$(cat count)
				sleep 0.02
				echo \$((number + 1)) >count
				echo x >>added" || echo "status $?" >>statuses
		done'
		pid+=("$PID")
	done
	SEEN=0
	for n in 1 2 3 4 5; do
		member=$((RANDOM % 3 + 1))
		kill_members "$member"
		wait_until 20 more_added
		restart_members "$member"
		wait_until 30 zk_ensemble_serves "$P_DIR"
	done
	touch stop statuses
	for n in "${pid[@]}"; do
		join "$n" 30
	done
	not has_line statuses '^status 99$'
	# A command that was stopped when the lock was lost may have written the number only.
	between "$(($(<count) - $(wc -l <added)))" 0 "$(wc -l <statuses)" "$(sort statuses | uniq -c)"
	(($(<count) > 20)) || fail "only $(<count) in"
}

# more_added: true when somebody got in since the last call
more_added() {
	local lines
	[[ -e added ]] || return 1
	lines=$(wc -l <added)
	((lines > SEEN + 5)) && SEEN=$lines
}
