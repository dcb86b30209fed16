# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Programs for Node.js that lock with redlock or redis-semaphore, on one server and on five. What
# they do is done by interop/node_locks.py, or, where NODE_PATH names them, by the packages
# themselves: see interop/node_locks.js.

load ../lib/helpers
load redis
load ../redlock/redlock
load ../lib/peer

setup_file() {
	redis_for_file
	redlock_for_file
}

teardown_file() {
	redis_file_end
	redlock_file_end
}

# peers KIND SERVERS: starts a Node program; SERVERS is 1 or 5. Sets DLOCK_BACKEND to the same locks.
# TAKE and ADD are the words for its locks. See peer.bash.
peers() {
	local sockets=("$REDIS_DIR/sock") program prefix=
	[[ $1 != semaphore ]] || prefix=mutex:
	export DLOCK_BACKEND="$REDIS?prefix=$prefix"
	if [[ $2 == 5 ]]; then
		sockets=("$NODES"/*/sock)
		DLOCK_BACKEND="$REDLOCK?prefix=$prefix"
	fi
	if [[ -n ${NODE_PATH-} ]]; then
		program=(node "$TOP/tests/redis/node_locks.js")
	else
		/usr/bin/python3 -c 'import redis' || not_here "needs python3-redis"
		program=(/usr/bin/python3 -B "$TOP/tests/redis/node_locks.py")
	fi
	KIND=$1
	LOCK=$LOCK-$1-$2
	start_peer 10 "${program[@]}" "${sockets[@]}"
}

# each TEST: calls it for each kind of lock, on one server and on five
each() {
	local kind servers name=$LOCK
	for kind in redlock semaphore; do
		for servers in 1 5; do
			LOCK=$name
			peers "$kind" "$servers"
			"$1"
			[[ -z ${TO_PEER-} ]] || kill_peer
		done
	done
}

node_holds() {
	tell take a "$KIND" "$LOCK" 1200 0
	hears 'a held'
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by another client"
	start "$DLOCK" run "$LOCK" -- touch "ran.$LOCK"
	local waiter=$PID
	# Longer than its TTL: it is extended.
	holds_for 1700 test ! -e "ran.$LOCK"
	tell give a
	hears 'a free'
	join "$waiter" 3
	equal "$status" 0
	[[ -e ran.$LOCK ]]
}

@test "a Node program that holds keeps dlock out, past its TTL, and its release lets dlock in" {
	each node_holds
}

dlock_holds() {
	hold -t 4s --
	tell take b "$KIND" "$LOCK" 2000 200
	hears 'b busy'
	tell take c "$KIND" "$LOCK" 2000 20000
	holds_for 5000 not heard 'c held'
	alive "$COMMAND"
	release
	hears 'c held' 3
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell give c
	hears 'c free'
	"$DLOCK" run -w 2s "$LOCK" -- true
}

# bats test_tags=more
@test "dlock that holds keeps Node programs out, past its TTL, and its release lets one in" {
	each dlock_holds
}

node_crashes() {
	tell take a "$KIND" "$LOCK" 1500 0
	hears 'a held'
	start "$DLOCK" run "$LOCK" -- touch "ran.$LOCK"
	local waiter=$PID
	kill_peer
	[[ ! -e ran.$LOCK ]]
	join "$waiter" 5
	equal "$status" 0
	[[ -e ran.$LOCK ]]
}

# bats test_tags=more
@test "a Node program that crashes: dlock gets the lock when the lease has ended" {
	each node_crashes
}

dlock_crashes() {
	hold -t 4s --
	local family
	family=$(tree "$HOLDER")
	tell take z "$KIND" "$LOCK" 2000 0
	hears 'z busy'
	tell take a "$KIND" "$LOCK" 2000 10000
	# shellcheck disable=SC2086 # words
	kill -KILL "$HOLDER" $family
	hears 'a held' 8
	tell give a
	hears 'a free'
}

# bats test_tags=more
@test "dlock killed with all its processes: a Node program gets the lock when the lease has ended" {
	each dlock_crashes
}

all_add() {
	local n pids=()
	echo 0 >number
	for n in 1 2 3; do
		tell add "add$n" "$KIND" "$LOCK" 5000 5 "$PWD/number"
		start sh -c 'for n in 1 2 3 4 5; do
			"$DLOCK" run -t 5s "$LOCK" -- sh -c "read -r n <number; sleep 0.002; echo \$((n + 1)) >number" || exit
		done'
		pids+=("$PID")
	done
	for n in 1 2 3; do
		join "${pids[n - 1]}" 60
		equal "$status" 0
		hears "add$n done" 60
	done
	equal "$(<number)" 30
}

# bats test_tags=more
@test "a number that three Node programs and three runs of dlock add to" {
	each all_add
}
