# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: Curator and kazoo, the real ones, and dlock take the same locks.

load ../lib/helpers
load zookeeper
load ../lib/peer

JARS=/usr/share/java
CURATOR=$JARS/curator-recipes.jar:$JARS/curator-framework.jar:$JARS/curator-client.jar:$JARS/zookeeper.jar:$JARS/guava.jar:$JARS/slf4j-nop.jar

setup_file() {
	zookeeper_for_file
	export CLASSES=$BATS_FILE_TMPDIR/classes
	javac -cp "$CURATOR" -d "$CLASSES" "$TOP/tests/zookeeper/CuratorLocks.java"
}

# peer curator|kazoo: starts it. KIND is what it calls a lock that excludes all. See peer.bash.
peer() {
	local program
	case $1 in
	curator)
		KIND=mutex
		program=(java "${ZK_JVM[@]}" -cp "$CLASSES:$CURATOR" CuratorLocks)
		;;
	kazoo)
		KIND=lock
		program=(/usr/bin/python3 -B "$TOP/tests/zookeeper/kazoo_locks.py")
		;;
	esac
	start_peer 60 "${program[@]}" "127.0.0.1:$ZK_PORT"
}

# excludes_dlock, excluded_by_dlock: the two halves of "exclude each other"
excludes_dlock() {
	tell take a "$KIND" "$NODE" 30000
	hears 'a held'
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by"
	run -1 "$DLOCK" status "$LOCK"
	wait_in_line 1 -- touch ran
	local waiter=$PID
	holds_for 300 test ! -e ran
	tell give a
	join "$waiter" 5
	equal "$status" 0
	[[ -e ran ]]
}

excluded_by_dlock() {
	hold --
	tell take b "$KIND" "$NODE" 500
	hears 'b busy'
	tell take c "$KIND" "$NODE" 20000
	wait_until 5 waiters 1
	holds_for 300 not heard 'c held'
	release
	hears 'c held' 5
	tell give c
	hears 'c free'
}

@test "Curator's InterProcessMutex and dlock exclude each other" {
	peer curator
	excludes_dlock
	excluded_by_dlock
	nothing_left
}

@test "kazoo's Lock and dlock exclude each other" {
	peer kazoo
	excludes_dlock
	excluded_by_dlock
	# kazoo makes directories that are no containers.
	wait_until 2 no_places
}

# in_turn: dlock and the peer get the lock in the order in which they asked for it
in_turn() {
	hold --
	tell take a "$KIND" "$NODE" 30000
	wait_until 5 waiters 1
	wait_in_line 2 -- sh -c 'touch two; while [ ! -e two.end ]; do sleep 0.02; done'
	local two=$PID
	tell take c "$KIND" "$NODE" 30000
	wait_until 5 waiters 3
	wait_in_line 4 -- sh -c 'touch four; while [ ! -e four.end ]; do sleep 0.02; done'
	local four=$PID
	release
	hears 'a held'
	[[ ! -e two && ! -e four ]]
	not heard 'c held'
	# A client that comes now stands behind all of them.
	run -124 "$DLOCK" run -w 2s "$LOCK" -- touch stranger
	tell give a
	wait_until 5 test -e two
	[[ ! -e four ]]
	not heard 'c held'
	touch two.end
	hears 'c held'
	[[ ! -e four ]]
	join "$two"
	tell give c
	wait_until 5 test -e four
	touch four.end
	join "$four"
	equal "$status" 0
}

# bats test_tags=more
@test "Curator and dlock get the lock in the order in which they came" {
	peer curator
	in_turn
}

# bats test_tags=more
@test "kazoo and dlock get the lock in the order in which they came" {
	peer kazoo
	in_turn
}

# add_together KIND...: the peer and dlock add to one number, all at once
add_together() {
	local n kind adders=() who=0
	echo 0 >number
	for kind; do
		tell add "p$((++who))" "$kind" "$NODE" 25 "$T/number"
	done
	for n in 1 2 3; do
		start bash -ec 'for n in {1..25}; do
			"$DLOCK" run "$LOCK" -- sh -c "number=\$(cat number); echo \$((number + 1)) >number"
		done'
		adders+=("$PID")
	done
	for n in "${adders[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	for ((n = 1; n <= who; n++)); do
		hears "p$n done" 60
	done
	equal "$(<number)" $((25 * (3 + who))) "sum"
}

# bats test_tags=more
@test "Curator and dlock add to one number, and lose nothing" {
	peer curator
	add_together mutex mutex
}

# bats test_tags=more
@test "kazoo and dlock add to one number, and lose nothing" {
	peer kazoo
	add_together lock lock
}

@test "Curator, kazoo with the node name of dlock-zookeeper.7, and dlock add to one number" {
	local curator
	echo 0 >number
	peer curator
	curator=$PEER_OUT
	tell add c mutex "$NODE" 25 "$T/number"
	peer kazoo
	tell add k curator-lock "$NODE" 25 "$T/number"
	run -0 bash -ec 'for n in {1..25}; do
		"$DLOCK" run "$LOCK" -- sh -c "number=\$(cat number); echo \$((number + 1)) >number"
	done'
	hears 'k done' 60
	wait_until 60 has_line "$curator" '^c done$'
	equal "$(<number)" 75 sum
}

# ---- read and write

@test "Curator's readers share with dlock's shared holds, its writers do not" {
	peer curator
	hold -s --
	tell take r read "$NODE" 30000
	hears 'r held'
	tell take w write "$NODE" 500
	hears 'w busy'
	release
	tell take w1 write "$NODE" 500
	hears 'w1 busy'
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell give r
	hears 'r free'
	tell take w2 write "$NODE" 30000
	hears 'w2 held'
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell give w2
	hears 'w2 free'
	run -0 "$DLOCK" run -n "$LOCK" -- true
}

# bats test_tags=more
@test "Curator's read and write locks are excluded by an exclusive dlock" {
	peer curator
	hold --
	tell take r read "$NODE" 500
	tell take w write "$NODE" 500
	hears 'r busy'
	hears 'w busy'
	tell take r2 read "$NODE" 20000
	holds_for 300 not heard 'r2 held'
	release
	hears 'r2 held' 5
	tell give r2
	hears 'r2 free'
}

# bats test_tags=more
@test "readers and writers of both get it in the order in which they came" {
	peer curator
	hold -s --
	tell take w write "$NODE" 30000
	wait_until 5 place_count 2
	# This reader came after the writer.
	start "$DLOCK" run -s "$LOCK" -- sh -c 'touch read; while [ ! -e read.end ]; do sleep 0.02; done'
	local reader=$PID
	wait_until 5 place_count 3
	tell take r read "$NODE" 30000
	wait_until 5 place_count 4
	holds_for 300 not heard 'w held'
	[[ ! -e read ]]
	not heard 'r held'
	release
	hears 'w held'
	holds_for 300 test ! -e read
	not heard 'r held'
	tell give w
	hears 'r held'
	wait_until 5 test -e read
	touch read.end
	join "$reader"
	tell give r
	hears 'r free'
	wait_until 5 no_places
}

# bats test_tags=more
@test "kazoo's readers share with dlock's shared holds, its writers do not" {
	peer kazoo
	tell take r read "$NODE" 30000
	hears 'r held'
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell give r
	hears 'r free'
	tell take w write "$NODE" 30000
	hears 'w held'
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	tell give w
	hears 'w free'
	hold -s --
	tell take w2 write "$NODE" 500
	hears 'w2 busy'
	release
	hold --
	tell take r2 read "$NODE" 500
	hears 'r2 busy'
	tell take w3 write "$NODE" 500
	hears 'w3 busy'
	release
	wait_until 5 no_places
}

@test "Curator's mutex waits for dlock's shared holds, and they for it" {
	peer curator
	hold -s --
	tell take m mutex "$NODE" 500
	hears 'm busy'
	# They still share.
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	release
	tell take m2 mutex "$NODE" 30000
	hears 'm2 held'
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
	tell give m2
	hears 'm2 free'
}

# ---- what is seen of them

# bats test_tags=more
@test "status shows Curator's and kazoo's holders and waiters" {
	peer kazoo
	tell take first-worker lock "$NODE" 30000
	hears 'first-worker held'
	wait_in_line 1 -- true
	local waiter=$PID
	tell take second-worker lock "$NODE" 20000
	wait_until 5 waiters 2
	"$DLOCK" status --json "$LOCK" >json || true
	equal "$(jq -c '[.held, (.holders | length), (.waiters | length)]' json)" '[true,1,2]'
	"$DLOCK" status "$LOCK" >table || true
	has_line table 'first-worker'
	has_line table 'waiter 1 .*true'
	has_line table 'waiter 2 .*second-worker'
	tell give first-worker
	join "$waiter"
	hears 'second-worker held'
	tell give second-worker
	hears 'second-worker free'
}

@test "a peer that is killed frees the lock with its session, and dlock goes on" {
	peer curator
	tell take a mutex "$NODE" 30000
	hears 'a held'
	wait_in_line 1 -- true
	local waiter=$PID owner
	owner=$(owner_of "$NODE/$(places | head -n 1)")
	zn expire "$owner"
	join "$waiter" 5
	equal "$status" 0
}

@test "nodes of another kind of lock are named by status, and keep nobody out" {
	hold --
	zn create "$NODE/_c_9a1d4a3e-15e4-4d8e-9f2c-7c3d5b6f8a01-latch-0000000003"
	zn create "$NODE/leases"
	run -1 "$DLOCK" status "$LOCK"
	matches "$output" ' ignored +.*_c_9a1d4a3e-15e4-4d8e-9f2c-7c3d5b6f8a01-latch-0000000003'
	run -1 "$DLOCK" status --json "$LOCK"
	equal "$(jq -c '[(.holders | length), (.waiters | length), (.ignored | sort)]' <<<"$output")" \
		'[1,0,["_c_9a1d4a3e-15e4-4d8e-9f2c-7c3d5b6f8a01-latch-0000000003","leases"]]'
	release
	run -0 "$DLOCK" run -n "$LOCK" -- true
	zn rm "$NODE/_c_9a1d4a3e-15e4-4d8e-9f2c-7c3d5b6f8a01-latch-0000000003"
	zn rm "$NODE/leases"
}
