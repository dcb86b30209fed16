# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ?scripts=no, for Redis servers that run no scripts. It needs a server that knows SET with IFEQ
# (Valkey 8.1, Redis 8.4 or newer): the program in VALKEY_SERVER (tests/valkey fetches one),
# valkey-server, or REDIS_SERVER. Where there is none, as in Debian 12, each test that needs one
# asserts that dlock refuses the server.

load helpers
load redis-topology

setup_file() {
	REDIS_SERVER=${VALKEY_SERVER:-$(type -P valkey-server || echo "$REDIS_SERVER")}
	export REDIS_SERVER IFEQ=
	redis_for_file || return
	if [[ $(rcli set probe x ifeq x px 1 2>&1) != *'syntax error'* ]]; then
		IFEQ=1
	fi
}

prepare() {
	export DLOCK_BACKEND="$REDIS?scripts=no"
}

# works: can dlock hold locks on the server? If not, it must say so, and take nothing.
works() {
	[[ -z $IFEQ ]] || return 0
	echo "# the server does not know IFEQ" >&3
	refused
	return 1
}

# refused: $DLOCK_BACKEND does not know IFEQ: status 122, the reason in one line, and nothing taken
refused() {
	local args
	for args in "run $LOCK -- touch ran" "run -n $LOCK -- touch ran" "acquire $LOCK" \
		"renew $LOCK $SOME" "release $LOCK $SOME"; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -122 "$DLOCK" $args
		one_line 'IFEQ.*\?scripts=no'
		equal "$output" ""
	done
	[[ ! -e ran ]]
	run -0 "$DLOCK" status "$LOCK"
}

# This is the token of some other client.
SOME=0123456789abcdef0123456789abcdef

# nothing_left: the server has nothing at all of this lock
nothing_left() {
	[[ -z $(lock_keys) ]]
}

take() {
	TOKEN=$("$DLOCK" acquire "$@" "$LOCK")
	matches "$TOKEN" '^[0-9a-f]{32}$' token
}

@test "a server that does not know IFEQ is refused before anything is taken" {
	if [[ -n $IFEQ ]]; then
		REDIS_SERVER=$(type -P redis-server) || return 0
		private_redis
		REDIS_DIR=$P_DIR
		export DLOCK_BACKEND="$P_URI?scripts=no"
		[[ $(rcli set probe x ifeq x px 1 2>&1) == *'syntax error'* ]] || return 0
	fi
	start "$REDIS_CLI" -s "$REDIS_DIR/sock" monitor
	wait_until 5 has_line "$OUT" OK
	refused
	rcli ping >pong
	wait_until 5 has_line "$OUT" '"ping"'
	has_line "$OUT" '"IFEQ"'
	not has_line "$OUT" '"NX"'
	equal "$(rcli dbsize)" 0
	run --separate-stderr -122 "$DLOCK" check
	matches "$output" 'unusable +.*IFEQ'
}

@test "what needs scripts is refused, and names what has it" {
	local args param
	for args in -s '--slots 2'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" run -n $args "$LOCK" -- touch ran
		one_line 'scripts=no has no (shared holds|--slots); redis: with scripts, .* have'
	done
	run --separate-stderr -125 "$DLOCK" acquire --min-hold 1s "$LOCK"
	one_line '--min-hold'
	for param in dialect=redisson replicas=1 wake=python-redis-lock; do
		run --separate-stderr -125 "$DLOCK" run -b "$DLOCK_BACKEND&$param" "$LOCK" -- touch ran
		one_line "\?scripts=no has no \?${param%=*}="
	done
	run --separate-stderr -125 "$DLOCK" run -b "$REDIS?scripts=never" "$LOCK" -- touch ran
	one_line 'yes or no'
	[[ ! -e ran ]]
	nothing_left
	"$DLOCK" run -b "$REDIS?scripts=yes" "$LOCK" -- touch ran
	[[ -e ran ]]
}

@test "a server that refuses EVAL: dlock names ?scripts=no, and works with it" {
	private_redis --rename-command EVAL '' --rename-command EVALSHA ''
	run --separate-stderr -122 "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	one_line 'add \?scripts=no'
	export DLOCK_BACKEND="$P_URI?scripts=no"
	works || return 0
	"$DLOCK" run "$LOCK" -- touch ran
	[[ -e ran ]]
	run "$DLOCK" check
	matches "$output" 'ok +scripts +\?scripts=no: no queue'
	matches "$output" 'ok +probe '
	not grep -q 'runs scripts' <<<"$output"
}

@test "the lock is the key with the token and the TTL, with nothing beside it" {
	works || return 0
	rcli config resetstat
	hold -t 20s --
	key_is "$TOKEN"
	between "$(rcli pttl "$KEY")" 15000 20000
	equal "$(lock_keys)" "$KEY"
	between "$FENCE" "$(($(rcli time | head -n 1) - 10))000000" "$(($(rcli time | head -n 1) + 1))000000"
	local fence=$FENCE
	release
	nothing_left
	hold --
	((FENCE > fence)) || fail "fence $FENCE after $fence"
	release
	not grep -qiE 'cmdstat_(eval|fcall|subscribe)' <<<"$(rcli info commandstats)"
}

@test "while it is held nobody else gets it, and nothing shows the token" {
	works || return 0
	hold -t 20s --
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "^dlock: $LOCK: held by another client"
	not grep -q "$TOKEN" <<<"$stderr"
	run --separate-stderr -1 "$DLOCK" status --json "$LOCK"
	not grep -q "$TOKEN" <<<"$output$stderr"
	equal "$(jq -r '"\(.held) \(.holders | length) \(.waiters | length)"' <<<"$output")" "true 1 0"
	between "$(jq '.holders[0].expires_in_ms' <<<"$output")" 10000 20000
	run -0 "$DLOCK" status
	has_line <(echo "$output") "^$LOCK +exclusive"
	# Clients with scripts respect it, too.
	run -124 "$DLOCK" run -n -b "$REDIS" "$LOCK" -- touch ran
	release
	hold -b "$REDIS" --
	run -124 "$DLOCK" run -n "$LOCK" -- touch ran
	release
	hold -b "$REDIS" -s --
	run -124 "$DLOCK" run -n "$LOCK" -- touch ran
	release
	[[ ! -e ran ]]
}

@test "it is renewed for as long as the command runs, and lost when the key is" {
	works || return 0
	testify "$REDIS_PORT" -t 1s -k 300ms
	lives_on 2500
	rcli del "$KEY"
	lost
	nothing_left
	testify "$REDIS_PORT" -t 1s -k 300ms
	rcli set "$KEY" "$SOME" px 60000
	lost
	key_is "$SOME"
}

@test "a server that stops: the command is dead before the lease ends" {
	works || return 0
	private_redis
	testify "$P_PORT" -b "$P_URI?scripts=no" -t 1500ms -k 300ms
	kill -STOP "$P_PID"
	lost
	dead_in_time
	kill -CONT "$P_PID"
}

@test "acquire, verify, renew and release, and only the owner" {
	works || return 0
	take -t 20s
	"$DLOCK" verify "$LOCK" "$TOKEN"
	"$DLOCK" renew -t 60s "$LOCK" "$TOKEN"
	between "$(rcli pttl "$KEY")" 50000 60000
	# The TTL is stored nowhere: to no less than is left, and to 30 s at least.
	"$DLOCK" renew "$LOCK" "$TOKEN"
	between "$(rcli pttl "$KEY")" 45000 60000
	rcli pexpire "$KEY" 5000
	"$DLOCK" renew "$LOCK" "$TOKEN"
	between "$(rcli pttl "$KEY")" 25000 30000
	local verb
	for verb in verify renew release; do
		run -123 "$DLOCK" $verb "$LOCK" "$SOME"
		key_is "$TOKEN"
	done
	run --separate-stderr -125 env DLOCK_TOKEN="$TOKEN" "$DLOCK" acquire -n "$LOCK"
	one_line 'cannot count'
	"$DLOCK" release "$LOCK" "$TOKEN"
	wait_until 1 nothing_left
	for verb in verify renew release; do
		run -123 "$DLOCK" $verb "$LOCK" "$TOKEN"
	done
	nothing_left
}

@test "a run inside a run, and inside a hold, goes on under the same lock" {
	works || return 0
	"$DLOCK" run "$LOCK" -- "$DLOCK" run -n "$LOCK" -- touch ran
	[[ -e ran ]]
	take -t 3s
	DLOCK_NAME=$LOCK DLOCK_TOKEN=$TOKEN "$DLOCK" run -n "$LOCK" -- touch joined
	[[ -e joined ]]
	key_is "$TOKEN"
	"$DLOCK" release "$LOCK" "$TOKEN"
}

@test "--min-hold of run keeps the lock for that time" {
	works || return 0
	"$DLOCK" run --min-hold 3s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	between "$(rcli pttl "$KEY")" 1 3000
	wait_until 5 nothing_left
}

@test "waiters get the lock one after the other, and a crash costs them one lease" {
	works || return 0
	hold -t 1s --
	local n waiters=() family
	for n in 1 2 3 4; do
		start "$DLOCK" run "$LOCK" -- sh -c 'mkdir in && echo "$DLOCK_FENCE" >>fences && sleep 0.1; rmdir in'
		waiters+=("$PID")
	done
	holds_for 500 test ! -e fences
	family=$(tree "$HOLDER")
	# shellcheck disable=SC2086 # words
	kill -KILL "$HOLDER" $family
	for n in "${waiters[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	equal "$(wc -l <fences)" 4
	sort -nu fences | diff - fences
	nothing_left
}

@test "a waiter that gives up, or is killed, leaves nothing" {
	works || return 0
	hold --
	run -124 "$DLOCK" run -w 600ms "$LOCK" -- touch ran
	start "$DLOCK" run "$LOCK" -- touch ran
	holds_for 300 alive "$PID"
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143
	key_is "$TOKEN"
	release
	nothing_left
	[[ ! -e ran ]]
}

@test "replies that are lost: acquired, renewed and released all the same" {
	works || return 0
	start_proxy "$REDIS_PORT"
	# the acquisition
	proxy cut-on NX
	hold -b "$PROXY?scripts=no" -t 1500ms --
	key_is "$TOKEN"
	proxy_stat cut
	equal "$VALUE" 1
	# the clock
	release
	proxy cut-on TIME
	hold -b "$PROXY?scripts=no" -t 3s --
	key_is "$TOKEN"
	# a renewal
	proxy cut-on IFEQ
	holds_for 4500 key_is "$TOKEN"
	alive "$COMMAND"
	proxy_stat cut
	equal "$VALUE" 3
	# the release
	proxy cut-on DEL
	release
	wait_until 1 nothing_left
	not has_line "$HOLDER_ERR" lost
}

@test "an acquisition whose reply never comes leaves no lock for longer than its TTL" {
	works || return 0
	start_proxy "$REDIS_PORT"
	proxy drop-on NX
	run --separate-stderr -122 "$DLOCK" run -n -t 2s -b "$PROXY?scripts=no&timeout=500ms" "$LOCK" -- touch ran
	one_line
	[[ ! -e ran ]]
	wait_until 3 nothing_left
}

@test "a waiter whose server is gone for a moment waits on, and gets the lock" {
	works || return 0
	private_redis
	export DLOCK_BACKEND="$P_URI?scripts=no"
	hold -t 3s --
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	holds_for 400 alive "$waiter"
	redis_stop "$P_DIR"
	# The holder's lease lives on for a while, but the server has forgotten it.
	lost
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	join "$waiter" 10
	equal "$status" 0
	[[ -e ran ]]
}

@test "break deletes what was there, but never what is no string" {
	works || return 0
	take -t 30s
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line "^dlock: $LOCK: broken"
	wait_until 1 nothing_left
	run -0 "$DLOCK" break --yes "$LOCK"
	rcli rpush "$KEY" a
	run --separate-stderr -122 "$DLOCK" break --yes "$LOCK"
	one_line 'is no string'
	run -124 "$DLOCK" run -n "$LOCK" -- true
	run -123 "$DLOCK" verify "$LOCK" "$SOME"
	run -123 "$DLOCK" release "$LOCK" "$SOME"
	equal "$(rcli lrange "$KEY" 0 -1)" a
	rcli del "$KEY"
}

@test "wait returns when the lock is free" {
	works || return 0
	take -t 1s
	start "$DLOCK" wait "$LOCK"
	holds_for 300 alive "$PID"
	join "$PID" 3
	equal "$status" 0
	take -t 30s
	run --separate-stderr -124 "$DLOCK" wait -w 200ms "$LOCK"
	one_line 'held by another client'
	"$DLOCK" release "$LOCK" "$TOKEN"
}

@test "check says what is lost, and that the server does run scripts" {
	works || return 0
	run -1 "$DLOCK" check
	matches "$output" 'warning +scripts +the server runs scripts.*no queue.*leave out \?scripts=no'
	matches "$output" 'ok +probe '
}

@test "the permissions in dlock-backends.7 suffice" {
	works || return 0
	private_redis
	local words
	mapfile -t words < <(redis_acl -@scripting | xargs -n 1)
	equal "${words[*]:0:3}" "redis-cli acl setuser"
	equal "$(redis_at "$P_DIR" "${words[@]:1}")" OK
	export DLOCK_BACKEND="redis://jobs:PASSWORD@127.0.0.1:$P_PORT/1?scripts=no"
	hold -t 1s --
	holds_for 1000 alive "$COMMAND"
	run -124 "$DLOCK" run -w 300ms "$LOCK" -- true
	release
	"$DLOCK" run --min-hold 50ms "$LOCK" -- true
	take -w 5s
	"$DLOCK" renew "$LOCK" "$TOKEN"
	"$DLOCK" verify "$LOCK" "$TOKEN"
	run -1 "$DLOCK" status "$LOCK"
	"$DLOCK" release "$LOCK" "$TOKEN"
	take -w 5s
	"$DLOCK" break --yes "$LOCK"
	wait_until 1 redis_is_empty
}

redis_is_empty() {
	[[ $(redis_at "$P_DIR" -n 1 dbsize) == 0 ]]
}

# ---- servers that are found

# has_token PORT: this server says that $TOKEN holds the lock
has_token() {
	answers "$TOKEN" "$1" get "$KEY"
}

@test "Sentinel: the lock is held on after a failover, and goes to a waiter; what replicas lack is lost" {
	sentinels
	DLOCK_BACKEND="$URI?scripts=no"
	works || return 0
	hold -t 6s --
	wait_until 5 has_token "$R_PORT"
	start "$DLOCK" run "$LOCK" -- touch turn
	local waiter=$PID
	kill -KILL "$M_PID"
	wait_until 15 master_is "$R_PORT"
	# Longer than what was left of the lease.
	holds_for 6500 alive "$COMMAND"
	has_token "$R_PORT"
	[[ ! -e turn ]]
	release
	join "$waiter" 8
	equal "$status" 0
	[[ -e turn ]]
	hold -t 3s --
	at "$R_PORT" del "$KEY" >/dev/null
	join "$HOLDER" 5
	equal "$status" 123
	ended "$COMMAND"
	run "$DLOCK" check
	matches "$output" 'ok +sentinel '
	matches "$output" 'warning +scripts +the server runs scripts'
}

@test "a cluster: the lock is at its master, and stays held and waited for while its slot moves" {
	local BATS_FILE_TMPDIR=$T/cluster n waiter
	mkdir cluster
	CLUSTER_COUNT=3
	cluster_for_file
	SERVICES+=("${NODE_PIDS[@]:1}")
	DLOCK_BACKEND="$URI?scripts=no"
	node_of "$KEY"
	works || return 0
	n=$((NODE % 3 + 1))
	hold -t 3s --
	has_token "${NODE_PORTS[NODE]}"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	start "$DLOCK" run "$LOCK" -- touch turn
	waiter=$PID
	begin_move "$NODE" "$n"
	# The key is still here, and then there, where only those who ask find it.
	run -124 "$DLOCK" run -n "$LOCK" -- true
	move_keys "$NODE" "$n"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	holds_for 3500 alive "$COMMAND"
	end_move "$NODE" "$n"
	holds_for 1500 alive "$COMMAND"
	has_token "${NODE_PORTS[n]}"
	[[ ! -e turn ]]
	release
	join "$waiter" 8
	equal "$status" 0
	answers 0 "${NODE_PORTS[n]}" exists "$KEY"
	# A lock that is new while the slot is under way is taken at the new node.
	begin_move "$n" "$NODE"
	hold -t 3s --
	answers '.*ASK .*' "${NODE_PORTS[n]}" exists "$KEY"
	end_move "$n" "$NODE"
	has_token "${NODE_PORTS[NODE]}"
	release
	run "$DLOCK" check
	matches "$output" 'ok +coverage |note +coverage '
}
