# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: the guarantees of holders and waiters while servers die, freeze, lose their
# quorum or end sessions, and while answers are lost.

load helpers
load zookeeper

@test "the witness itself sees a node that goes" {
	foreign_sequence x-
	start "$TOOLS/zkwitness" -i "$PORTS" "$NODE" "$(stat_of "$FOREIGN" czxid)" log
	local witness=$PID
	wait_until 5 has_line log ' held$'
	zn rm "$FOREIGN"
	wait_until 5 has_line log ' LOST$'
	kill -KILL "$witness"
	join "$witness"
}

# ---- one server: fail-stop before the session ends

# frozen_at: the moment of a fault, as FAULT
frozen_at() {
	now
	FAULT=$NOW
}

# term_came LOW HIGH: the witness got TERM so long after the fault
term_came() {
	local term
	term=$(awk '$2 == "TERM" { print $1; exit }' log)
	between "$((term - FAULT))" "$1" "$2" "time from the fault to TERM"
}

@test "server frozen: the tree is dead before the session ends; TERM came before" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 3s -k 600ms
	frozen_at
	kill -STOP "$P_PID"
	lost
	dead_by $((FAULT + 3000))
	# at least 3/5 of the session are proven, and the last proof is up to a third of that old
	term_came $((1800 - 600 - 600 - 150)) $((3000 - 600))
	kill -CONT "$P_PID"
	# the session runs out
	wait_until 6 no_places
	nothing_left
}

@test "server frozen for a moment: the command runs on" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -b "$P_URI?timeout=500ms" -t 8s
	kill -STOP "$P_PID"
	holds_for 1000 alive "$COMMAND"
	kill -CONT "$P_PID"
	lives_on 4000
	end_witness
	nothing_left
}

@test "server gone for good: dead in time" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 2s
	frozen_at
	zookeeper_stop "$P_DIR"
	lost
	dead_by $((FAULT + 2000))
}

@test "server restarted at once: command, session and node stay" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 10s
	local name
	name=$(places)
	zookeeper_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	lives_on 3000
	equal "$(places)" "$name"
	end_witness
	nothing_left
}

@test "server restarted with its data lost: the command ends, and the lock can be had again" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 5s --
	start "$DLOCK" run -t 3s -w 30s "$LOCK" -- true
	local waiter=$PID err=$ERR
	wait_until 5 waiters 1
	zookeeper_stop "$P_DIR"
	rm -r "$P_DIR/version-2"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	lost
	join "$waiter" 15
	equal "$status" 0 "status of the waiter ($(<"$err"))"
}

@test "connection black-holed: dead in time, and the next one gets it after that" {
	zk_proxy
	testify -b "$PROXY" -t 2s
	contend "$COMMAND"
	frozen_at
	proxy blackhole
	lost
	dead_by $((FAULT + 2000))
	met_nobody
}

@test "answers swallowed for good: dead in time, though the server hears the pings" {
	zk_proxy
	testify -b "$PROXY" -t 2s
	frozen_at
	proxy drop
	lost
	dead_by $((FAULT + 2000))
	# from now on nobody pings
	proxy cut
	wait_until 4 no_places
	nothing_left
}

@test "answers swallowed for a moment: the command runs on" {
	zk_proxy
	testify -b "$PROXY?timeout=400ms" -t 8s
	proxy drop
	holds_for 1000 alive "$COMMAND"
	proxy pass
	lives_on 4000
	end_witness
}

@test "keeper stopped: the tree is dead before the session ends" {
	testify -t 2s
	contend "$COMMAND"
	keeper_of "$HOLDER"
	frozen_at
	kill -STOP "$KEEPER"
	lost
	dead_by $((FAULT + 2000))
	met_nobody
}

@test "keeper killed: the tree is dead before the session ends" {
	testify -t 2s
	contend "$COMMAND"
	keeper_of "$HOLDER"
	frozen_at
	kill -KILL "$KEEPER"
	lost
	dead_by $((FAULT + 2000))
	met_nobody
}

@test "all of dlock stopped but the library's pings: dead in time, or held all the time" {
	testify -t 1500ms
	kill -STOP "$HOLDER"
	holds_for 3000 lost_nothing
	kill -CONT "$HOLDER"
	if alive "$COMMAND"; then
		end_witness
	else
		lost
	fi
}

@test "dlock killed while the server is frozen: the tree dies, and the lock lapses" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 3s -k 300ms --
	local family
	family=$(tree "$HOLDER")
	kill -STOP "$P_PID"
	kill -KILL "$HOLDER"
	wait_until 2 ended "$COMMAND"
	# shellcheck disable=SC2086 # words
	wait_until 10 ended $family
	kill -CONT "$P_PID"
	wait_until 6 no_places
	nothing_left
}

@test "--no-renew: dead before the end, however late the server's answers come" {
	zk_proxy
	proxy hold 200
	testify -b "$PROXY" -t 2s --no-renew
	lost
	dead_by "$(($(awk '$2 == "pid" || $2 == "held" { print $1; exit }' log) + 2000))"
	nothing_left
}

@test "a grant that arrives late starts nothing without a session" {
	zk_proxy
	proxy hold 700
	start "$DLOCK" run -b "$PROXY?timeout=3s" -t 1s -w 6s -k 100ms "$LOCK" -- sh -c \
		'exec "$TOOLS/zkwitness" "$PORTS" "$NODE" "$DLOCK_FENCE" log'
	wait_until 10 eval 'has_line log held || ended "$PID"'
	kill -TERM "$PID" 2>/dev/null || true
	join "$PID" 20
	not has_line log LOST
	wait_until 3 no_places
	nothing_left
}

@test "--on-lost warn: the command goes on, dlock says so and exits 123 in the end" {
	hold -t 2s --on-lost warn --
	expire_owner "$NODE/$(places)"
	wait_until 5 has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	holds_for 1000 alive "$COMMAND"
	# no new session holds it silently
	equal "$(places)" ""
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 123
}

@test "a command that ends as its session expires: 0 or 123, and no hang" {
	local n
	for n in {0..9}; do
		start "$DLOCK" run -t 5s "$LOCK" -- sh -c 'echo in; sleep "$0"' "0.0$n"
		wait_until 5 has_line "$OUT" in
		expire_owner "$NODE/$(places)" || true
		join "$PID" 6
		matches "$status" '^(0|123)$' status
	done
	nothing_left
}

# ---- one server: answers lost

@test "create reply lost with the connection: one node, the command runs once, nothing is left" {
	local options n=0
	zk_proxy
	# what is asked for first succeeds
	directory
	for options in '' -s; do
		proxy cut-on "$([[ $options ]] && echo __READ__ || echo -lock-)"
		# shellcheck disable=SC2086 # words
		run -0 "$DLOCK" run -b "$PROXY" $options "$LOCK" -- sh -c 'echo x >>runs; "$TOOLS/znode" "$PORTS" ls "$NODE"'
		equal "$(grep -vc -- -dlock- <<<"$output")" 1 "nodes while it ran, twins not counted"
		equal "${#lines[@]}" 2 "nodes while it ran"
		equal "$(wc -l <runs)" $((++n)) "times that it ran"
		proxy_stat cut
		equal "$VALUE" "$n" "faults that happened"
		wait_until 2 no_places
	done
}

@test "create reply swallowed: no ghost holder, no ghost waiter" {
	zk_proxy
	directory
	proxy drop-on -lock-
	start "$DLOCK" run -b "$PROXY?timeout=400ms" -t 2s "$LOCK" -- echo ran
	local dlock=$PID out=$OUT
	wait_until 5 place_count 1
	proxy pass
	join "$dlock" 15
	# to try again is as good as to give up, if it is done well
	matches "$status $(<"$out")" '^(0 ran|122 )$'
	nothing_left
}

@test "create reply of a waiter lost: one place in line, and it is its own" {
	hold --
	zk_proxy
	proxy cut-on -lock-
	start "$DLOCK" run -b "$PROXY" "$LOCK" -- sh -c 'echo first >>order'
	local first=$PID
	wait_until 5 waiters 1
	proxy_stat cut
	equal "$VALUE" 1 "faults that happened"
	wait_in_line 2 -- sh -c 'echo second >>order'
	local second=$PID
	holds_for 500 waiters 2
	release
	join "$first" 5
	join "$second" 5
	equal "$(tr '\n' ' ' <order)" "first second "
	wait_until 2 no_places
}

@test "create reply of a waiter lost, and it gives up: no ghost" {
	hold --
	zk_proxy
	proxy drop-on -lock-
	start "$DLOCK" run -b "$PROXY?timeout=5s" -t 4s "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 waiters 1
	kill -TERM "$waiter"
	proxy pass
	join "$waiter" 8
	equal "$status" 143
	# within a TTL, at the latest
	wait_until 5 waiters 0
	[[ ! -e ran ]]
	release
	wait_until 2 no_places
}

@test "connection cut at each request of a run: it runs once, and nothing is left" {
	local n runs=0
	zk_proxy
	for n in 1 2 3 4 5 6 7 8; do
		proxy cut-after "$n"
		run --separate-stderr timeout 30 "$DLOCK" run -b "$PROXY" -t 4s "$LOCK" -- sh -c 'echo x >>runs
			[ "$("$TOOLS/znode" "$PORTS" ls "$NODE" | grep -vc -- -dlock-)" = 1 ]'
		equal "$status" 0 "status with request $n lost"
		equal "$(wc -l <runs)" $((++runs)) "times that it ran, request $n lost"
		wait_until 5 no_places
	done
	proxy_stat cut
	between "$VALUE" 3 8 "faults that happened"
}

@test "all answers swallowed: 122, in bounded time, and no ghost longer than a TTL" {
	zk_proxy
	proxy drop
	run --separate-stderr -122 timeout 15 "$DLOCK" run -b "$PROXY?timeout=300ms&connect-timeout=500ms" -t 2s "$LOCK" -- touch ran
	one_line '127\.0\.0\.1'
	[[ ! -e ran ]]
	wait_until 3 no_places
}

@test "answer to the release lost: the command's status, and the lock is free" {
	zk_proxy
	hold -b "$PROXY" --
	proxy cut-after
	release
	wait_until 2 no_places
	hold -b "$PROXY?timeout=300ms" -t 2s --
	proxy drop
	release
	wait_until 3 no_places
}

@test "server unreachable at release: bounded, and the lock lapses" {
	zk_proxy
	hold -b "$PROXY?timeout=300ms&connect-timeout=300ms" -t 3s --
	proxy blackhole
	kill -TERM "$COMMAND"
	join "$HOLDER" 8
	matches "$status" '^(143|123)$'
	wait_until 4 no_places
}

# ---- one server: waiters

@test "connection cut while waiting: the place in line is kept" {
	zk_proxy
	hold --
	wait_in_line 1 -b "$PROXY" -- sh -c 'echo 1 >>order'
	local first=$PID before
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	before=$(places)
	for _ in 1 2 3; do
		proxy cut
		holds_for 500 waiters 2
	done
	equal "$(places)" "$before"
	release
	join "$second" 15
	join "$first"
	equal "$(tr '\n' ' ' <order)" "1 2 "
	wait_until 2 no_places
}

@test "wake-up lost with the connection: the waiter still gets the lock" {
	zk_proxy
	hold --
	wait_in_line 1 -b "$PROXY" -- touch ran
	local waiter=$PID
	proxy drop
	release
	proxy cut
	proxy pass
	join "$waiter" 10
	equal "$status" 0
	[[ -e ran ]]
	wait_until 2 no_places
}

@test "server restarted while they wait: everybody keeps the place" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	zookeeper_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	holds_for 1500 alive "$COMMAND" "${waiter[@]}"
	release
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	nothing_left
}

@test "server gone while they wait: they say so with -v, and go on when it is back" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock-
	start "$DLOCK" run -b "$P_URI?connect-timeout=1s" -v -t 6s "$LOCK" -- sh -c 'mkdir in || echo overlap; echo ran; rmdir in'
	local first=$PID err=$ERR
	wait_until 5 waiters 1
	start "$DLOCK" run -t 6s "$LOCK" -- sh -c 'mkdir in || echo overlap; echo ran; rmdir in'
	local second=$PID
	wait_until 5 waiters 2
	zookeeper_stop "$P_DIR"
	holds_for 4000 alive "$first" "$second"
	has_line "$err" '^dlock: .*127\.0\.0\.1'
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	zn rm "$FOREIGN" 2>/dev/null || true
	join "$first" 20
	equal "$status" 0
	join "$second" 20
	equal "$status" 0
	equal "$(cat out.* | grep -c ran)" 2
	not grep -q overlap out.*
	nothing_left
}

@test "TERM ends dlock at once: connecting, waiting, server frozen" {
	tool listener
	start "$DLOCK" run -b "zk://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143

	tool listener ''
	start "$DLOCK" run -b "zk://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -INT "$PID"
	join "$PID" 2
	equal "$status" 130

	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 4s --
	wait_in_line 1 -t 4s -- true
	kill -STOP "$P_PID"
	kill -TERM "$PID"
	join "$PID" 4
	equal "$status" 143
	kill -CONT "$P_PID"
	release
	nothing_left
}

@test "TERM while releasing does not make dlock forget to" {
	hold --
	keeper_of "$HOLDER"
	# a keeper that is not scheduled for a moment, as on any busy machine
	kill -STOP "$KEEPER"
	kill -TERM "$COMMAND"
	wait_until 2 ended "$COMMAND"
	kill -TERM "$HOLDER"
	kill -CONT "$KEEPER"
	join "$HOLDER" 5
	wait_until 1 no_places
}

@test "the wait limit holds while no server can be reached" {
	tool listener
	timed "$DLOCK" run -w 500ms -b "zk://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	matches "$status" '^(122|124)$'
	between "$MS" 400 2000
}

# ---- three servers

@test "leader killed while holding: the command runs on under the same node" {
	private_ensemble
	zk_leader "$P_DIR"
	testify -t 12s
	local name
	name=$(places)
	contend "$COMMAND"
	wait_until 5 waiters 1
	kill_members "$LEADER"
	elected
	lives_on 4000
	equal "$(places | head -n 1)" "$name" "the holder's node"
	end_witness
	met_nobody 15
}

@test "leader killed while waiting: the waiters keep their places, and one at a time gets it" {
	private_ensemble
	zk_leader "$P_DIR"
	hold -t 8s --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -t 8s -- sh -c 'mkdir in || echo overlap >>order; echo "$0" >>order; rmdir in' "$n"
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

@test "leader killed as the lock is handed over: never two, never none" {
	private_ensemble
	zk_leader "$P_DIR"
	hold -t 8s --
	contend "$COMMAND"
	wait_until 5 waiters 1
	kill -KILL "$(<"$P_DIR/$LEADER/pid")"
	kill -TERM "$COMMAND"
	met_nobody 20
	join "$HOLDER" 15
	equal "$status" 143
	elected
	wait_until 10 no_places
}

@test "the connected server killed: holder and waiter move to another" {
	private_ensemble
	testify -t 12s
	local name
	name=$(places)
	contend "$COMMAND"
	wait_until 5 waiters 1
	member_of "$NODE/$name"
	kill_members "$MEMBER"
	elected
	lives_on 3000
	equal "$(places | head -n 1)" "$name" "the holder's node"
	member_of "$NODE/$(places | tail -n 1)"
	# a second one would be the quorum: it comes back first
	end_witness
	met_nobody 15
}

@test "the waiter's server killed: the place is kept" {
	private_ensemble
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

@test "a follower cut off, and no other known: dead in time, then the next one elsewhere" {
	private_ensemble
	zk_leader "$P_DIR"
	local follower=${FOLLOWERS[0]} others
	others=("$LEADER" "${FOLLOWERS[1]}")
	members "$follower"
	hold -t 3s -- sh -c 'exec "$TOOLS/zkwitness" -i "$0" "$NODE" "$DLOCK_FENCE" log' \
		"$(<"$P_DIR/$LEADER/port")"
	wait_until 5 has_line log ' held$'
	members "${others[@]}"
	contend "$COMMAND"
	wait_until 5 waiters 1
	frozen_at
	zk_signal "$P_DIR/$follower" STOP
	lost
	dead_by $((FAULT + 3000))
	met_nobody 15
	zk_signal "$P_DIR/$follower" CONT
}

@test "a follower cut off: holder and waiter move to another" {
	private_ensemble
	zk_leader "$P_DIR"
	local follower=${FOLLOWERS[0]} tries=0
	members "$LEADER" "${FOLLOWERS[1]}"
	local known=$PORTS
	members 1 2 3
	PORTS=$known
	# until it is this follower that it is connected to
	while ((++tries)); do
		testify -t 20s
		member_of "$NODE/$(places)"
		[[ $MEMBER != "$follower" ]] || break
		((tries < 30)) || fail "never connected to a member of three in $tries tries"
		end_witness
		wait_until 5 no_places
	done
	zk_signal "$P_DIR/$follower" STOP
	# longer than it could without another server
	lives_on 13000
	end_witness
	zk_signal "$P_DIR/$follower" CONT
}

@test "the leader frozen: no proof of it, no command; with time enough it runs on" {
	# followers notice after 3 s
	private_ensemble
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

@test "the old leader thaws when there is a new one: never two" {
	private_ensemble
	zk_leader "$P_DIR"
	local old=$LEADER
	# the holder knows the old leader only, the next one those that elect another
	members "$old"
	hold -t 2s -- "$TOOLS/witness" -i -l log
	members "${FOLLOWERS[@]}"
	contend "$COMMAND"
	wait_until 5 waiters 1
	frozen_at
	zk_signal "$P_DIR/$old" STOP
	lost
	dead_by $((FAULT + 2000))
	elected
	zk_signal "$P_DIR/$old" CONT
	met_nobody 20
}

@test "quorum lost: dead in time; waiters go on when it is back" {
	private_ensemble
	zk_leader "$P_DIR"
	local gone=("$LEADER" "${FOLLOWERS[0]}")
	testify -t 3s
	contend "$COMMAND"
	wait_until 5 waiters 1
	frozen_at
	kill_members "${gone[@]}"
	lost
	dead_by $((FAULT + 3000))
	holds_for 1500 alive "$CONTENDER"
	restart_members "${gone[@]}"
	met_nobody 30
	wait_until 5 no_places
}

@test "quorum lost for a moment: the command runs on" {
	private_ensemble
	zk_leader "$P_DIR"
	local gone=("$LEADER" "${FOLLOWERS[0]}")
	testify -t 30s
	contend "$COMMAND"
	wait_until 5 waiters 1
	kill_members "${gone[@]}"
	restart_members "${gone[@]}"
	elected
	lives_on 5000
	end_witness
	met_nobody 15
}

@test "all servers restarted: holder and waiters stay, in their order" {
	private_ensemble
	testify -t 30s
	local n waiter=() before
	for n in 1 2; do
		wait_in_line "$n" -t 30s -- sh -c 'echo "$0" >>order' "$n"
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

@test "session expired by the ensemble: the holder stops, the waiter queues again" {
	private_ensemble
	hold -t 20s --
	local holder=$HOLDER command=$COMMAND
	wait_in_line 1 -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	# it goes behind
	expire_owner "$NODE/$(places | sed -n 2p)"
	wait_until 5 waiters 2
	contend "$command"
	wait_until 5 waiters 3
	expire_owner "$NODE/$(places | head -n 1)"
	lost 5
	join "$first" 10
	join "$second" 10
	met_nobody 10
	equal "$(tr '\n' ' ' <order)" "2 1 "
	wait_until 5 no_places
}

@test "no quorum from the start: 122 within connect-timeout, one line" {
	private_ensemble
	zk_leader "$P_DIR"
	kill_members "$LEADER" "${FOLLOWERS[0]}"
	local member=${FOLLOWERS[1]}
	wait_until 10 not zk_serves "$P_DIR/$member"
	timed timeout 20 "$DLOCK" run -b "zk://127.0.0.1:$(<"$P_DIR/$member/port")?connect-timeout=1s" "$LOCK" -- touch ran
	equal "$status" 122
	between "$MS" 0 6000
	one_line '127\.0\.0\.1'
	[[ ! -e ran ]]
	# with a limit it may come back in time
	start "$DLOCK" run -w 40s "$LOCK" -- true
	restart_members "$LEADER" "${FOLLOWERS[0]}"
	join "$PID" 40
	matches "$status" '^(0|122)$'
}

@test "members killed at random while many take the lock: never two inside" {
	private_ensemble
	local n pid=() member
	echo 0 >count
	# each adds one, in two steps, as often as it gets in; the kernel tells of two inside
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
	# one that was stopped for a loss may have written the number, and no more
	between "$(($(<count) - $(wc -l <added)))" 0 "$(wc -l <statuses)" "$(sort statuses | uniq -c)"
	(($(<count) > 20)) || fail "only $(<count) in"
}

# more_added: somebody got in since it was asked last
more_added() {
	local lines
	[[ -e added ]] || return 1
	lines=$(wc -l <added)
	((lines > SEEN + 5)) && SEEN=$lines
}
