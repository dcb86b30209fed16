# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Waiters on Redis: what they survive, in which order they get the lock, and what they cost.

load ../lib/helpers
load redis

# ---- waiting through faults

# [4]
@test "connection cut while waiting: the place in the queue is kept" {
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

# bats test_tags=more
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

# bats test_tags=more
@test "restart with data lost while waiting: the waiter gets the lock" {
	private_redis
	redis_at "$P_DIR" set "$KEY" stranger px 600000
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	wait_until 5 p_waiters 1
	server_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	join "$PID" 12
	equal "$status" 0
	[[ -e ran ]]
}

# [4]
# bats test_tags=more
@test "restart while waiting: waiters that come back late get their places in the queue again" {
	local n all=() late=()
	private_redis --appendonly yes --appendfsync always
	DLOCK_BACKEND=$P_URI
	hold -t 60s --
	for n in 1 2 3 4; do
		start "$DLOCK" run "$LOCK" -- sh -c "echo $n >>order"
		wait_until 10 p_waiters "$n"
		all+=("$PID")
		# shellcheck disable=SC2207 # words
		((n == 4)) || late+=("$PID" $(tree "$PID"))
	done
	kill -STOP "${late[@]}"
	server_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT" --appendonly yes --appendfsync always
	SERVICES+=("$(<"$P_DIR/pid")")
	# To the last one the others seem dead.
	wait_until 10 p_waiters 1
	kill -CONT "${late[@]}"
	wait_until 10 p_waiters 4
	release
	for n in "${all[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 4 "
}

# bats test_tags=more
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

@test "TERM ends dlock at once while it connects, while it waits, and when the server is frozen" {
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
	# The one that has ended does not delay the next one in line.
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	local next=$PID
	holds_for 200 alive "$next"
	release
	join "$next" 3
}

# bats test_tags=more
@test "TERM while releasing, server frozen: dlock ends in bounded time" {
	private_redis
	hold -b "$P_URI" -t 6s --
	kill -STOP "$P_PID"
	kill -TERM "$COMMAND"
	wait_until 2 ended "$COMMAND"
	kill -TERM "$HOLDER"
	join "$HOLDER" 8
	matches "$status" '^(143|123)$'
	kill -CONT "$P_PID"
	wait_until 8 p_key_gone
}

# bats test_tags=more
@test "TERM while releasing: dlock completes the release" {
	hold --
	keeper_of "$HOLDER"
	# The keeper is not scheduled for a moment, as happens on a busy machine.
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
	took "$MS" 400 2000
}

# ---- the order of waiters, and what it costs

# [9]
@test "dead waiters are skipped at once" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- touch dead
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	wait_in_line 4 -- touch ran
	# Each dead waiter may cost 1 s.
	passes_dead 3000 "$PID" "${dead[@]}"
	only_fences
}

# shown N: `dlock status` shows N waiters
shown() {
	"$DLOCK" status --json "$LOCK" >status.json || [[ $? == 1 ]]
	[[ $(jq '.waiters | length' status.json) == "$1" ]]
}

# bats test_tags=more
@test "waiters that were killed show no more, and are not counted" {
	need jq
	hold --
	local n dead=() living
	for n in 1 2 3 4; do
		wait_in_line "$n" -- sh -c "echo $n >>ran"
		if ((n == 2)); then
			living=$PID
		else
			# shellcheck disable=SC2207 # words
			dead+=("$PID" $(tree "$PID"))
		fi
	done
	shown 4
	# Killed one after the other, one could see that another is gone, and leave the line.
	kill -STOP "${dead[@]}"
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	wait_until 3 shown 1
	equal "$(jq '.waiters[0].pid' status.json)" "$living" "who is shown"
	# status takes no place in line away, since a waiter may only have lost its connection.
	waiters 4
	start "$DLOCK" run -v "$LOCK" -- sh -c 'echo new >>ran'
	local new=$PID new_err=$ERR
	wait_until 10 has_line "$new_err" ' ahead'
	has_line "$new_err" ', 1 ahead,' || fail "$(<"$new_err")"
	shown 2
	release
	join "$living"
	join "$new"
	equal "$(tr '\n' ' ' <ran)" "2 new "
	only_fences
}

# bats test_tags=more
@test "waiters get the lock although 1200 dead waiters are in the queue" {
	need jq
	hold --
	wait_in_line 1 -- true
	local first=$PID
	wait_in_line 2 -- true
	local second=$PID
	# 1200 dead waiters are in line, between the two and behind them.
	rcli eval "local place = redis.call('ZSCORE', KEYS[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])
		for i = 1, 1200 do
			local at = string.format('%.0f', place + i + (i > 600 and 3600000000 or 0))
			redis.call('ZADD', KEYS[1], at, 'dead' .. i)
			redis.call('HSET', KEYS[2], 'dead' .. i, at .. ' x 0 0 ' .. at .. ' host=h')
		end" 2 "{$KEY}:queue" "{$KEY}:waiters" >reply
	waiters 1202
	shown 2
	equal "$(jq -c '[.waiters[].pid]' status.json)" "[$first,$second]"
	release
	join "$first"
	join "$second"
	rcli del "{$KEY}:queue" "{$KEY}:waiters" >reply
}

@test "a hung waiter delays the next by 3 s, also when a minimum hold ends" {
	lapses_past_hung
}

@test "a hung waiter delays the next by 1.5 s at most, and still gets its turn" {
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
	took $((NOW - start)) 0 2000
	# shellcheck disable=SC2086 # words
	kill -CONT "$hung" $family
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	only_fences
}

# bats test_tags=more
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
	took $((NOW - start)) 0 6000
	kill -CONT "$hung"
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	only_fences
}

# [2]
# bats test_tags=more
@test "a server out of memory: a release still wakes the next waiter" {
	private_redis --maxmemory-policy noeviction
	DLOCK_BACKEND=$P_URI
	hold -t 60s --
	start "$DLOCK" run "$LOCK" -- touch ran
	wait_until 5 p_waiters 1
	# The waiter has just asked, and is lent the lock.
	redis_at "$P_DIR" config set maxmemory 1
	release
	join "$PID" 5
	equal "$status" 0
	[[ -e ran ]]
	p_key_gone
}

# bats test_tags=more
@test "a server out of memory: a release keeps the lock for --min-hold, and no longer" {
	private_redis --maxmemory-policy noeviction
	DLOCK_BACKEND=$P_URI
	hold -t 60s --min-hold 1s --
	redis_at "$P_DIR" config set maxmemory 1
	release
	wait_until 3 p_key_gone
}

# ---- holds that share a lock

# running N: the commands of N waiters run
running() {
	local files=(ran.*)
	[[ -e ${files[0]} ]] && ((${#files[@]} == $1))
}

# line_up N [OPTION]...: starts N waiters, the first ones in line, whose commands stay
line_up() {
	local n=$1 i
	shift
	for ((i = 1; i <= n; i++)); do
		wait_in_line "$i" "$@" -- sh -c 'touch ran.$$; exec sleep 300'
		WAITERS+=("$PID")
	done
}

# end_waiters: ends the waiters and their commands
end_waiters() {
	local pid
	for pid in "${WAITERS[@]}"; do
		kill -TERM "$pid"
	done
	for pid in "${WAITERS[@]}"; do
		join "$pid"
	done
}

# together N: N commands begin within a second of each other, and no other one follows
together() {
	wait_until 7 compgen -G 'ran.*'
	wait_until 1 running "$1"
	holds_for 1200 running "$1"
}

@test "shared waiters begin together when a foreign client has released the lock" {
	WAITERS=()
	rcli set "$KEY" stranger px 600000
	line_up 5 --shared
	rcli del "$KEY"
	together 5
	waiters 0
	end_waiters
	only_fences
}

# [8]
# bats test_tags=more
@test "shared waiters begin together when the lease of a crashed holder has ended" {
	WAITERS=()
	held_by_stranger
	line_up 5 --shared
	rcli pexpire "$KEY" 300
	together 5
	end_waiters
	only_fences
}

# [8]
# bats test_tags=more
@test "waiters for slots begin together, as many as there are slots" {
	WAITERS=()
	rcli set "$KEY" stranger px 600000
	line_up 5 --slots 3
	rcli del "$KEY"
	together 3
	waiters 2
	end_waiters
	only_fences
}

# bats test_tags=more
@test "shared waiters begin together up to the first one that wants the lock alone" {
	WAITERS=()
	rcli set "$KEY" stranger px 600000
	line_up 3 --shared
	wait_in_line 4 -- true
	local alone=$PID
	wait_in_line 5 --shared -- true
	rcli del "$KEY"
	together 3
	waiters 2
	end_waiters
	join "$alone"
	equal "$status" 0
	join "$PID"
	equal "$status" 0
	only_fences
}

# kill_writer PID: kills this waiter for the whole lock, and all its processes, at once
kill_writer() {
	local all
	# shellcheck disable=SC2207 # words
	all=("$1" $(tree "$1"))
	kill -STOP "${all[@]}"
	kill -KILL "${all[@]}"
	wait_until 5 ended "${all[@]}"
}

# [10]
# bats test_tags=more
@test "a dead writer at the head of the queue does not exclude a reader with -n" {
	hold --shared --
	wait_in_line 1 -- touch never
	kill_writer "$PID"
	run -0 "$DLOCK" run --shared -n "$LOCK" -- true
	[[ ! -e never ]]
	release
	only_fences
}

# bats test_tags=more
@test "a dead writer at the head of the queue does not exclude a reader that waits" {
	hold --shared --
	wait_in_line 1 -- touch never
	local writer=$PID
	wait_in_line 2 --shared -- touch ran
	local reader=$PID
	kill_writer "$writer"
	# This one finds the writer dead, and calls the reader, which goes first.
	run "$DLOCK" run --shared -n "$LOCK" -- true
	wait_until 2 test -e ran
	run -0 "$DLOCK" run --shared -n "$LOCK" -- true
	join "$reader"
	[[ ! -e never ]]
	release
	only_fences
}

# ---- a lock that a waiter takes when it is called

# held_by_stranger [redis_at DIR]: a dlock that neither renews nor releases holds the lock
held_by_stranger() {
	local redis=("${@:-rcli}")
	"${redis[@]}" set "$KEY" stranger px 600000
	"${redis[@]}" hset "{$KEY}:holders" stranger '1 1 host=h'
}

held_whole() {
	(($(rcli pttl "$KEY") > 20000))
}

@test "a waiter that was called holds for the whole TTL, and is shown as the holder" {
	hold --
	wait_in_line 1 -t 30s -- sh -c 'echo "$DLOCK_FENCE" >fence; exec sleep 300'
	local second=$PID before=$FENCE
	release
	line fence
	wait_until 1 held_whole
	((LINE > before)) || fail "fence $LINE after $before"
	run -1 --separate-stderr "$DLOCK" status --json "$LOCK"
	equal "$(jq -r '[.fence, (.holders | length), .holders[0].fence, .holders[0].command,
		(.waiters | length)] | join(" ")' <<<"$output")" "$LINE 1 $LINE sh 0"
	kill -TERM "$second"
	join "$second"
	only_fences
}

# bats test_tags=more
@test "a waiter that was called, --no-renew: held for one whole TTL" {
	hold --
	wait_in_line 1 -t 30s --no-renew -- sh -c 'touch ran; exec sleep 300'
	release
	wait_until 5 test -e ran
	wait_until 2 held_whole
	kill -TERM "$PID"
	join "$PID"
}

# bats test_tags=more
@test "acquire that was called has the lock for the whole TTL at once" {
	hold --
	start "$DLOCK" acquire -t 30s "$LOCK"
	wait_until 5 waiters 1
	release
	join "$PID" 5
	equal "$status" 0
	held_whole
	run -0 "$DLOCK" release "$LOCK" "$(<"$OUT")"
}

# bats test_tags=more
@test "called, and the keeper stopped at once: the tree is dead before the lease ends" {
	hold --
	wait_in_line 1 -t 5s -- sh -c 'read -r keeper <keeper && kill -STOP "$keeper" && echo $$ >its-pid &&
		exec "$TOOLS/witness" -i -l log -p "$0" -k "dlock:$DLOCK_NAME" -t "$DLOCK_TOKEN"' "$REDIS_PORT"
	local second=$PID err=$ERR
	keeper_of "$second"
	echo "$KEEPER" >keeper
	release
	HOLDER=$second HOLDER_ERR=$err
	wait_until 5 has_line log ' held '
	read -r COMMAND <its-pid
	lost
	dead_in_time
}

@test "called, and the keeper killed at once: dlock reports it, and the lease lapses" {
	hold --
	wait_in_line 1 -t 5s -- sh -c 'read -r keeper <keeper && kill -KILL "$keeper" && exec sleep 0.3'
	keeper_of "$PID"
	echo "$KEEPER" >keeper
	release
	join "$PID"
	equal "$status" 0
	has_line "$ERR" "^dlock: $LOCK: the keeper process was killed by signal 9; the lock cannot be renewed$"
	wait_until 8 only_fences
}

# bats test_tags=more
@test "--min-hold: a waiter reports at once until when the lock is kept" {
	kept_while_waiting
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

# ten_wait: ten waiters sleep for 11 s or more. Sets MS to how long it was, and EACH to how many requests one
# that asks every 5 s has sent at most.
ten_wait() {
	local start
	for _ in {1..10}; do
		start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	done
	wait_until 10 p_waiters 10
	# What each of them asks before it sleeps is not counted.
	pause "$SLOW"
	monitor
	now
	start=$NOW
	holds_for 11000 p_waiters 10
	now
	MS=$((NOW - start + 500)) EACH=$((1 + (NOW - start + 500) / 5000))
}

@test "a waiter costs one request in 5 s at most" {
	private_redis
	held_by_stranger redis_at "$P_DIR"
	ten_wait
	between "$(requests)" 0 $((10 * EACH)) requests
	redis_at "$P_DIR" del "$KEY"
}

# bats test_tags=more
@test "another program's lock: the first waiter costs 4 requests a second, the others as ever" {
	private_redis
	redis_at "$P_DIR" set "$KEY" stranger px 600000
	ten_wait
	# The first sends one each 0.2 to 0.3 s.
	between "$(requests)" 25 $((9 * EACH + MS / 200 + 1)) requests
	redis_at "$P_DIR" del "$KEY"
}

@test "one release wakes one waiter with few requests, without KEYS and SCAN" {
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
	# A hand-over wakes, takes, releases and ends a connection.
	between "$(requests)" 30 $((31 * 6)) requests
	run -0 redis_at "$P_DIR" info commandstats
	not grep -E 'cmdstat_(keys|scan|flush)' <<<"$output"
}

@test "a server that is gone while dlock waits: -v and the end of the wait report for how long" {
	private_redis
	gone_while_waiting "redis 127\.0\.0\.1:$P_PORT" server_stop "$P_DIR"
}
