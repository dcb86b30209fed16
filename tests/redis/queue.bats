# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redis: --replace-waiters under faults. What it does without faults is in conformance/run.bats.

load ../lib/helpers
load redis

# nothing_left: the server has nothing of this lock but its fence, and the newest waiter
nothing_left() {
	key_gone && ! lock_keys | grep -Eqv '}:(fence|newest)$'
}

# replaced PID ERR NEWER: this waiter ends, and says that NEWER has replaced it
replaced() {
	join "$1" 10
	equal "$status" 124
	matches "$(<"$2")" "^dlock: $LOCK: replaced by .* pid $3 "
}

# newest_is PID: the server knows this one as the newest that replaces others
newest_is() {
	rcli get "{$KEY}:newest" | grep -q "&pid=$1&"
}

# order WORD...: what the commands have written to ./order
order() {
	equal "$(tr '\n' ' ' <order)" "$* "
}

@test "--replace-waiters: the reply to the newer waiter is lost, and it comes once" {
	local older older_err newer
	hold --
	wait_in_line 1 --replace-waiters -- touch never
	older=$PID older_err=$ERR
	start_proxy "$REDIS_PORT"
	# The first request asks, the second one subscribes, and the third one stands in line.
	proxy cut-after 3
	start "$DLOCK" run -b "$PROXY" --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	newer=$PID
	replaced "$older" "$older_err" "$newer"
	wait_until 10 waiters 1
	holds_for 1000 alive "$newer"
	proxy_stat cut
	equal "$VALUE" 1 "faults that happened"
	release
	join "$newer"
	equal "$status" 0
	order newer
	[[ ! -e never ]]
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters: after a lost message, the next try replaces the waiter" {
	local older older_err
	start_proxy "$REDIS_PORT"
	hold --
	wait_in_line 1 -b "$PROXY" --replace-waiters -- touch never
	older=$PID older_err=$ERR
	proxy drop
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	local newer=$PID
	wait_until 5 newest_is "$newer"
	proxy cut
	proxy pass
	replaced "$older" "$older_err" "$newer"
	release
	join "$newer"
	order newer
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters: a waiter that was cut off while a newer one came and ran is replaced" {
	local older older_err newer
	start_proxy "$REDIS_PORT"
	hold --
	wait_in_line 1 -b "$PROXY" --replace-waiters -- touch never
	older=$PID older_err=$ERR
	proxy refuse
	proxy cut
	release
	# The older one is dead to the server: the newer one need not wait.
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	newer=$PID
	join "$newer"
	equal "$status" 0
	nothing_left
	proxy pass
	replaced "$older" "$older_err" "$newer"
	[[ ! -e never ]]
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters: a waiter that was stopped while a newer one came is replaced, and never runs" {
	local older older_err newer family
	hold --
	wait_in_line 1 --replace-waiters -- touch never
	older=$PID older_err=$ERR
	family=$(tree "$older")
	# shellcheck disable=SC2086 # words
	kill -STOP "$older" $family
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	newer=$PID
	wait_until 5 first_is "$newer"
	release
	join "$newer" 8
	equal "$status" 0
	# shellcheck disable=SC2086 # words
	kill -CONT "$older" $family
	replaced "$older" "$older_err" "$newer"
	[[ ! -e never ]]
	nothing_left
}

# first_is PID: this waiter is the first in line
first_is() {
	rcli hget "{$KEY}:waiters" "$(rcli zrange "{$KEY}:queue" 0 0)" | grep -q "&pid=$1&"
}

# bats test_tags=more
@test "--replace-waiters: the waiters behind a replaced one get the free room at once" {
	local older older_err shared
	hold -s --
	wait_in_line 1 --replace-waiters -- touch never
	older=$PID older_err=$ERR
	wait_in_line 2 -s -- sh -c 'echo shared >>order; exec sleep 300'
	shared=$PID
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	local newer=$PID
	replaced "$older" "$older_err" "$newer"
	wait_until 3 has_line order shared
	kill -TERM "$shared"
	join "$shared"
	release
	join "$newer"
	order shared newer
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters: a foreign holder: the new first waiter tries at once" {
	local older older_err middle newer start
	rcli set "$KEY" stranger px 600000
	wait_in_line 1 --replace-waiters -- touch never
	older=$PID older_err=$ERR
	wait_in_line 2 -- sh -c 'echo middle >>order'
	middle=$PID
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	newer=$PID
	replaced "$older" "$older_err" "$newer"
	now
	start=$NOW
	rcli del "$KEY"
	join "$middle"
	join "$newer"
	now
	# without the message the next look would be up to 5.5 s away
	took $((NOW - start)) 0 4000
	order middle newer
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters with -n replaces nobody" {
	hold --
	wait_in_line 1 --replace-waiters -- sh -c 'echo waiter >>order'
	local waiter=$PID
	run --separate-stderr -124 "$DLOCK" run -n --replace-waiters "$LOCK" -- true
	one_line ': held by '
	holds_for 300 alive "$waiter"
	release
	join "$waiter"
	equal "$status" 0
	order waiter
	run -0 "$DLOCK" run -n --replace-waiters "$LOCK" -- true
	nothing_left
}

# bats test_tags=more
@test "--replace-waiters: the server's clock was set back since the older one came" {
	local older older_err
	hold --
	wait_in_line 1 --replace-waiters -- touch never
	older=$PID older_err=$ERR
	# as if both had come in an hour
	rcli eval "local note = redis.call('HGET', KEYS[1], ARGV[1])
		local at = string.format('%.0f', string.match(note, '^%d+') + 3600000000)
		redis.call('HSET', KEYS[1], ARGV[1], (string.gsub(note, '^%d+ (%w+ %d+ %d+) %d+', at .. ' %1 ' .. at)))
		redis.call('ZADD', KEYS[2], at, ARGV[1])
		redis.call('SET', KEYS[3], at .. ' ' .. ARGV[1] .. ' host=h')" 3 \
		"{$KEY}:waiters" "{$KEY}:queue" "{$KEY}:newest" "$(rcli zrange "{$KEY}:queue" 0 0)" >reply
	equal "$(<reply)" ""
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newer >>order'
	local newer=$PID newer_err=$ERR
	replaced "$older" "$older_err" "$newer"
	# The older ones may have left, and have left this: the next one is newer, and goes on.
	rcli set "{$KEY}:newest" "$(($(date +%s) + 7200))000000 0123456789abcdef host=h" >reply
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo newest >>order'
	replaced "$newer" "$newer_err" "$PID"
	newer=$PID
	holds_for 300 alive "$newer"
	release
	join "$newer"
	equal "$status" 0
	order newest
}

@test "redis-py's lock is not taken by a replacement" {
	rcli set "$KEY" stranger px 600000
	local first
	wait_in_line 1 --replace-waiters -- sh -c 'echo first >>order'
	first=$PID
	start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'echo second >>order'
	join "$first"
	equal "$status" 124
	holds_for 1000 alive "$PID"
	key_is stranger
	rcli del "$KEY"
	join "$PID"
	order second
	nothing_left
}

# bats test_tags=more
@test "a reply lost at each request of a waiter that replaces others: it runs once, and nothing is left" {
	local n waiter other
	start_proxy "$REDIS_PORT"
	# The second one subscribes, on a connection of its own: without an answer, dlock ends with 122.
	for n in 1 3 4; do
		hold --
		wait_in_line 1 -- sh -c 'echo other >>order'
		other=$PID
		proxy cut-after "$n"
		start "$DLOCK" run -b "$PROXY" --replace-waiters "$LOCK" -- \
			sh -c 'echo "$0" >>order' "$n"
		waiter=$PID
		wait_until 10 waiters 2
		release
		join "$other"
		join "$waiter"
		equal "$status" 0
		wait_until 2 nothing_left
	done
	order other 1 other 3 other 4
	proxy_stat cut
	equal "$VALUE" 3 "faults that happened"
}

@test "what outlives the queue is not listed as a lock, with or without a prefix" {
	local uri name key
	for uri in "$REDIS" "$REDIS?prefix="; do
		# Keys beside a key with braces have no braces of their own.
		for name in "$LOCK" "$LOCK{x}"; do
			run -0 "$DLOCK" run -b "$uri" --replace-waiters "$name" -- true
			run -0 "$DLOCK" status -b "$uri"
			[[ $output != *"$LOCK"* ]] || fail "$output"
		done
	done
	equal "$(lock_keys | grep -c ':newest$')" 4
	for key in $(lock_keys | grep ':newest$'); do
		between "$(rcli ttl "$key")" 2591000 2592000 "seconds that it is kept"
	done
}
