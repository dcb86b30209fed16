# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A Java program with Redisson, as interop/redisson_locks.py plays it, at the server in REDIS_DIR.

load ../lib/peer

# peer [MS [sharded]]: starts the Java program, whose watchdog gives leases of MS; sharded: it sends
# and sleeps on sharded messages, as in a cluster of Redis 7. See peer.bash.
peer() {
	/usr/bin/python3 -c 'import redis' || not_here "needs python3-redis"
	start_peer 10 /usr/bin/python3 -B "$TOP/tests/redis/redisson_locks.py" \
		"$REDIS_DIR/sock" "${1:-30000}" "${@:2}"
}

# listeners N [CHANNEL [COUNT]]: so many clients sleep on the messages of $LOCK, as COUNT counts
# them: numsub, or shardnumsub
listeners() {
	[[ $(rcli pubsub "${3-numsub}" "${2-redisson_lock__channel}:{$LOCK}" | tail -n 1) == "$1" ]]
}

UUID='[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'

# excludes KIND WAITS...: a Java program that holds KIND keeps dlock out, and its release wakes dlock.
# WAITS is a command that succeeds when one process waits.
excludes() {
	rm -f ran
	tell take a "$1" "$LOCK" 0
	hears 'a held.*'
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by another client: Redisson $UUID:[0-9]+(:write)? \(on redis.*\)$"
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 "${@:2}"
	holds_for 200 test ! -e ran
	tell give a
	hears 'a free'
	join "$waiter" 2
	equal "$status" 0
	[[ -e ran ]]
}

# excluded KIND WAITS...: dlock keeps a Java program out, and its release wakes the program
excluded() {
	hold --
	tell take b "$1" "$LOCK" 200
	hears 'b busy'
	tell take c "$1" "$LOCK" 20000
	wait_until 5 "${@:2}"
	holds_for 200 not heard 'c held.*'
	release
	hears 'c held.*' 2
	tell give c
	hears 'c free'
}

in_queue() {
	[[ $(rcli llen "redisson_lock_queue:{$LOCK}") == "$1" ]]
}

# redisson_acl SERVER...: makes the user jobs, whose password is sesame, as dlock-redis.7 says for
# locks whose names begin with test-. SERVER is a command that runs redis-cli.
redisson_acl() {
	local words
	words=$(sed -n "/^redis-cli acl setuser jobs on.*/,/^.Ed/ p" "$TOP/man/dlock-redis.7" |
		sed -n "/redisson_/,/^.Ed/ p" | sed "s/^.Ed//; s/[\\]e$//; s/'//g; s/jobs-/test-/g")
	matches "$words" '\+hgetall.*\+rpush'
	# shellcheck disable=SC2086 # words
	"$@" acl setuser jobs on '>sesame' $words
}
