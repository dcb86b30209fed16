# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The script itself, against a table of states of the lock. tests/redis/redis.bash says what the numbers
# in brackets name.

load ../lib/helpers
load redis

LUA=$TOP/src/backends/redis/lua
RECORD='ttl=5000&host=h'

prepare() {
	cat "$LUA"/{common,plain,lock}.lua >"$T/plain.lua"
	cat "$LUA"/{common,redisson,lock}.lua >"$T/redisson.lua"
}

# plain WHAT TOKEN [ARG]...: runs the script, with the lifetimes of waiters as dlock gives them
# (lock/hold.h), and prints its reply in one line
plain() {
	rcli --eval "$T/plain.lua" "$KEY" "{$KEY}:"{holders,queue,waiters,fence} , \
		"$1" "{$KEY}:wake:" "$2" 900 60000 "${@:3}" | paste -sd ' '
}

# acquire TOKEN [MODE [ENQUEUES [QUEUED_AT [LEAST]]]]
acquire() {
	plain acquire "$1" 5000 "${2-x}" "$RECORD" "${4-0}" "${5-0}" "${3-0}"
}

release() {
	plain release "$1" "${2-0}" "${3-}" "${4-0}" 0
}

# listen TOKEN: somebody listens to the channel of this waiter
listen() {
	start "$REDIS_CLI" -s "$REDIS_DIR/sock" subscribe "{$KEY}:wake:$1"
	wait_until 5 has_line "$OUT" '^1$'
}

# called TEXT: the last listener has received a message with this text
called() {
	wait_until 2 has_line "$OUT" "^$1\$"
}

# row STATE WHAT EXPECTED: STATE is a list of redis-cli commands; then the reply of WHAT matches
row() {
	local command reply
	rcli del "$KEY" "{$KEY}:"{holders,queue,waiters,fence} >/dev/null
	while read -r command; do
		# shellcheck disable=SC2086 # words
		[[ -z $command ]] || rcli ${command//KEY/$KEY} >/dev/null
	done <<<"${1//;/$'\n'}"
	# shellcheck disable=SC2086 # words
	reply=$($2)
	matches "$reply" "^$3\$"
}

free='del x'
mine='set KEY a px 60000;hset {KEY}:holders a 7_7_r'
theirs='set KEY theirs px 60000'
endless='set KEY theirs'
list='rpush KEY theirs'
theirset='zadd KEY 99999999999999 theirs'
# a member without a record beside it: a set of another program's, though dlock had one here [3]
mixed='zadd KEY 99999999999999 a 99999999999999 theirs;hset {KEY}:holders mode s a 7_7_r'

# [3], [5]
@test "acquire, renew, release and break in each state of the key" {
	local busy='0 (-1|[0-9]+) -1 0'
	row "$free" "acquire a" '1 [0-9]{16}'
	row "$free" "acquire a s" '1 [0-9]{16}'
	row "$free" "acquire a 2" '1 [0-9]{16}'
	row "$mine" "acquire b" "$busy .*"
	# what stands there belongs to somebody else, whatever it is [3]
	for state in "$theirs" "$endless" "$list" "$theirset" "$mixed"; do
		row "$state" "acquire a" "$busy 1 .*"
		row "$state" "acquire a s" "$busy 1 .*"
		row "$state" "acquire a 2" "$busy 1 .*"
		row "$state" "plain renew a 9000 r" '2'
		row "$state" "release a" '0'
		row "$state" "plain break - 0000" '(0|list|zset)'
		[[ $(rcli exists "$KEY") == 1 ]]
	done
	row "$free" "plain renew a 9000 r" '0'
	row "$free" "release a" '0'
	row "$free" "plain break - 0000" '0'
	# a token of no program's that wrote a record [12]
	row 'set KEY a px 60000' "plain renew a 9000 r" '1 0 r'
	row 'set KEY a px 60000' "release a" '1'
}

# bats test_tags=more
@test "a hold is found by its token, keeps its fence, and takes over a greater one" {
	local fence
	fence=$(acquire a)
	equal "$(acquire a)" "$fence"
	equal "$(acquire a x '' 0 8000000000000000)" '1 8000000000000000'
	equal "$(rcli get "{$KEY}:fence")" 8000000000000000
	release a
	equal "$(acquire b)" '1 8000000000000001'
	equal "$(plain release b 0 '' 1 8000000000000005)" 1
	equal "$(rcli get "{$KEY}:fence")" 8000000000000005
	equal "$(lock_keys)" "{$KEY}:fence"
}

# [10]
# bats test_tags=more
@test "a last fence that is no number counts as none" {
	rcli set "{$KEY}:fence" text >/dev/null
	matches "$(acquire a)" '^1 [0-9]{16}$'
	rcli set "{$KEY}:fence" text >/dev/null
	equal "$(plain release a 0 '' 1 9000)" 1
	equal "$(rcli get "{$KEY}:fence") $(rcli exists "$KEY")" "9000 0"
}

@test "shared holds and slots: who fits in, and what differs" {
	acquire a s
	matches "$(acquire b s)" '^1 '
	matches "$(acquire c)" '^0 '
	matches "$(acquire c 2)" '^0 '
	equal "$(release a)" 1
	equal "$(release a)" 0
	equal "$(release b)" 1
	acquire a 2
	equal "$(acquire b 3)" '2 2'
	acquire b 2
	matches "$(acquire c 2)" '^0 '
	# a lease that has ended leaves its slot to the next one
	rcli zadd "$KEY" 1 a
	matches "$(acquire c 2)" '^1 '
	equal "$(rcli hexists "{$KEY}:holders" a)" 0
}

# [5b], [7]
@test "the queue: no newcomer passes it; dead and late waiters lose their places" {
	acquire a
	listen b
	matches "$(acquire b x 1)" '^0 [0-9]+ 0 [0-9]{16} 0 '
	local first=$OUT
	listen c
	matches "$(acquire c x 1)" '^0 [0-9]+ 1 '
	matches "$(acquire a)" '^1 '
	release a
	called 905
	wait_until 5 has_line "$first" '^0$'
	# The lock is free, and b is first.
	matches "$(acquire c x 1)" '^0 -1 1 '
	matches "$(acquire d)" '^0 -1 -1 '
	# The time of b counts from the first call [5b].
	rcli hset "{$KEY}:waiters" called "b $(($(date +%s%3N) - 1000))" >/dev/null
	matches "$(acquire c x 1)" '^1 '
	# b comes back to its place with the time that it has, and a dead waiter is passed [4].
	acquire e x 1 1
	matches "$(acquire b x 1 2)" '^0 [0-9]+ 0 2 '
	release c
	matches "$(acquire b x 1 2)" '^1 '
}

# [5b]
# bats test_tags=more
@test "a waiter that was called while there is no room keeps its place" {
	acquire a
	listen b
	acquire b x 1
	release a
	called 0
	# A program that knows no queue was faster [5b].
	rcli set "$KEY" theirs px 60000
	rcli hset "{$KEY}:waiters" called "b $(($(date +%s%3N) - 5000))" >/dev/null
	matches "$(acquire c x 1)" '^0 [0-9]+ 1 [0-9]+ 1 '
	equal "$(rcli zrange "{$KEY}:queue" 0 0)" b
	# Who leaves as the first has the next one look, because such a program wakes nobody [7].
	listen c
	equal "$(release b)" 0
	called 0
}

# [4]
@test "a place is later than all before it, also when the clock is set back" {
	acquire a
	listen b
	acquire b x 1 7777777777777777
	matches "$(acquire c x 1)" '^0 [0-9]+ 1 7777777777777778 '
}

@test "a minimum hold: the lock stays with the record that it was given" {
	acquire a
	equal "$(release a 3000 'kept=1')" 1
	between "$(rcli pttl "$KEY")" 2000 3000
	matches "$(plain show a)" "1 x [0-9]+ kept=1 "
}
