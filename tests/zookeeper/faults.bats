# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: the guarantees of holders and waiters while their server dies, freezes or ends
# sessions, and while answers are lost. More servers: ensemble.bats.

load ../lib/helpers
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

# term_came LOW HIGH: the witness got TERM so long after the fault
term_came() {
	local term
	term=$(awk '$2 == "TERM" { print $1; exit }' log)
	took "$((term - FAULT))" "$1" "$2" "time from the fault to TERM"
}

# bats test_tags=more
@test "server frozen: the tree is dead before the session ends; TERM came before" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 6s -k 1200ms
	frozen_at
	kill -STOP "$P_PID"
	lost
	dead_by $((FAULT + 6000))
	# at least 3/5 of the session are proven, and the last proof is up to a third of that old
	term_came $((3600 - 1200 - 1200 - 150)) $((6000 - 1200))
	kill -CONT "$P_PID"
	# The session runs out.
	wait_until 10 no_places
	nothing_left
}

# bats test_tags=more
@test "server frozen for a moment: the command runs on" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -b "$P_URI?timeout=1s" -t 15s -k 1s
	kill -STOP "$P_PID"
	holds_for 1500 alive "$COMMAND"
	kill -CONT "$P_PID"
	lives_on 6000
	end_witness
	nothing_left
}

@test "server gone for good: dead in time" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 4s
	frozen_at
	server_stop "$P_DIR"
	lost
	dead_by $((FAULT + 4000))
}

@test "server restarted at once: command, session and node stay" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	testify -t 60s
	local name
	name=$(places)
	server_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	lives_on 3000
	equal "$(places)" "$name"
	end_witness
	nothing_left
}

# bats test_tags=more
@test "server restarted with its data lost: the command ends, and the lock can be taken again" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 5s --
	wait_known 1 -t 10s -w 90s -- true
	local waiter=$PID err=$ERR
	server_stop "$P_DIR"
	rm -r "$P_DIR/version-2"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	lost
	join "$waiter" 60
	equal "$status" 0 "status of the waiter ($(<"$err"))"
}

@test "connection black-holed: the command is dead in time, and the next one holds after that" {
	zk_proxy
	testify -b "$PROXY" -t 4s
	contend "$COMMAND"
	frozen_at
	proxy blackhole
	lost
	dead_by $((FAULT + 4000))
	met_nobody
}

# bats test_tags=more
@test "answers swallowed for good: dead in time, though the server hears the pings" {
	zk_proxy
	testify -b "$PROXY" -t 4s
	frozen_at
	proxy drop
	lost
	dead_by $((FAULT + 4000))
	# From now on nobody pings.
	proxy cut
	wait_until 8 no_places
	nothing_left
}

# bats test_tags=more
@test "answers swallowed for a moment: the command runs on" {
	zk_proxy
	testify -b "$PROXY?timeout=1s" -t 15s -k 1s
	proxy drop
	holds_for 1500 alive "$COMMAND"
	proxy pass
	lives_on 6000
	end_witness
}

@test "keeper stopped: the tree is dead before the session ends" {
	testify -t 4s
	contend "$COMMAND"
	keeper_of "$HOLDER"
	frozen_at
	kill -STOP "$KEEPER"
	lost
	dead_by $((FAULT + 4000))
	met_nobody
}

# bats test_tags=more
@test "keeper killed: the tree is dead before the session ends" {
	testify -t 4s
	contend "$COMMAND"
	keeper_of "$HOLDER"
	frozen_at
	kill -KILL "$KEEPER"
	lost
	dead_by $((FAULT + 4000))
	met_nobody
}

# bats test_tags=more
@test "all of dlock stopped but the library's pings: dead in time, or held all the time" {
	testify -t 4s
	kill -STOP "$HOLDER"
	holds_for 5000 lost_nothing
	kill -CONT "$HOLDER"
	if alive "$COMMAND"; then
		end_witness
	else
		lost
	fi
}

# bats test_tags=more
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
	wait_until 8 no_places
	nothing_left
}

# bats test_tags=more
@test "--no-renew: dead before the end, however late the server's answers come" {
	zk_proxy
	proxy hold 200
	testify -b "$PROXY" -t 5s --no-renew
	not_renewed
	dead_by "$(($(awk '$2 == "pid" || $2 == "held" { print $1; exit }' log) + 5000))"
	nothing_left
}

# bats test_tags=more
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

# bats test_tags=more
@test "--on-lost warn: the command goes on, dlock reports it, and exits with 123 at the end" {
	hold -t 6s --on-lost warn --
	expire_owner "$NODE/$(places)"
	wait_until 5 has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	holds_for 1000 alive "$COMMAND"
	# No new session of dlock's holds the lock.
	equal "$(places)" ""
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 123
}

# bats test_tags=more
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
	# Where the directory is there, the first request for a place succeeds.
	directory
	for options in '' -s; do
		proxy cut-on "$([[ $options ]] && echo __READ__ || echo -lock-)"
		# shellcheck disable=SC2086 # words
		run -0 "$DLOCK" run -b "$PROXY" $options "$LOCK" -- sh -c 'echo x >>runs; "$TOOLS/znode" "$PORTS" ls "$NODE"'
		equal "$(grep -vc -- -dlock- <<<"$output")" 1 "nodes while it ran, shadows not counted"
		equal "${#lines[@]}" 2 "nodes while it ran"
		equal "$(wc -l <runs)" $((++n)) "times that it ran"
		proxy_stat cut
		equal "$VALUE" "$n" "faults that happened"
		wait_until 2 no_places
	done
}

# bats test_tags=more
@test "create reply swallowed: no ghost holder, no ghost waiter" {
	zk_proxy
	directory
	proxy drop-on -lock-
	start "$DLOCK" run -b "$PROXY?timeout=2s" -t 6s "$LOCK" -- echo ran
	local dlock=$PID out=$OUT
	wait_until 5 place_count 1
	proxy pass
	join "$dlock" 15
	# dlock may try again or give up: both are right.
	matches "$status $(<"$out")" '^(0 ran|122 )$'
	wait_until 8 no_places
	nothing_left
}

# bats test_tags=more
@test "create reply of a waiter lost: it has one place in the queue" {
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

# bats test_tags=more
@test "create reply of a waiter lost, and a later reply with the next connection: it has one place" {
	hold --
	zk_proxy
	local n
	for n in 3 4 5 6 7 8; do
		proxy cut-on -lock-
		proxy cut-after "$n"
		start "$DLOCK" run -b "$PROXY" "$LOCK" -- true
		wait_until 5 waiters 1
		holds_for 300 waiters 1
		kill -TERM "$PID"
		wait_until 5 waiters 0
	done
	proxy_stat cut
	between "$VALUE" 8 12 "faults that happened"
	release
}

# bats test_tags=more
@test "create reply of a waiter lost, and it gives up: its place does not stay" {
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
	# The place is gone within a TTL.
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
		run --separate-stderr timeout 30 "$DLOCK" run -b "$PROXY" -t 12s "$LOCK" -- sh -c 'echo x >>runs
			[ "$("$TOOLS/znode" "$PORTS" ls "$NODE" | grep -vc -- -dlock-)" = 1 ]'
		equal "$status" 0 "status with request $n lost"
		equal "$(wc -l <runs)" $((++runs)) "times that it ran, request $n lost"
		wait_until 5 no_places
	done
	proxy_stat cut
	between "$VALUE" 3 8 "faults that happened"
}

# bats test_tags=more
@test "connection cut while status reads: it lists the holders, and what they hold" {
	zk_proxy
	hold --
	proxy cut-on "$LOCK"
	run --separate-stderr -0 "$DLOCK" status -b "$PROXY"
	[[ $output == *"$LOCK"* ]] || fail "not listed: $output"
	proxy_stat cut
	equal "$VALUE" 1 "faults that happened"
	# The node is asked for by its whole name.
	proxy cut-on -lock-
	run --separate-stderr -1 "$DLOCK" status -b "$PROXY" "$LOCK"
	matches "$output" "pid $HOLDER" holder
	proxy_stat cut
	equal "$VALUE" 2 "faults that happened"
	release
}

# bats test_tags=more
@test "all answers swallowed: 122, in bounded time, and no ghost longer than a TTL" {
	zk_proxy
	proxy drop
	run --separate-stderr -122 timeout 15 "$DLOCK" run -b "$PROXY?timeout=300ms&connect-timeout=500ms" -t 2s "$LOCK" -- touch ran
	one_line '127\.0\.0\.1'
	[[ ! -e ran ]]
	wait_until 5 no_places
}

@test "answer to the release lost: the command's status, and the lock is free" {
	zk_proxy
	hold -b "$PROXY" --
	proxy cut-after
	release
	wait_until 2 no_places
	hold -b "$PROXY?timeout=1s" -t 4s --
	proxy drop
	release
	wait_until 8 no_places
}

@test "server unreachable at release: bounded, and the lock lapses" {
	zk_proxy
	hold -b "$PROXY?timeout=1s&connect-timeout=1s" -t 5s --
	proxy blackhole
	kill -TERM "$COMMAND"
	join "$HOLDER" 12
	matches "$status" '^(143|123)$'
	wait_until 8 no_places
}

# ---- one server: waiters

# bats test_tags=more
@test "connection cut while waiting: the place in the queue is kept" {
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

# bats test_tags=more
@test "waiting: a session that expires while the waiter reads the holder enters the queue again" {
	zk_proxy
	hold -t 30s --
	wait_in_line 1 -b "$PROXY" -v -t 30s --once-per 1s -- false
	local waiter=$PID err=$ERR old
	old=$(owner_of "$NODE/$(places | tail -n 1)")
	# After its first check of the holder it reads the record each second, here for as long as it may.
	# A failure retains no lock.
	pause 1.5
	proxy blackhole
	pause 1.5
	zn expire "$old"
	wait_until 2 place_count 1
	pause 2
	proxy pass
	wait_until 8 place_count 2
	alive "$waiter"
	has_line "$err" 'back at the end of the queue: .*the session has expired'
	release
	join "$waiter" 10
	equal "$status" 1
	wait_until 4 no_places
}

# bats test_tags=more
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

# bats test_tags=more
@test "an event that arrives together with a reply wakes the waiter" {
	zk_proxy
	# All that the server sends within this time arrives at once.
	proxy hold 150
	local seconds
	for seconds in 0.3 0.45 0.6 0.75 0.9; do
		hold --
		start "$DLOCK" run -b "$PROXY" "$LOCK" -- true
		local waiter=$PID
		pause "$seconds"
		release
		join "$waiter" 4
		equal "$status" 0 "status after $seconds s"
	done
}

# in_contact: a waiter of 4 s that has just seen its queue, behind $PROXY, will have its first contact
# soon, and replies take so long from now on that what happens next is reported before that one's
in_contact() {
	pause 0.5
	proxy hold 400
	pause 0.3
}

# bats test_tags=more
@test "a waiter ends while the next one has a contact: that one waits on" {
	local first
	zk_proxy
	hold --
	wait_in_line 1 -- true
	first=$PID
	wait_in_line 2 -b "$PROXY" -t 4s -- true
	in_contact
	kill -TERM "$first"
	join "$first"
	holds_for 1000 alive "$PID"
	release
	join "$PID" 5
	equal "$status" 0 "status of the waiter ($(<"$ERR"))"
	wait_until 5 no_places
}

# bats test_tags=more
@test "a slot is freed while a waiter has a contact: it gets the slot" {
	local first command
	zk_proxy
	hold --slots 2 --
	first=$HOLDER command=$COMMAND
	hold --slots 2 --
	wait_in_line 2 --slots 2 -b "$PROXY" -t 4s -- true
	in_contact
	kill -TERM "$command"
	join "$first"
	join "$PID" 3
	equal "$status" 0 "status of the waiter ($(<"$ERR"))"
	release
	wait_until 5 no_places
}

@test "server restarted while clients wait: everybody keeps the place" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 60s --
	local n waiter=()
	for n in 1 2 3; do
		wait_known "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	server_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	holds_for 1500 alive "$COMMAND" "${waiter[@]}"
	release
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0 "status of a waiter ($(cat err.*))"
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	nothing_left
}

@test "server gone before a client knows that it is in the queue: 122 in time, and nothing is left" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 60s --
	zk_proxy "$P_PORT"
	proxy drop-on -lock-
	wait_in_line 1 -t 4s -b "$PROXY?timeout=9s&connect-timeout=2s" -- touch ran
	server_stop "$P_DIR"
	join "$PID" 5
	equal "$status" 122
	[[ ! -e ran ]]
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	wait_until 15 waiters 0
	release
}

# bats test_tags=more
@test "server gone while clients wait: they report it with -v, and go on when it is back" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock-
	start "$DLOCK" run -b "$P_URI?connect-timeout=1s" -v -t 20s "$LOCK" -- sh -c 'mkdir in || echo overlap; echo ran; rmdir in'
	local first=$PID err=$ERR
	wait_until 5 has_line "$err" ': waiting'
	wait_known 2 -t 20s -- sh -c 'mkdir in || echo overlap; echo ran; rmdir in'
	local second=$PID
	server_stop "$P_DIR"
	holds_for 4000 alive "$first" "$second"
	has_line "$err" '^dlock: .*127\.0\.0\.1'
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	zn rm "$FOREIGN" 2>/dev/null || true
	join "$first" 30
	equal "$status" 0
	join "$second" 30
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
	hold -t 20s --
	wait_in_line 1 -t 6s -- true
	kill -STOP "$P_PID"
	kill -TERM "$PID"
	join "$PID" 4
	equal "$status" 143
	kill -CONT "$P_PID"
	release
	nothing_left
}

@test "TERM during a release does not keep dlock from releasing" {
	hold --
	keeper_of "$HOLDER"
	# The keeper is stopped for a moment, as a busy machine may do it.
	kill -STOP "$KEEPER"
	kill -TERM "$COMMAND"
	wait_until 2 ended "$COMMAND"
	kill -TERM "$HOLDER"
	kill -CONT "$KEEPER"
	join "$HOLDER" 5
	wait_until 1 no_places
}

# bats test_tags=more
@test "--wait ends the wait also while no server can be reached" {
	tool listener
	timed "$DLOCK" run -w 500ms -b "zk://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	matches "$status" '^(122|124)$'
	took "$MS" 400 2000
}

# bats test_tags=more
@test "a hold that nobody took and that could not be released: its keeper asks for another one" {
	local waiter
	zk_proxy
	hold -t 20s --
	wait_in_line 1 -b "$PROXY?timeout=1s&connect-timeout=1s" -t 15s -w 30s -- true
	waiter=$PID
	keeper_of "$waiter"
	guard_of "$waiter"
	kill -STOP "$waiter" "$GUARD"
	release
	wait_until 8 shows_holder "$waiter"
	proxy blackhole
	# No offer stands for that long.
	holds_for 6000 alive "$KEEPER"
	proxy pass
	kill -CONT "$waiter" "$GUARD"
	join "$waiter" 20
	equal "$status" 0 "status of the waiter: $(<"$ERR")"
	wait_until 5 no_places
}

# shows_holder PID: status shows that the dlock with this pid holds
shows_holder() {
	[[ $("$DLOCK" status --json "$LOCK" | jq '.holders[].pid') == "$1" ]]
}
