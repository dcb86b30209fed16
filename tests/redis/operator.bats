# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What operators see of locks on Redis and do to them (status, break, check), and what the
# keeper that `dlock acquire --pid` leaves behind does on its bad days.

load ../lib/helpers
load redis

# take [OPTION]...: acquires $LOCK; sets TOKEN, FENCE and KEEPER
take() {
	"$DLOCK" acquire --json "$@" "$LOCK" >taken
	read -r TOKEN FENCE KEEPER < <(jq -r '"\(.token) \(.fence) \(.keeper_pid)"' taken)
	matches "$TOKEN" '^[0-9a-f]{32}$' token
}

# ---- acquire

@test "the lock is a string: the token, with the TTL" {
	take -t 20s
	equal "$(rcli get "$KEY")" "$TOKEN"
	between "$(rcli pttl "$KEY")" 10000 20000
	"$DLOCK" renew -t 60s "$LOCK" "$TOKEN"
	between "$(rcli pttl "$KEY")" 50000 60000
	"$DLOCK" release "$LOCK" "$TOKEN"
	wait_until 2 only_fences
}

@test "renew never takes a lock that is gone, and release never frees another holder's" {
	take
	rcli del "$KEY" >reply
	run -123 "$DLOCK" renew "$LOCK" "$TOKEN"
	key_gone
	rcli set "$KEY" somebody px 60000 >reply
	local verb
	for verb in renew verify release; do
		run -123 "$DLOCK" $verb "$LOCK" "$TOKEN"
		key_is somebody
	done
	rcli del "$KEY" >reply
}

@test "renew of another program's lock: by the default TTL, and never to less than is left" {
	local token=0123456789abcdef0123456789abcdef
	rcli set "$KEY" $token px 100000 >reply
	"$DLOCK" renew "$LOCK" $token
	between "$(rcli pttl "$KEY")" 90000 100000
	rcli del "$KEY" "{$KEY}:holders" >reply
	rcli set "$KEY" $token px 10000 >reply
	"$DLOCK" renew --json "$LOCK" $token >renewed
	between "$(rcli pttl "$KEY")" 20000 30000
	equal "$(jq .expires_in_ms renewed)" 30000
	# The token of another program does not show of which lock it is.
	run -124 env DLOCK_TOKEN=$token "$DLOCK" acquire -n "$LOCK"
	"$DLOCK" renew -t 50s "$LOCK" $token
	between "$(rcli pttl "$KEY")" 40000 50000
	rcli del "$KEY" "{$KEY}:holders" >reply
}

# bats test_tags=more
@test "renew and a nested acquire where no TTL is stored: never to less than is left" {
	local note
	take -t 100s
	note=$(rcli hget "{$KEY}:holders" "$TOKEN")
	matches "$note" ' ttl=100000&pid='
	rcli hset "{$KEY}:holders" "$TOKEN" "${note/ttl=100000&/}" >reply
	DLOCK_TOKEN=$TOKEN "$DLOCK" acquire "$LOCK" >token
	between "$(rcli pttl "$KEY")" 90000 100000
	rcli hset "{$KEY}:holders" "$TOKEN" "${note/ttl=100000&/}" >reply
	"$DLOCK" renew "$LOCK" "$TOKEN"
	between "$(rcli pttl "$KEY")" 90000 100000
	matches "$("$DLOCK" status "$LOCK" || true)" "$$"
	"$DLOCK" release "$LOCK" "$TOKEN"
}

@test "server unreachable: every command reports it in one line, with 122" {
	local args
	for args in "acquire $LOCK" "acquire --pid $$ $LOCK" "acquire -n $LOCK" \
		"renew $LOCK 0123456789abcdef0123456789abcdef" \
		"verify $LOCK 0123456789abcdef0123456789abcdef" \
		"release $LOCK 0123456789abcdef0123456789abcdef" \
		"status $LOCK" status "wait $LOCK" "break --yes $LOCK" setup; do
		# No server listens there.
		# shellcheck disable=SC2086 # words
		run --separate-stderr -122 env DLOCK_BACKEND=redis://127.0.0.1:1 timeout 20 "$DLOCK" $args
		one_line '127\.0\.0\.1:1'
		equal "$output" "" "stdout of $args"
	done
}

@test "acquire nests only on the backend that the token is of" {
	take
	run -0 env DLOCK_NAME="$LOCK" DLOCK_TOKEN="$TOKEN" DLOCK_BACKEND="$FILE" "$DLOCK" acquire -n -b "$REDIS" "$LOCK"
	equal "$output" "$TOKEN+1"
	# Elsewhere the token is unknown.
	run --separate-stderr -0 env DLOCK_NAME="$LOCK" DLOCK_TOKEN="$TOKEN" "$DLOCK" acquire -n -b "$FILE" "$LOCK"
	[[ $output != "$TOKEN"* ]]
	"$DLOCK" release -b "$FILE" "$LOCK" "$output"
	"$DLOCK" release "$LOCK" "$TOKEN"
}

# bats test_tags=more
@test "a token by another spelling of the URI is asked for; with users and passwords it is the same" {
	local other=${REDIS/127.0.0.1/localhost}
	take
	export DLOCK_TOKEN=$TOKEN
	run --separate-stderr -0 "$DLOCK" run -v -n -b "$other" "$LOCK" -- true
	matches "$stderr" 'already held'
	run --separate-stderr -123 "$DLOCK" verify -b "$FILE" "$LOCK"
	one_line 'does not hold the lock here: it is of another --backend; if its hold has ended, unset DLOCK_TOKEN$'
	"$DLOCK" release "$LOCK"
	run --separate-stderr -0 "$DLOCK" run -v -n -b "$other" "$LOCK" -- true
	matches "$stderr" 'acquired after'
	run --separate-stderr -123 "$DLOCK" run -n -b "${REDIS/redis:/valkey:}?timeout=1s" "$LOCK" -- touch ran
	one_line 'has ended; unset DLOCK_TOKEN to begin again$'
	run --separate-stderr -123 "$DLOCK" verify "$LOCK"
	one_line 'token does not hold the lock; if its hold has ended, unset DLOCK_TOKEN$'
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "--if-down run with a token: without the lock if the hold cannot be asked for" {
	local other=redis://127.0.0.1:1 uri
	private_redis
	TOKEN=$("$DLOCK" acquire -b "$P_URI" "$LOCK")
	kill -KILL "$P_PID"
	wait_until 5 ended "$P_PID"
	for uri in "$P_URI" $other; do
		export DLOCK_TOKEN=$TOKEN
		run --separate-stderr -122 "$DLOCK" run -b "$uri" "$LOCK" -- touch ran
		[[ ! -e ran ]]
		run --separate-stderr -9 "$DLOCK" run --if-down run -b "$uri" "$LOCK" -- \
			sh -c 'echo "${DLOCK_TOKEN-none} ${DLOCK_FENCE-none}"; exit 9'
		equal "$output" 'none none'
		one_line 'running without the lock$'
	done
}

# ---- the keeper when something fails

# bats test_tags=more
@test "server frozen: the process gets TERM before the lease ends" {
	private_redis
	probe_owner
	take -b "$P_URI" -t 3s --pid "$OWNER"
	kill -STOP "$P_PID"
	now
	local frozen=$NOW
	wait_until 5 has_line "$OWNER_OUT" '^TERM$'
	now
	# The last renewal was no later than the moment when the server was frozen.
	took "$((NOW - frozen))" 0 3200 "until TERM"
	wait_until 5 ended "$KEEPER"
	kill -KILL "$OWNER"
}

@test "server frozen: the process gets TERM once" {
	private_redis
	probe_owner
	take -b "$P_URI" -t 6s --pid "$OWNER"
	kill -STOP "$P_PID"
	wait_until 10 has_line "$OWNER_OUT" '^TERM$'
	# until the lease has ended
	pause 3
	equal "$(grep -c '^TERM$' "$OWNER_OUT")" 1 "signals"
	kill -KILL "$OWNER"
}

@test "server gone for good: the process gets TERM, and the keeper ends" {
	private_redis
	probe_owner
	take -b "$P_URI" -t 4s --pid "$OWNER"
	kill -KILL "$P_PID"
	wait_until 8 has_line "$OWNER_OUT" '^TERM$'
	wait_until 5 ended "$KEEPER"
	kill -KILL "$OWNER"
}

# bats test_tags=more
@test "connections cut again and again: the keeper holds on" {
	local n
	start_proxy "$REDIS_PORT"
	probe_owner
	take -b "$PROXY" -t 6s --pid "$OWNER"
	for n in 1 2 3 4 5 6; do
		rcli client kill type normal skipme yes >reply
		holds_for 600 key_is "$TOKEN"
	done
	not has_line "$OWNER_OUT" TERM
	"$DLOCK" release -b "$PROXY" "$LOCK" "$TOKEN"
	wait_until 2 ended "$KEEPER"
	kill -KILL "$OWNER"
}

# bats test_tags=more
@test "restart with data lost: the process gets TERM" {
	private_redis
	probe_owner
	take -b "$P_URI" -t 4s --pid "$OWNER"
	server_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	wait_until 8 has_line "$OWNER_OUT" '^TERM$'
	wait_until 2 ended "$KEEPER"
	run -123 "$DLOCK" verify -b "$P_URI" "$LOCK" "$TOKEN"
	kill -KILL "$OWNER"
}

# ---- status, wait and break of others' locks

@test "a foreign client's lock: status, wait and break" {
	rcli set "$KEY" somebody px 20000 >reply
	run -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive +- +[0-9.]+[a-z0-9]+ +- +another client$"
	"$DLOCK" status --json "$LOCK" >json || true
	jq -e '.held and (.holders | length == 1) and (.holders[0] | .host == null and .pid == null
		and .user == null and .command == null and .acquired_at == null and .fence == null
		and .expires_in_ms > 5000)' json
	not grep -q somebody json
	run -124 "$DLOCK" wait -w 0 "$LOCK"
	rcli pexpire "$KEY" 700 >reply
	timed "$DLOCK" wait -w 20s "$LOCK"
	equal "$status" 0
	took "$MS" 100 6000
	rcli set "$KEY" somebody px 60000 >reply
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line 'another client'
	key_gone
}

# [11]
@test "status lists hundreds of locks, with a cursor and never with KEYS" {
	private_redis
	local n
	for n in {1..700}; do
		echo "set dlock:many-$n somebody px 60000"
		echo "set other:many-$n somebody px 60000"
		echo "set {dlock:free-$n}:fence $n"
	done | redis_at "$P_DIR" >reply
	redis_at "$P_DIR" config resetstat >reply
	"$DLOCK" status -b "$P_URI" --json >all
	equal "$(jq -r .name all | sort | tr '\n' ' ')" \
		"$(printf 'many-%s\n' {1..700} | sort | tr '\n' ' ')"
	redis_at "$P_DIR" info commandstats >stats
	has_line stats '^cmdstat_scan:'
	not has_line stats '^cmdstat_keys:'
	"$DLOCK" status -b "$P_URI?prefix=other:" --json >all
	equal "$(wc -l <all)" 700
}

@test "status --names of 80,000 locks is fast, and prints each once" {
	local start
	private_redis
	# The lock and the notes of its holder are two keys with one name.
	redis_at "$P_DIR" eval 'for i = 1, 80000 do
		redis.call("SET", "dlock:" .. i, "x")
		if i % 2 == 0 then redis.call("HSET", "{dlock:" .. i .. "}:holders", "a", "b") end
	end' 0 >reply
	# `run` would spend a second on so many lines.
	now
	start=$NOW
	"$DLOCK" status -b "$P_URI" --names >names
	now
	took $((NOW - start)) 0 2500
	printf '%s\n' {1..80000} | LC_ALL=C sort | diff - names
}

# bats test_tags=more
@test "status of a lock and the list of all: 122, and the message names the server" {
	private_redis --requirepass Sesame8
	run --separate-stderr -122 "$DLOCK" status -b "$P_URI" "$LOCK"
	one_line 'NOAUTH|password'
	run --separate-stderr -122 "$DLOCK" status -b "$P_URI"
	one_line 'NOAUTH|password'
}

@test "break gives the lock to the first waiter" {
	take -t 1h
	wait_in_line 1 -- sh -c 'echo first >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo second >>order'
	local second=$PID
	run -0 "$DLOCK" break --yes "$LOCK"
	join "$first" 5
	join "$second" 5
	equal "$(tr '\n' ' ' <order)" "first second "
	wait_until 2 only_fences
}

@test "wait takes no place in the queue, and sends the server few requests" {
	take
	rcli config resetstat >reply
	start "$DLOCK" wait "$LOCK"
	holds_for 1500 alive "$PID"
	waiters 0
	local requests
	requests=$(rcli info commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p')
	between "${requests:-0}" 0 6 requests
	"$DLOCK" release "$LOCK" "$TOKEN"
	join "$PID" 3
	equal "$status" 0
}

# ---- check

# check CODE URI TOPIC SEVERITY REGEX: `dlock check` ends with CODE and has this finding
check() {
	run --separate-stderr "-$1" "$DLOCK" check -b "$2"
	equal "$stderr" "" stderr
	local row
	row=$(awk -v topic="$3" '$2 == topic' <<<"$output")
	matches "$row" "^$4 +$3 +.*$5"
	run --separate-stderr "-$1" "$DLOCK" check --json -b "$2"
	jq -e --arg topic "$3" --arg severity "$4" \
		'.findings[] | select(.topic == $topic) | .severity == $severity' <<<"$output"
}

@test "check: a server that is fit to hold locks gets 0" {
	private_redis --appendonly yes --appendfsync always
	check 0 "$P_URI" persistence ok always
	check 0 "$P_URI" replication ok 'no replicas'
	check 0 "$P_URI" eviction ok memory
	check 0 "$P_URI" clock ok 'ms'
	check 0 "$P_URI" transport ok .
	check 0 "$P_URI" probe ok 'ms'
	check 0 "$P_URI" version ok '(Redis|Valkey) [5-9]'
	check 0 "$P_URI" backend ok "redis 127\.0\.0\.1:$P_PORT"
	run -0 "$DLOCK" check --json -b "$P_URI/0?timeout=3s"
	equal "$(jq -r '"\(.verdict) \(.backend)"' <<<"$output")" "ok redis 127.0.0.1:$P_PORT/0"
}

# bats test_tags=more
@test "check: a server that does not save its data, or may lose the latest of it" {
	private_redis
	check 1 "$P_URI" persistence warning 'append-only.*appendonly yes'
	redis_at "$P_DIR" config set appendonly yes >reply
	check 0 "$P_URI" persistence note 'everysec.*appendfsync always'
	redis_at "$P_DIR" config set appendfsync always >reply
	check 0 "$P_URI" persistence ok always
	equal "$("$DLOCK" check --json -b "$P_URI" | jq -r .verdict)" ok
}

# bats test_tags=more
@test "check: an eviction policy that could drop a lock" {
	private_redis --appendonly yes --appendfsync always
	local policy
	for policy in allkeys-lru volatile-ttl volatile-random; do
		redis_at "$P_DIR" config set maxmemory 100mb >reply
		redis_at "$P_DIR" config set maxmemory-policy $policy >reply
		check 1 "$P_URI" eviction warning "$policy.*noeviction"
	done
	redis_at "$P_DIR" config set maxmemory-policy noeviction >reply
	check 0 "$P_URI" eviction ok noeviction
}

@test "check: a replica, and a master with replicas" {
	private_redis --appendonly yes --appendfsync always
	local master=$P_URI
	private_redis --replicaof 127.0.0.1 "${master##*:}"
	wait_until 10 replica_up
	check 122 "$P_URI" unusable error 'read-only|replica'
	check 1 "$master" replication warning '1 replicas'
}

replica_up() {
	redis_at "$P_DIR" info replication | grep -q 'master_link_status:up'
}

# bats test_tags=more
@test "check: the server's clock differs from that of this host" {
	local row
	faked_redis --appendonly yes --appendfsync always
	check 0 "$P_URI" clock ok .
	# The server's clock is faked, for not every build of dlock can load the library for that.
	clock +3600
	run -0 "$DLOCK" check -b "$P_URI"
	row=$(grep clock <<<"$output")
	matches "$row" '^note +clock +\+3[56][0-9]{5} ms'
	clock -3600
	run -0 "$DLOCK" check -b "$P_URI"
	row=$(grep clock <<<"$output")
	matches "$row" '^note +clock +-3[56][0-9]{5} ms'
}

# bats test_tags=more
@test "check: INFO and CONFIG denied are findings, not failures" {
	private_redis --appendonly yes --appendfsync always
	redis_at "$P_DIR" acl setuser noinfo on '>pw' '~*' '&*' +@all -info >reply
	redis_at "$P_DIR" acl setuser noconfig on '>pw' '~*' '&*' +@all -config >reply
	check 1 "redis://noinfo:pw@127.0.0.1:$P_PORT" info warning 'INFO'
	check 0 "redis://noconfig:pw@127.0.0.1:$P_PORT" persistence ok .
}

@test "check: a privilege that locks need is missing" {
	private_redis --appendonly yes --appendfsync always
	redis_at "$P_DIR" acl setuser noscript on '>pw' '~*' '&*' +@all -@scripting >reply
	redis_at "$P_DIR" acl setuser nokeys on '>pw' '~other:*' '&*' +@all >reply
	check 122 "redis://noscript:pw@127.0.0.1:$P_PORT" unusable error NOPERM
	check 122 "redis://nokeys:pw@127.0.0.1:$P_PORT" unusable error .
	equal "$(redis_at "$P_DIR" dbsize)" 0 "keys on the server"
}

# bats test_tags=more
@test "check: a server that is unreachable or refuses, also in JSON" {
	local uri
	private_redis --requirepass Sesame8
	for uri in redis://127.0.0.1:1 "$P_URI" "redis://:Sesame9@127.0.0.1:$P_PORT"; do
		check 122 "$uri" unusable error '127\.0\.0\.1'
		run -122 "$DLOCK" check --json -b "$uri"
		equal "$(jq -r .verdict <<<"$output")" error
		[[ $output != *Sesame* ]]
	done
	check 1 "redis://:Sesame8@127.0.0.1:$P_PORT" probe ok ms
	[[ $output != *Sesame* ]]
	# A bad URI is no fault of the backend.
	run --separate-stderr -125 "$DLOCK" check -b nosuch://host
	one_line nosuch
}

@test "the password changes, in its file and the server: holder and waiter log in with the new one" {
	private_redis
	on_all() {
		redis_at "$P_DIR" "$@"
	}
	outlives_password "redis://jobs@127.0.0.1:$P_PORT"
}

@test "a user who may not wake frees the lock at its release, and check reports it" {
	local user
	private_redis
	redis_at "$P_DIR" acl setuser quiet on '>pw' '~*' '&*' +@all -publish
	redis_at "$P_DIR" acl setuser deaf on '>pw' '~*' resetchannels +@all
	for user in quiet deaf; do
		# Its release wakes nobody, and the first waiter asks as behind another program.
		"$DLOCK" run -t 60s -b "redis://$user:pw@127.0.0.1:$P_PORT" "$LOCK" -- \
			sh -c 'touch held; until [ -e end ]; do sleep 0.1; done' 2>holder &
		HOLDER=$!
		wait_until 10 test -e held
		"$DLOCK" run -b "$P_URI" "$LOCK" -- touch waited &
		WAITER=$!
		wait_until 10 p_waiters 1
		touch end
		wait "$HOLDER"
		equal "$(<holder)" ""
		wait_until 2 test -e waited
		wait "$WAITER"
		rm held end waited
	done
	check 1 "redis://quiet:pw@127.0.0.1:$P_PORT" waiter warning 'publish'
	check 122 "redis://deaf:pw@127.0.0.1:$P_PORT" waiter error 'channels'
	check 1 "$P_URI" waiter ok ms
	"$DLOCK" run -t 60s -b "$P_URI" "$LOCK" -- sh -c 'touch held; until [ -e end ]; do sleep 0.1; done' &
	HOLDER=$!
	wait_until 10 test -e held
	run --separate-stderr -122 "$DLOCK" run -w 5s -b "redis://deaf:pw@127.0.0.1:$P_PORT" "$LOCK" -- true
	one_line channels
	touch end
	wait "$HOLDER"
}

# bats test_tags=more
@test "check: the server's memory is full" {
	private_redis --maxmemory 1 --maxmemory-policy noeviction
	check 122 "$P_URI" unusable error '(OOM|memory)'
}

@test "setup sees that the server answers" {
	run --separate-stderr -0 "$DLOCK" setup
	equal "$stderr" ""
	private_redis --requirepass Sesame8
	run --separate-stderr -122 "$DLOCK" setup -b "$P_URI"
	one_line 'NOAUTH|password'
}
