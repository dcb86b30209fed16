# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redisson: interop/redisson_locks.py does to the server what a Java program with Redisson does, and
# dlock takes the same locks.

load ../lib/helpers
load redis
load redisson

prepare() {
	BASE="$REDIS?dialect=redisson"
	export DLOCK_BACKEND=$BASE
}

# hear_messages: notes all messages about $LOCK in ./messages, as "CHANNEL TEXT"
hear_messages() {
	start "$REDIS_CLI" -s "$REDIS_DIR/sock" psubscribe "*$LOCK*"
	MESSAGES=$OUT
	wait_until 5 has_line "$MESSAGES" '^1$'
}

# messages TEXT: what was published since hear_messages
messages() {
	sed -n '/^pmessage$/ { n; n; N; s/\n/ /p; }' "$MESSAGES" | paste -sd , | grep -Fxq -- "$1"
}

# fields: prints the fields of the lock's hash with their counts
fields() {
	rcli hgetall "$LOCK" | paste -sd ' '
}

# nothing_but_fences: the server has nothing else of this lock
nothing_but_fences() {
	lock_keys | sed -E '/}:fence$|^redisson_lock_token:/d' >left
	[[ ! -s left ]] || fail "left behind: $(<left)"
}

@test "RLock: a field of Redisson's form, the count and the lease; the token is in none" {
	hold -t 20s --
	matches "$(fields)" "^$UUID:[0-9]+ 1\$"
	between "$(rcli pttl "$LOCK")" 15000 20000
	rcli hgetall "{$LOCK}:holders" >notes
	rcli hgetall "$LOCK" >>notes
	not grep -q "$TOKEN" notes
	between "$(rcli pttl "{$LOCK}:holders")" 15000 20000
	release
	nothing_but_fences
	between "$(rcli ttl "{$LOCK}:fence")" 2500000 2592000
}

@test "RLock and dlock exclude each other, wait for each other and are woken" {
	peer
	excludes lock listeners 1
	excluded lock listeners 1
	nothing_but_fences
}

# bats test_tags=more
@test "the fair lock and dlock exclude each other, wait for each other and are woken" {
	peer
	export DLOCK_BACKEND="$BASE&lock=fair"
	excludes fair in_queue 1
	excluded fair in_queue 1
	nothing_but_fences
}

# bats test_tags=more
@test "the fenced lock and dlock exclude each other, and draw fences from one sequence" {
	peer
	export DLOCK_BACKEND="$BASE&lock=fenced"
	excludes fenced listeners 1
	excluded fenced listeners 1
	hears 'a held 1'
	hears 'c held 4'
	equal "$("$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE)" 5
	equal "$(rcli get "redisson_lock_token:{$LOCK}")" 5
	equal "$(rcli ttl "redisson_lock_token:{$LOCK}")" -1
	nothing_but_fences
}

@test "the write lock and dlock exclude each other, wait for each other and are woken" {
	peer
	export DLOCK_BACKEND="$BASE&lock=readwrite"
	excludes write listeners 1 redisson_rwlock
	excluded write listeners 1 redisson_rwlock
	hold --
	matches "$(fields)" "^mode write $UUID:[0-9]+:write 1\$"
	release
	nothing_but_fences
}

@test "read locks: Java and dlock share, and keep writers out until the last has gone" {
	peer
	export DLOCK_BACKEND="$BASE&lock=readwrite"
	tell take a read "$LOCK" 0
	hears 'a held'
	hold -s -t 20s --
	equal "$(rcli hlen "$LOCK") $(rcli hget "$LOCK" mode)" "3 read"
	equal "$(lock_keys | grep -Ec "^[{]${LOCK}[}]:$UUID:[0-9]+:rwlock_timeout:1\$")" 2 "keys of readers"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell take w write "$LOCK" 0
	hears 'w busy'
	start "$DLOCK" run "$LOCK" -- touch ran
	local writer=$PID
	wait_until 5 listeners 1 redisson_rwlock
	tell give a
	hears 'a free'
	between "$(rcli pttl "$LOCK")" 10000 20000
	holds_for 200 test ! -e ran
	release
	join "$writer" 2
	[[ -e ran ]]
	# and the other way round
	hold -s --
	tell take a read "$LOCK" 0
	wait_until 5 has_line "$PEER_OUT" 'a held'
	release
	run -124 "$DLOCK" run -n "$LOCK" -- true
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	tell give a
	wait_until 2 is_free
	# a writer keeps both kinds of readers out
	hold --
	tell take r read "$LOCK" 10000
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
	wait_until 5 listeners 1 redisson_rwlock
	release
	hears 'r held' 2
	tell give r
	hears 'r free'
	nothing_but_fences
}

# bats test_tags=more
@test "a Java reader that renews, and then crashes, does not cut dlock's shared hold short" {
	peer 4000
	export DLOCK_BACKEND="$BASE&lock=readwrite&watchdog=4s"
	run --separate-stderr -125 "$DLOCK" run -s -t 5s "$LOCK" -- true
	one_line '4000 ms at most, which is .watchdog='
	hold -s -t 4s --
	run --separate-stderr -125 "$DLOCK" renew -t 10s "$LOCK" "$TOKEN"
	one_line '4000 ms at most'
	tell take a read "$LOCK" 0
	hears 'a held'
	holds_for 1800 alive "$COMMAND"
	kill_peer
	start "$DLOCK" run -w 20s "$LOCK" -- touch ran
	local writer=$PID
	holds_for 5500 test ! -e ran
	alive "$COMMAND"
	equal "$("$DLOCK" status "$LOCK" | grep -c shared)" 1 "holders shown: a crashed one is none"
	release
	join "$writer" 3
	equal "$status" 0
}

# bats test_tags=more
@test "a semaphore: Java and dlock share the permits, and wake each other" {
	peer
	export DLOCK_BACKEND="$BASE&lock=semaphore"
	hold --slots 2 --
	equal "$(rcli get "$LOCK") $(rcli zcard "{$LOCK}:timeout")" "1 1"
	tell take a permit "$LOCK" 0
	hears 'a held'
	run --separate-stderr -124 "$DLOCK" run -n --slots 2 "$LOCK" -- true
	run --separate-stderr -125 "$DLOCK" run -n --slots 3 "$LOCK" -- true
	one_line '--slots 3 disagrees .* 2 permits'
	tell take b permit "$LOCK" 10000
	wait_until 5 listeners 1 redisson_sc
	holds_for 200 not heard 'b held'
	release
	hears 'b held' 2
	start "$DLOCK" run --slots 2 "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 listeners 1 redisson_sc
	run -1 "$DLOCK" status "$LOCK"
	matches "$output" 'slot 1 of 2 .*Redisson [0-9a-f]{32}'
	tell give a
	join "$waiter" 2
	equal "$status" 0
	tell give b
	hears 'b free'
	equal "$(rcli get "$LOCK")" 2
	# a permit whose lease has ended is free
	tell take c permit "$LOCK" 0 300
	hears 'c held'
	tell take d permit "$LOCK" 0 100
	hears 'd held'
	hold --slots 2 --
	wait_until 2 "$DLOCK" run -n --slots 2 "$LOCK" -- true
	release
	equal "$(rcli get "$LOCK") $(rcli zcard "{$LOCK}:timeout")" "2 0"
	# nested, and given back by the token from anywhere
	TOKEN=$("$DLOCK" acquire --slots 2 "$LOCK")
	equal "$(DLOCK_TOKEN=$TOKEN "$DLOCK" acquire --slots 2 "$LOCK")" "$TOKEN+1"
	"$DLOCK" release "$LOCK" "$TOKEN+1"
	"$DLOCK" verify "$LOCK" "$TOKEN"
	"$DLOCK" release "$LOCK" "$TOKEN"
	run -123 "$DLOCK" verify "$LOCK" "$TOKEN"
	equal "$(rcli get "$LOCK")" 2
	"$DLOCK" check >/dev/null || equal "$?" 1
}

@test "re-entry: Java's last release frees; dlock counts nothing, and frees no counted hold" {
	peer
	tell take a lock "$LOCK" 0
	tell take a lock "$LOCK" 0
	wait_until 5 eval '[[ $(grep -c "a held" "$PEER_OUT") == 2 ]]'
	tell give a
	hears 'a free'
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell take a lock "$LOCK" 0
	wait_until 5 eval '[[ $(grep -c "a held" "$PEER_OUT") == 3 ]]'
	matches "$(fields)" ':[0-9]+ 2$'
	run -123 "$DLOCK" release "$LOCK" 0123456789abcdef0123456789abcdef
	run -123 "$DLOCK" release "$LOCK" 0123456789abcdef0123456789abcdef+1
	matches "$(fields)" ':[0-9]+ 2$'
	tell give a
	tell give a
	wait_until 2 is_free
	TOKEN=$("$DLOCK" acquire "$LOCK")
	DLOCK_TOKEN=$TOKEN "$DLOCK" acquire "$LOCK"
	matches "$(fields)" ':[0-9]+ 1$'
	tell take b lock "$LOCK" 20000
	wait_until 5 listeners 1
	"$DLOCK" release "$LOCK" "$TOKEN+1"
	holds_for 200 not heard 'b held'
	matches "$(fields)" ':[0-9]+ 1$'
	"$DLOCK" release "$LOCK" "$TOKEN"
	hears 'b held' 2
	tell give b
	hears 'b free'
	nothing_but_fences
}

@test "each kind of lock is released with the message that Redisson sleeps on" {
	hear_messages
	"$DLOCK" run "$LOCK" -- true
	wait_until 2 messages "redisson_lock__channel:{$LOCK} 0"
	"$DLOCK" run -b "$BASE&lock=readwrite" -s "$LOCK" -- true
	wait_until 2 messages "redisson_lock__channel:{$LOCK} 0,redisson_rwlock:{$LOCK} 0"
	"$DLOCK" run -b "$BASE&lock=readwrite" "$LOCK" -- true
	wait_until 2 messages "redisson_lock__channel:{$LOCK} 0,redisson_rwlock:{$LOCK} 0,redisson_rwlock:{$LOCK} 1"
}

@test "the watchdog keeps dlock out for as long as the Java program lives, and no longer" {
	peer 900
	tell take a lock "$LOCK" 0
	hears 'a held'
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	holds_for 2000 test ! -e ran
	kill_peer
	join "$waiter" 4
	equal "$status" 0
}

# bats test_tags=more
@test "dlock killed with all its processes: a Java program gets the lock when the lease has ended" {
	peer
	hold -t 4s --
	local family
	family=$(tree "$HOLDER")
	# stopped first: none may see another one die, and release
	# shellcheck disable=SC2086 # words
	kill -STOP "$HOLDER" $family
	# shellcheck disable=SC2086
	kill -KILL "$HOLDER" $family
	tell take a lock "$LOCK" 10000
	hears 'a held' 8
	tell give a
	hears 'a free'
}

@test "a lock that Java took over is lost, and what is Java's is not touched" {
	peer
	hold -t 4s --
	rcli del "$LOCK"
	tell take a lock "$LOCK" 0
	hears 'a held'
	join "$HOLDER" 8
	equal "$status" 123
	has_line "$HOLDER_ERR" "lost: .*somebody else"
	matches "$(fields)" ':[0-9]+ 1$'
	between "$(rcli pttl "$LOCK")" 25000 30000
	tell give a
	hears 'a free'
	# a lock that is gone is not made again
	TOKEN=$("$DLOCK" acquire "$LOCK")
	rcli del "$LOCK"
	run --separate-stderr -123 "$DLOCK" renew "$LOCK" "$TOKEN"
	equal "$(rcli exists "$LOCK")" 0
}

@test "the fair lock: Java and dlock get it in the order in which they came" {
	peer
	export DLOCK_BACKEND="$BASE&lock=fair"
	hold --
	start "$DLOCK" run "$LOCK" -- sh -c 'echo 1 >>order'
	wait_until 5 in_queue 1
	tell take a fair "$LOCK" 30000
	wait_until 5 in_queue 2
	start "$DLOCK" run "$LOCK" -- sh -c 'echo 3 >>order'
	local third=$PID
	wait_until 5 in_queue 3
	tell take b fair "$LOCK" 30000
	wait_until 5 in_queue 4
	# for each a turn of 5 minutes more than for the one before
	equal "$(rcli zrange "redisson_lock_timeout:{$LOCK}" 0 -1 | paste -sd ' ')" \
		"$(rcli lrange "redisson_lock_queue:{$LOCK}" 0 -1 | paste -sd ' ')"
	run -1 "$DLOCK" status "$LOCK"
	equal "$(grep -c waiter <<<"$output")" 4
	release
	hears 'a held' 3
	equal "$(<order)" 1
	tell give a
	hears 'b held' 3
	join "$third" 3
	equal "$(tr '\n' ' ' <order)" "1 3 "
	tell give b
	hears 'b free'
	nothing_but_fences
}

# bats test_tags=more
@test "the fair lock: waiters that have died or given up delay nobody" {
	peer
	export DLOCK_BACKEND="$BASE&lock=fair"
	hold --
	start "$DLOCK" run "$LOCK" -- touch dead
	wait_until 5 in_queue 1
	local first=$PID family
	family=$(tree "$first")
	tell take a fair "$LOCK" 6000
	wait_until 5 in_queue 2
	start "$DLOCK" run -w 6s "$LOCK" -- touch dead
	local second=$PID
	wait_until 5 in_queue 3
	tell take b fair "$LOCK" 30000
	wait_until 5 in_queue 4
	# shellcheck disable=SC2086 # words
	kill -KILL "$first" $family
	join "$second"
	hears 'a busy'
	release
	hears 'b held' 3
	tell give b
	hears 'b free'
	[[ ! -e dead ]]
	nothing_but_fences
}

# bats test_tags=more
@test "the fair lock: a waiter that hangs delays the next by 1.5 s at most, and still gets its turn" {
	export DLOCK_BACKEND="$BASE&lock=fair"
	hold --
	start "$DLOCK" run "$LOCK" -- touch hung
	local hung=$PID next family start
	wait_until 5 in_queue 1
	start "$DLOCK" run "$LOCK" -- touch next
	next=$PID
	wait_until 5 in_queue 2
	family=$(tree "$hung")
	# shellcheck disable=SC2086 # words
	kill -STOP "$hung" $family
	now
	start=$NOW
	release
	join "$next"
	equal "$status" 0
	now
	took $((NOW - start)) 0 2000
	[[ ! -e hung ]]
	# shellcheck disable=SC2086
	kill -CONT "$hung" $family
	join "$hung"
	equal "$status" 0
	nothing_but_fences
}

@test "status, wait and break know Java's holds; break wakes Java's waiters" {
	peer
	tell take a lock "$LOCK" 0
	hears 'a held'
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "exclusive .*Redisson $UUID:[0-9]+"
	run -124 "$DLOCK" wait -w 0 "$LOCK"
	start "$DLOCK" wait "$LOCK"
	local waiter=$PID
	tell give a
	join "$waiter" 5
	hold --
	run -0 "$DLOCK" status
	matches "$output" "$LOCK +exclusive"
	tell take b lock "$LOCK" 20000
	wait_until 5 listeners 1
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	hears 'b held' 2
	kill -KILL "$COMMAND"
	join "$HOLDER"
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line "Redisson $UUID"
	tell give b
	hears 'b lost'
	nothing_but_fences
}

# bats test_tags=more
@test "--min-hold: Java's waiters are woken when the lease gets shorter, and get the lock at its end" {
	peer
	hold --min-hold 1500ms -t 30s --
	tell take a lock "$LOCK" 20000
	wait_until 5 listeners 1
	release
	holds_for 300 not heard 'a held'
	hears 'a held' 4
	tell give a
	hears 'a free'
}

# bats test_tags=more
@test "--min-hold of a read lock may be longer than the leases of Java's watchdog" {
	export DLOCK_BACKEND="$BASE&lock=readwrite&watchdog=2s"
	"$DLOCK" run -s -t 1s --min-hold 20s "$LOCK" -- true
	between "$(rcli pttl "$LOCK")" 15000 20000
	run --separate-stderr -125 "$DLOCK" run -s -t 3s "$LOCK" -- true
	TOKEN=$("$DLOCK" acquire -s -t 1s "$LOCK")
	run --separate-stderr -125 "$DLOCK" renew -t 3s "$LOCK" "$TOKEN"
	one_line 'shared hold of Redisson can have a TTL of 2000 ms'
	"$DLOCK" release "$LOCK" "$TOKEN"
}

# bats test_tags=more
@test "replies lost, a connection cut: each request is carried out once, and nothing is left" {
	local lock mode
	start_proxy "$REDIS_PORT"
	for lock in reentrant fenced readwrite semaphore; do
		mode=
		[[ $lock != semaphore ]] || mode='--slots 2'
		export DLOCK_BACKEND="$PROXY?dialect=redisson&lock=$lock"
		proxy cut-on EVALSHA
		# shellcheck disable=SC2086 # words
		TOKEN=$("$DLOCK" acquire $mode "$LOCK")
		proxy cut-after 2
		# shellcheck disable=SC2086
		DLOCK_TOKEN=$TOKEN "$DLOCK" acquire $mode "$LOCK" >/dev/null
		[[ $lock == semaphore ]] || has_line <(fields) ' 1$'
		proxy cut-on EVALSHA
		"$DLOCK" release "$LOCK" "$TOKEN+1"
		"$DLOCK" verify "$LOCK" "$TOKEN"
		"$DLOCK" release "$LOCK" "$TOKEN"
		run -123 "$DLOCK" verify "$LOCK" "$TOKEN"
		[[ $lock != fenced ]] || equal "$(rcli get "redisson_lock_token:{$LOCK}")" 1 "fences given"
		[[ $lock != semaphore ]] || equal "$(rcli get "$LOCK")" 2 "permits"
		rcli del "$LOCK" >/dev/null
		nothing_but_fences
	done
	proxy_stat cut
	equal "$VALUE" 12
}

# bats test_tags=more
@test "a message that was lost: the waiter tries at the end of the lease, and every 5 s" {
	start_proxy "$REDIS_PORT"
	rcli hset "$LOCK" 5ba7c2f0-0000-4000-8000-000000000000:1 1
	rcli pexpire "$LOCK" 1200
	run -0 "$DLOCK" run -w 4s "$LOCK" -- true
	rcli hset "$LOCK" 5ba7c2f0-0000-4000-8000-000000000000:1 1
	start "$DLOCK" run -b "$PROXY?dialect=redisson" "$LOCK" -- true
	wait_until 5 listeners 1
	# an end without a message
	rcli del "$LOCK"
	join "$PID" 8
	equal "$status" 0
}

# bats test_tags=more
@test "a key of another type counts as held, and is not written to" {
	local lock
	for lock in reentrant fair fenced readwrite; do
		rcli set "$LOCK" mine
		run --separate-stderr -124 "$DLOCK" run -n -b "$BASE&lock=$lock" "$LOCK" -- true
		one_line 'held by another client: key of type string'
		equal "$(rcli get "$LOCK")" mine
	done
	run -124 "$DLOCK" run -n -b "$BASE&lock=semaphore" --slots 2 "$LOCK" -- true
	# the plain dialect at the same key
	run -124 "$DLOCK" run -n -b "$REDIS?prefix=" "$LOCK" -- true
	rcli del "$LOCK"
	hold --
	run -124 "$DLOCK" run -n -b "$REDIS?prefix=" "$LOCK" -- true
	run -124 "$DLOCK" run -n -b "$BASE&lock=readwrite" "$LOCK" -- true
	run -124 "$DLOCK" run -n -b "$BASE&lock=semaphore" --slots 2 "$LOCK" -- true
	matches "$(fields)" "^$UUID:[0-9]+ 1\$"
	release
}

@test "a mode that a kind of lock lacks is refused, and the message names a kind that has it" {
	local backend
	run --separate-stderr -125 "$DLOCK" run -b "$REDIS?dialect=jedis" "$LOCK" -- true
	one_line "unknown dialect 'jedis'"
	run --separate-stderr -125 "$DLOCK" run -b "$BASE&lock=spin" "$LOCK" -- true
	one_line "unknown lock 'spin'.* reentrant, fair, fenced, readwrite, semaphore"
	for backend in lock=fair watchdog=3s; do
		run --separate-stderr -125 "$DLOCK" run -b "$REDIS?$backend" "$LOCK" -- true
		one_line 'for .dialect=redisson only'
	done
	run --separate-stderr -125 "$DLOCK" run -s "$LOCK" -- true
	one_line 'no --shared;'
	run --separate-stderr -125 "$DLOCK" run --slots 2 "$LOCK" -- true
	one_line 'no --slots;'
	run --separate-stderr -125 "$DLOCK" run -b "$BASE&lock=semaphore" "$LOCK" -- true
	one_line 'needs --slots N'
	run --separate-stderr -125 "$DLOCK" run -s -b "$BASE&lock=semaphore" "$LOCK" -- true
	one_line 'no --shared'
	[[ -z $(lock_keys) ]]
}

@test "the permissions in the manual are enough" {
	local lock mode
	redisson_acl rcli
	for lock in reentrant fair fenced readwrite 'readwrite -s' 'semaphore --slots 2'; do
		mode=${lock#"${lock%% *}"}
		export DLOCK_BACKEND="redis://jobs:sesame@127.0.0.1:$REDIS_PORT?dialect=redisson&lock=${lock%% *}"
		# shellcheck disable=SC2086 # words
		hold -t 3s $mode --
		start "$DLOCK" run -w 500ms "$LOCK" -- true
		# shellcheck disable=SC2086 # words
		DLOCK_TOKEN=$TOKEN "$DLOCK" acquire $mode "$LOCK" >/dev/null
		"$DLOCK" renew "$LOCK" "$TOKEN"
		run -1 "$DLOCK" status "$LOCK"
		release
		join "$PID"
		rcli del "$LOCK"
	done
	run -0 "$DLOCK" break --yes "$LOCK"
	rcli acl deluser jobs
}

# bats test_tags=more
@test "a number that three threads of Java and three runs of dlock add to" {
	local n lock all
	peer
	for lock in lock:reentrant fair:fair; do
		all=()
		echo 0 >number
		for n in 1 2 3; do
			tell add "$lock.$n" "${lock%:*}" "$LOCK" 10 "$T/number"
			start sh -c 'for n in 1 2 3 4 5 6 7 8 9 10; do
				"$DLOCK" run -b "$0" "$LOCK" -- sh -c "n=\$(cat number); sleep 0.001; echo \$((n + 1)) >number"
			done' "$BASE&lock=${lock#*:}"
			all+=("$PID")
		done
		for n in 1 2 3; do
			hears "$lock.$n done" 30
			join "${all[n - 1]}" 30
		done
		equal "$(<number)" 60 "$lock"
		nothing_but_fences
	done
}
