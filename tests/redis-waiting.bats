# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redis: waiters under faults, in order, and at what price.

load helpers
load redis

# ---- waiting through faults

@test "connection cut while waiting: the place in line is kept" {
	start_proxy "$REDIS_PORT"
	hold --
	wait_in_line 1 -b "$PROXY" -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	proxy cut
	holds_for 1000 waiters 2
	release
	join "$second" 15
	join "$first"
	equal "$(tr '\n' ' ' <order)" "1 2 "
	only_fences
}

@test "wake-up lost with the connection: the waiter still gets the lock" {
	start_proxy "$REDIS_PORT"
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
	only_fences
}

@test "restart with data lost while waiting: the waiter gets the lock" {
	private_redis
	redis_at "$P_DIR" set "$KEY" stranger px 600000
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	wait_until 5 p_waiters 1
	redis_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	join "$PID" 12
	equal "$status" 0
	[[ -e ran ]]
}

@test "queue lost while waiting: every waiter gets the lock" {
	hold --
	local waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo x >>ran'
		waiter+=("$PID")
	done
	rcli del "{$KEY}:queue" "{$KEY}:waiters"
	release
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 3
	only_fences
}

@test "TERM ends dlock at once: connecting, waiting, server frozen" {
	tool listener
	start "$DLOCK" run -b "redis://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143

	tool listener ''
	start "$DLOCK" run -b "redis://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -INT "$PID"
	join "$PID" 2
	equal "$status" 130

	private_redis
	hold -b "$P_URI" --
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	wait_until 5 p_waiters 1
	kill -STOP "$P_PID"
	kill -TERM "$PID"
	join "$PID" 4
	equal "$status" 143
	kill -CONT "$P_PID"
	# no ghost in line delays the next
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	local next=$PID
	holds_for 200 alive "$next"
	release
	join "$next" 3
}

@test "TERM while releasing, server frozen: bounded" {
	private_redis
	hold -b "$P_URI" -t 3s --
	kill -STOP "$P_PID"
	kill -TERM "$COMMAND"
	wait_until 2 ended "$COMMAND"
	kill -TERM "$HOLDER"
	join "$HOLDER" 5
	matches "$status" '^(143|123)$'
	kill -CONT "$P_PID"
	wait_until 4 p_key_gone
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
	wait_until 1 only_fences
}

@test "the wait limit holds while the server cannot be reached" {
	tool listener
	timed "$DLOCK" run -w 500ms -b "redis://127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	matches "$status" '^(122|124)$'
	between "$MS" 400 2000
}

# ---- fairness and its price

@test "dead waiters are skipped at once" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- touch dead
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	wait_in_line 4 -- touch ran
	local living=$PID start
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	now
	start=$NOW
	release
	join "$living" 5
	now
	# 1 s for each is what the contract allows
	between $((NOW - start)) 0 3000
	[[ -e ran && ! -e dead ]]
	only_fences
}

@test "a hung waiter delays the next by 5 s at most, and still gets its turn" {
	hold --
	wait_in_line 1 -- sh -c 'echo hung >>order'
	local hung=$PID family pid
	family=$(tree "$hung")
	wait_in_line 2 -- sh -c 'echo next >>order'
	local next=$PID start
	# shellcheck disable=SC2086 # words
	kill -STOP "$hung" $family
	now
	start=$NOW
	release
	join "$next" 8
	now
	between $((NOW - start)) 0 6000
	# shellcheck disable=SC2086 # words
	kill -CONT "$hung" $family
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	only_fences
}

@test "a waiter whose supervisor alone hangs delays the next by 5 s at most" {
	hold --
	wait_in_line 1 -- sh -c 'echo hung >>order'
	local hung=$PID
	wait_in_line 2 -- sh -c 'echo next >>order'
	local next=$PID start
	kill -STOP "$hung"
	now
	start=$NOW
	release
	join "$next" 8
	now
	between $((NOW - start)) 0 6000
	kill -CONT "$hung"
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	only_fences
}

# requests: how many lines of MONITOR stand for requests of clients, not for what
# scripts call, and not for our own
requests() {
	grep -E '^[0-9.]+ \[[0-9]+ [0-9a-z./:-]+\]' monitor | grep -Ecv '\[[0-9]+ (lua|unix)'
}

monitor() {
	local log=$T/monitor
	"$REDIS_CLI" -s "$P_DIR/sock" monitor </dev/null >"$log" 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 5 has_line "$log" OK
}

@test "a waiter costs one request in 5 s at most" {
	private_redis
	# someone who neither renews nor releases
	redis_at "$P_DIR" set "$KEY" stranger px 600000
	for _ in {1..10}; do
		start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	done
	wait_until 10 p_waiters 10
	monitor
	holds_for 11000 p_waiters 10
	# in 11 s three of each can be seen
	between "$(requests)" 0 30 requests
	redis_at "$P_DIR" del "$KEY"
}

@test "one release wakes one waiter: few requests a hand-over; no KEYS, no SCAN" {
	private_redis
	hold -b "$P_URI" --
	local n waiter=()
	for n in {1..30}; do
		start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
		waiter+=("$PID")
	done
	wait_until 10 p_waiters 30
	monitor
	release
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	# wake up, take, release, and what ends a connection
	between "$(requests)" 30 $((31 * 6)) requests
	run -0 redis_at "$P_DIR" info commandstats
	not grep -E 'cmdstat_(keys|scan|flush)' <<<"$output"
}
