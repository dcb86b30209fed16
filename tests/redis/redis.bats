# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What dlock stores on Redis, how few requests it sends, and which other programs use the same key.

load ../lib/helpers
load redis

# ---- what is stored

@test "the lock is a string: the token, with the TTL; all else carries a TTL too" {
	hold -t 20s --
	equal "$(rcli get "$KEY")" "$TOKEN"
	between "$(rcli pttl "$KEY")" 1 20000
	local key
	while read -r key; do
		[[ $key == "$KEY" || $key == "{$KEY}:"* ]] || fail "stray key $key"
		between "$(rcli pttl "$key")" 1 $((1000 * 86400 * 366)) "TTL of $key"
	done < <(lock_keys)
	release
	key_gone
	only_fences
	between "$(rcli pttl "{$KEY}:fence")" 1 $((1000 * 86400 * 366)) "TTL of the fence"
}

@test "the fence that outlives the lock is not listed as a lock, with or without a prefix" {
	local uri name
	for uri in "$REDIS" "$REDIS?prefix="; do
		# Keys beside a key with braces have no braces of their own.
		for name in "$LOCK" "$LOCK{x}"; do
			run -0 "$DLOCK" run -b "$uri" "$name" -- true
			run -0 "$DLOCK" status -b "$uri"
			[[ $output != *"$LOCK"* ]] || fail "$output"
		done
	done
	equal "$(lock_keys | grep -c 'fence$')" 4
}

@test "prefix, database, user, password, unix socket and IPv6 from the URI" {
	run -0 "$DLOCK" run -b "$REDIS/3?prefix=my:" "$LOCK" -- redis-cli -p "$REDIS_PORT" -n 3 exists "my:$LOCK"
	equal "$output" 1
	run -0 "$DLOCK" run -b "redis+unix://$REDIS_DIR/sock?db=4" "$LOCK" -- redis-cli -p "$REDIS_PORT" -n 4 exists "$KEY"
	equal "$output" 1
	run -0 "$DLOCK" run -b "redis://localhost:$REDIS_PORT" "$LOCK" -- true
	private_redis --bind 127.0.0.1 -::1
	redis_at "$P_DIR" acl setuser 'a:b' on '>p@s/s w' '~dlock:*' '~{dlock:*' '&*' +@all
	run -0 "$DLOCK" run -b "redis://a%3Ab:p%40s%2Fs%20w@127.0.0.1:$P_PORT/5" "$LOCK" -- redis-cli -p "$P_PORT" -n 5 exists "$KEY"
	equal "$output" 1
	if [[ -e /proc/net/if_inet6 ]] && grep -q ' lo$' /proc/net/if_inet6; then
		run -0 "$DLOCK" run -b "redis://[::1]:$P_PORT" "$LOCK" -- true
	fi
}

# held_name NAME: somebody holds the lock NAME
held_name() {
	local code=0
	"$DLOCK" status "$1" >state || code=$?
	((code == 1))
}

@test "names with braces: the locks a, {a} and b{a} have nothing in common, and all are listed" {
	private_redis
	export DLOCK_BACKEND="$P_URI?prefix="
	local name
	hold -t 20s --shared --
	for name in "{$LOCK}" "b{$LOCK}" "b{$LOCK}::"; do
		start "$DLOCK" run "$name" -- sleep 300
		wait_until 5 held_name "$name"
	done
	"$DLOCK" verify "$LOCK" "$TOKEN"
	"$DLOCK" renew "$LOCK" "$TOKEN"
	"$DLOCK" status --names >names
	equal "$(sort names)" "$(printf '%s\n' "$LOCK" "{$LOCK}" "b{$LOCK}" "b{$LOCK}::" | sort)"
}

# [13]
@test "AUTH, SELECT and the first try travel in one write" {
	private_redis --requirepass Sesame8
	start_proxy "$P_PORT"
	"$DLOCK" run -b "redis://:Sesame8@127.0.0.1:$TOOL_PORT/7" "$LOCK" -- true
	head -n 1 requests >first
	has_line first AUTH
	has_line first SELECT
	has_line first EVAL
	# A run sends nothing else, except the release.
	: >requests
	"$DLOCK" run -b "redis://:Sesame8@127.0.0.1:$TOOL_PORT/7" "$LOCK" -- true
	proxy_stat requests
	between "$(wc -l <requests)" 2 3
}

@test "a run of a free lock costs the server thirteen commands in two scripts" {
	private_redis
	local backend=redis://127.0.0.1:$P_PORT
	"$DLOCK" run -b "$backend" "$LOCK" -- true
	redis_at "$P_DIR" config resetstat
	"$DLOCK" run -b "$backend" "$LOCK" -- true
	redis_at "$P_DIR" info commandstats | sed -n 's/^cmdstat_\([a-z|]*\):calls=\([0-9]*\),.*/\1 \2/p' |
		grep -v '^config' | sort >commands
	equal "$(tr '\n' ' ' <commands)" \
		"del 1 evalsha 2 exists 2 get 2 hset 1 pexpire 1 set 2 time 2 "
}

@test "a server that has lost the scripts gets them again" {
	rcli script flush
	hold -t 4s --
	rcli script flush
	holds_for 5000 alive "$COMMAND"
	equal "$(rcli get "$KEY")" "$TOKEN"
	rcli script flush
	release
	only_fences
}

# ---- other clients

@test "a foreign SET NX PX and dlock exclude each other" {
	local uri="$REDIS?prefix="
	equal "$(rcli set "$LOCK" abc nx px 60000)" OK
	run --separate-stderr -124 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	one_line "^dlock: $LOCK: held by"
	equal "$(rcli get "$LOCK")" abc
	rcli del "$LOCK"
	run -0 "$DLOCK" run -b "$uri" "$LOCK" -- redis-cli -p "$REDIS_PORT" set "$LOCK" abc nx px 60000
	equal "$output" ""
	equal "$(rcli exists "$LOCK")" 0
}

@test "a key of any type counts as held" {
	rcli lpush "$KEY" x
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "held by"
	equal "$(rcli lrange "$KEY" 0 -1)" x
	rcli del "$KEY"
}

# set_is MEMBER SCORE...: the key is a sorted set with these members only, and does not expire
set_is() {
	equal "$(rcli zrange "$KEY" 0 -1 withscores | tr '\n' ' ')" "$* "
	equal "$(rcli pttl "$KEY")" -1 "PTTL of the sorted set"
}

# nothing_touches MEMBER SCORE...: no command takes the sorted set at the key, or changes it
nothing_touches() {
	local token=0123456789abcdef0123456789abcdef args
	for args in 'run -n' 'run -n --shared' 'run -n --slots 3' 'run -w 2s' 'run -w 2s --slots 3'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -124 "$DLOCK" $args "$LOCK" -- true
		one_line "^dlock: $LOCK: held by"
		set_is "$@"
	done
	for args in renew verify release; do
		run -123 "$DLOCK" $args "$LOCK" "$token"
		set_is "$@"
	done
	# A member of the set is no token, either.
	for args in renew verify release; do
		run -123 "$DLOCK" $args "$LOCK" "$1"
		set_is "$@"
	done
	run -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive .* another client$"
	run --separate-stderr -122 "$DLOCK" break --yes "$LOCK"
	one_line "key '$KEY' is a zset of another program"
	set_is "$@"
}

# [3]
# bats test_tags=more
@test "a sorted set of another program is held, and nothing writes to it" {
	local member=11111111111111111111111111111111
	rcli zadd "$KEY" 1 $member 2 b
	nothing_touches $member 1 b 2
	# dlock's notes beside the key, of another hold, do not make the set dlock's own.
	rcli hset "{$KEY}:holders" mode s b '1 1 ttl=1000&host=h'
	nothing_touches $member 1 b 2
	rcli del "{$KEY}:holders"
	# dlock gets the lock when the set is gone.
	wait_in_line 1 -- true
	rcli del "$KEY"
	join "$PID" 8
	equal "$status" 0
	only_fences
}

# bats test_tags=more
@test "a large sorted set of another program is not read whole" {
	rcli eval "for i = 1, 200000 do redis.call('ZADD', KEYS[1], i, 'member' .. i) end" 1 "$KEY"
	rcli hset "{$KEY}:holders" mode s
	rcli config resetstat
	# The server itself may take a second for such a set.
	run -124 "$DLOCK" run -b "$REDIS?timeout=10s" -n --shared "$LOCK" -- true
	local reads
	reads=$(rcli info commandstats | sed -n 's/^cmdstat_hget:calls=\([0-9]*\).*/\1/p')
	between "$reads" 1 20 "how often the script looked up a note"
	equal "$(rcli zcard "$KEY")" 200000
	rcli del "$KEY" "{$KEY}:holders"
}

# bats test_tags=more
@test "a member that another program adds to the set of a shared hold stays, and ends the hold" {
	hold -t 1s --shared --
	rcli zadd "$KEY" 1 stranger
	rcli persist "$KEY"
	run --separate-stderr -124 "$DLOCK" run -n --shared "$LOCK" -- true
	equal "$(rcli zscore "$KEY" stranger)" 1
	join "$HOLDER" 8
	equal "$status" 123
	matches "$(<"$HOLDER_ERR")" 'lock lost: .* belongs to somebody else now'
	equal "$(rcli zscore "$KEY" stranger)" 1
	rcli del "$KEY"
}

# semaphore LIMIT TIMEOUT MEMBER: the steps in which redis-semaphore's Semaphore takes the key, with
# its timeout in ms; prints 1 or 0
semaphore() {
	rcli eval "local time = redis.call('TIME')
		local now = time[1] * 1000 + math.floor(time[2] / 1000)
		redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
		if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
		redis.call('ZADD', KEYS[1], now, ARGV[3])
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1" 1 "$KEY" "$@"
}

# [3]
# bats test_tags=more
@test "a semaphore that scores its members by the past is not taken from its holders" {
	equal "$(semaphore 2 60000 first)" 1
	equal "$(semaphore 2 60000 second)" 1
	run -124 "$DLOCK" run -n "$LOCK" -- true
	run -124 "$DLOCK" run -n --slots 5 "$LOCK" -- true
	equal "$(semaphore 2 60000 third)" 0
	equal "$(rcli zrange "$KEY" 0 -1 | tr '\n' ' ')" "first second "
	rcli zrem "$KEY" first second
	run -0 "$DLOCK" run -n "$LOCK" -- true
	only_fences
}

@test "a foreign client that frees the key, or lets it expire, is noticed" {
	rcli set "$KEY" abc px 600000
	wait_in_line 1 -- true
	rcli del "$KEY"
	join "$PID" 7
	equal "$status" 0
	rcli set "$KEY" abc px 6000
	now
	local start=$NOW
	wait_in_line 1 -- true
	join "$PID" 15
	now
	equal "$status" 0
	took $((NOW - start)) 5800 14000
	only_fences
}

# [6]
@test "the release of a foreign client is noticed within half a second, and the next one holds" {
	local n start waiter
	for n in 1 2 3; do
		rcli set "$KEY" abc px 600000
		wait_in_line 1 -- true
		waiter=$PID
		wait_in_line 2 -- true
		holds_for 600 alive "$waiter"
		now
		start=$NOW
		rcli del "$KEY"
		join "$waiter" 7
		now
		equal "$status" 0
		# On a busy machine this may take half a second more.
		took $((NOW - start)) 0 1000 "ms until the first in line ran"
		join "$PID" 2
		equal "$status" 0
	done
	only_fences
}

# [7]
# bats test_tags=more
@test "the first waiter gives up: the next one polls for the release of a foreign client" {
	local start first
	rcli set "$KEY" abc px 600000
	wait_in_line 1 -- true
	first=$PID
	wait_in_line 2 -- true
	kill -TERM "$first"
	join "$first"
	wait_until 2 waiters 1
	now
	start=$NOW
	rcli del "$KEY"
	join "$PID" 7
	now
	equal "$status" 0
	took $((NOW - start)) 0 1000
	only_fences
}

# [6]
# bats test_tags=more
@test "a foreign client takes the lock again 15 ms after each release: dlock gets it, too" {
	sh -c 'while [ ! -e ran ]; do
		redis-cli -p "$0" set "$1" abc nx px 60000
		sleep 0.1
		redis-cli -p "$0" eval "if redis.call([[GET]], KEYS[1]) == [[abc]] then
			redis.call([[DEL]], KEYS[1]) end" 1 "$1"
		sleep 0.015
	done' "$REDIS_PORT" "$KEY" >/dev/null 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 5 key_is abc
	start "$DLOCK" run "$LOCK" -- touch ran
	join "$PID" 30
	equal "$status" 0
	[[ -e ran ]]
}

# redis_py TIMEOUT [STATEMENT]: waits for redis-py's Lock on $LOCK for at most TIMEOUT seconds, runs
# STATEMENT while it holds it, and prints whether it got it
redis_py() {
	/usr/bin/python3 - "$REDIS_PORT" "$LOCK" "$1" "${2-pass}" <<-'END'
		import subprocess, sys, time
		import redis
		port, name, timeout, statement = sys.argv[1:]
		lock = redis.Redis(port=int(port)).lock(name, timeout=30, blocking_timeout=float(timeout))
		got = lock.acquire()
		if got:
		    exec(statement)
		    lock.release()
		print("got" if got else "busy")
	END
}

@test "redis-py's Lock and dlock exclude each other, and get the lock from each other" {
	/usr/bin/python3 -c 'import redis' || not_here "needs python3-redis"
	export DLOCK_BACKEND="$REDIS?prefix="
	hold --
	run -0 redis_py 0.3
	equal "$output" busy
	kill -TERM "$COMMAND"
	run -0 redis_py 5
	equal "$output" got
	join "$HOLDER"
	run -0 redis_py 1 "print(subprocess.call(['$DLOCK', 'run', '-n', '-q', name, '--', 'true']))"
	equal "$output" $'124\ngot'
	redis_py 1 "open('held', 'w'); time.sleep(1)" &
	local python=$!
	wait_until 5 test -e held
	timed "$DLOCK" run -w 10s "$LOCK" -- redis-cli -p "$REDIS_PORT" exists "$LOCK"
	wait "$python"
	equal "$status $output" "0 1"
	took "$MS" 500 7500
}

# bats test_tags=deeper
@test "many clients at once count down a number in Redis, and none is lost" {
	local n most all=()
	most=$(long_or 100 20)
	rcli set "$LOCK:number" "$most"
	for ((n = 0; n <= most; n++)); do
		start "$DLOCK" run "$LOCK" -- sh -c '
			number=$(redis-cli -p "$0" get "$1")
			echo "$number" >>log
			[ "$number" -eq 0 ] || redis-cli -p "$0" set "$1" $((number - 1))' "$REDIS_PORT" "$LOCK:number"
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	diff <(seq "$most" -1 0) log
	rcli del "$LOCK:number"
	only_fences
}

# ---- dlock does not trust what other clients wrote

# bats test_tags=more
@test "holder data that somebody tampered with is shown without control characters" {
	hold --
	local field
	for field in $(rcli hkeys "{$KEY}:holder"); do
		rcli hset "{$KEY}:holder" "$field" "$(printf 'host=\e[31mEVIL%%0aX\e]0;x\a&pid=99999999999999999999&since=-1&cmd=\n\n%%1b[31m\xff')"
	done
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by"
	harmless "$stderr"
	release
}

@test "side keys of a wrong type are an error, not a lock" {
	local key
	for key in queue waiters holder; do
		rcli set "{$KEY}:$key" x
		run --separate-stderr "$DLOCK" run -n "$LOCK" -- true
		matches "$status" '^(0|122)$' "status with a wrong $key"
		if ((status)); then
			one_line 'WRONGTYPE|type'
		fi
		rcli del "{$KEY}:$key"
		wait_until 2 key_gone
	done
}
