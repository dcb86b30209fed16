# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redlock on five real servers: what a minority of them can do to it, and what a majority. The names
# of other libraries are those of mistakes that these had.

load ../lib/helpers
load redlock

setup_file() {
	redlock_for_file
}

teardown_file() {
	redlock_file_end
}

prepare() {
	export DLOCK_BACKEND=$REDLOCK
}

# A test that fails may leave nodes stopped.
tidy() {
	local node
	for node in 1 2 3 4 5; do
		kill -CONT "$(<"$NODES/$node/pid")"
	done
}

# own_nodes: the test may kill these five
own_nodes() {
	elder private_redlock 5 --appendonly yes --appendfsync always
	DLOCK_BACKEND=$P_URI
}

pid_of() {
	cat "${P_NODES-$NODES}/$1/pid"
}

freeze() {
	kill -STOP "$(pid_of "$1")"
}

thaw() {
	kill -CONT "$(pid_of "$1")" 2>/dev/null || :
}

# restart NODE [OPTION VALUE]...: kills a node of this test, and starts it again, on its port
restart() {
	local dir=$P_NODES/$1
	server_stop "$dir"
	redis_launch "$dir" "$(<"$dir/port")" "${@:2}" || fail "$(<"$dir/log")"
	SERVICES+=("$(<"$dir/pid")")
}

# through_proxies: sets DLOCK_BACKEND to the five nodes, each behind a proxy
through_proxies() {
	local node hosts=
	for node in 1 2 3 4 5; do
		tool proxy "$(<"$NODES/$node/port")" "$T/ctl.$node"
		hosts+=${hosts:+,}127.0.0.1:$TOOL_PORT
	done
	DLOCK_BACKEND=redlock://$hosts${1-}
}

# tell COMMAND NODE...: to the proxies of these nodes
tell() {
	local node
	for node in "${@:2}"; do
		equal "$(echo "$1" | socat -t5 - "UNIX-CONNECT:$T/ctl.$node")" ok "proxy $node: $1"
	done
}

# lost: the holder ends with 123, and its command is dead
lost() {
	join "$HOLDER" 15
	equal "$status" 123 "status: $(<"$HOLDER_ERR")"
	ended "$COMMAND"
}

# ---- the URI

@test "an even number of nodes, one node and nine are refused with the reason" {
	local hosts
	for hosts in a,b a,b,c,d a,b,c,d,e,f; do
		run --separate-stderr -125 "$DLOCK" run -b "redlock://$hosts" "$LOCK" -- true
		one_line 'name 3, 5 or 7, since an even number survives no more failures'
	done
	for hosts in a a,b,c,d,e,f,g,h,i; do
		run --separate-stderr -125 "$DLOCK" run -b "redlock://$hosts" "$LOCK" -- true
		one_line 'name 3, 5 or 7, (or use redis:|as in redlock:)'
	done
	run --separate-stderr -125 "$DLOCK" run -b "redlock://a,b,c?node-timeout=0" "$LOCK" -- true
	one_line 'node-timeout'
	run --separate-stderr -125 "$DLOCK" run -b "redlock://a,b,c/x" "$LOCK" -- true
	one_line 'number of a database'
}

@test "two addresses of one server, and one that is named twice, are found out, and nothing is held" {
	local first one
	first=$(<"$NODES/1/port")
	for one in "127.0.0.1:$first" "localhost:$first"; do
		one=redlock://$one,127.0.0.1:$first,127.0.0.1:$(<"$NODES/2/port")
		run --separate-stderr -122 "$DLOCK" run -b "$one?node-timeout=1s" "$LOCK" -- true
		one_line 'are the same server'
		nothing_on_nodes
	done
	tool proxy "$(<"$NODES/1/port")" "$T/ctl"
	one=127.0.0.1:$TOOL_PORT,${REDLOCK#redlock://}
	run --separate-stderr -122 "$DLOCK" run -b "redlock://${one%,*,*,*}?node-timeout=1s" "$LOCK" -- true
	one_line 'are the same server'
	nothing_on_nodes
}

@test "--shared and --slots are refused with the backends that have them" {
	run --separate-stderr -125 "$DLOCK" run -s "$LOCK" -- true
	one_line 'no --shared; file:'
	run --separate-stderr -125 "$DLOCK" acquire --slots 2 "$LOCK"
	one_line 'no --slots; file:'
	nothing_on_nodes
}

@test "three nodes live without one, seven without three" {
	local node
	elder private_redlock 7 --appendonly yes --appendfsync always
	for node in 1 4 6; do
		server_stop "$P_NODES/$node"
	done
	run -0 "$DLOCK" run -b "$P_URI" "$LOCK" -- redis-cli -s "$P_NODES/7/sock" exists "$KEY"
	equal "$output" 1
	hosts=${P_URI#redlock://}
	run -0 "$DLOCK" run -b "redlock://${hosts%,*,*,*,*}" "$LOCK" -- redis-cli -s "$P_NODES/3/sock" exists "$KEY"
	equal "$output" 1
	server_stop "$P_NODES/2"
	run --separate-stderr -122 "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	one_line 'no majority: 3 of 7 nodes .* 4 are needed; redis 127.0.0.1:.*cannot connect'
	[[ ! -e ran ]]
	for node in 3 5 7; do
		equal "$(at "$node" exists "$KEY")" 0 "left on node $node"
	done
}

# ---- what is stored, and other programs

# bats test_tags=more
@test "the lock is a string on each node: the token, with the TTL; all else expires, too" {
	local node key
	hold -t 20s --
	wait_until 2 votes "$TOKEN" 5
	for node in 1 2 3 4 5; do
		between "$(at "$node" pttl "$KEY")" 1 20000
		at "$node" --scan | grep -F -- "$LOCK" | while read -r key; do
			between "$(at "$node" pttl "$key")" 1 $((1000 * 86400 * 31)) "TTL of $key"
		done
	done
	release
	nothing_on_nodes
}

@test "a foreign SET NX PX on a majority excludes, on a minority it does not and stays" {
	local node uri="$REDLOCK?prefix="
	for node in 1 3 5; do
		equal "$(at "$node" set "$LOCK" theirs nx px 60000)" OK
	done
	run --separate-stderr -124 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	one_line 'held by another client'
	# what it took on the others is gone
	equal "$(everywhere get "$LOCK" | sort | uniq -c | tr -s ' \n' ' ')" " 2 3 theirs "
	at 5 del "$LOCK"
	run -0 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	equal "$(everywhere get "$LOCK" | grep -c theirs)" 2
	at 1 del "$LOCK"
	at 3 del "$LOCK"
	run -0 "$DLOCK" run -b "$uri" "$LOCK" -- redis-cli -s "$NODES/1/sock" set "$LOCK" theirs nx px 60000
	equal "$output" ""
}

# bats test_tags=more
@test "the release of another program, which wakes nobody, is noticed within half a second" {
	local uri="$REDLOCK?prefix=" start
	everywhere set "$LOCK" theirs nx px 60000
	start "$DLOCK" run -b "$uri" "$LOCK" -- true
	wait_until 5 foreign_waits
	holds_for 600 alive "$PID"
	everywhere del "$LOCK"
	now
	start=$NOW
	join "$PID" 3
	now
	equal "$status" 0
	took $((NOW - start)) 0 1500
}

foreign_waits() {
	[[ $(at 1 zcard "{$LOCK}:queue") == 1 ]]
}

# ---- answers that are lost

@test "a majority carries out the acquisition and its answers are lost: it is found, and held" {
	through_proxies
	"$DLOCK" run "$LOCK" -- true
	tell 'cut-on EVAL' 1 2 3
	run --separate-stderr -0 "$DLOCK" run -n "$LOCK" -- redis-cli -s "$NODES/1/sock" exists "$KEY"
	equal "$output" 1
	equal "$stderr" ""
	wait_until 2 nothing_on_nodes
}

# bats test_tags=more
@test "a majority carries it out and does not answer: 122, and what it has carried out is removed" {
	through_proxies '?timeout=1s'
	"$DLOCK" run "$LOCK" -- true
	tell 'drop-on EVAL' 1 2 3
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line 'no majority: 2 of 5 nodes' 'no answer'
	[[ ! -e ran ]]
	wait_until 2 nothing_on_nodes
}

@test "a renewal whose answers are lost is repeated, and a release, too" {
	through_proxies
	hold -t 6s --
	tell 'cut-on EVAL' 1 2 3 4
	holds_for 5000 alive "$COMMAND"
	tell 'cut-on EVAL' 1 2 3 4
	release
	equal "$(<"$HOLDER_ERR")" ""
	wait_until 2 nothing_on_nodes
}

@test "a release that one node reports, and two others carry out before they are asked again, is done" {
	through_proxies
	hold -t 6s --
	tell 'cut-on EVAL' 1 2
	tell 'drop-on EVAL' 4 5
	release
	equal "$(<"$HOLDER_ERR")" ""
	wait_until 2 nothing_on_nodes
}

# ---- a minority

@test "two nodes killed, before and while it is held: it is held, excludes, and is released" {
	own_nodes
	server_stop "$P_NODES/2"
	hold -t 6s --
	server_stop "$P_NODES/4"
	holds_for 5000 alive "$COMMAND"
	is_held
	votes "$TOKEN" 3
	run -1 "$DLOCK" status "$LOCK"
	"$DLOCK" verify "$LOCK" "$TOKEN"
	release
	is_free
	local node
	for node in 1 3 5; do
		equal "$(at "$node" --scan | grep -v '}:fence$')" "" "left on node $node"
	done
}

# [22]
# bats test_tags=more
@test "redsync's extension waits for a node without limit: two frozen nodes cost node-timeout" {
	freeze 1
	freeze 5
	timed "$DLOCK" run -n "$LOCK" -- true
	equal "$status" 0 "status: $stderr"
	took "$MS" 0 900
	hold -t 4s --
	holds_for 3500 alive "$COMMAND"
	is_held
	release
	thaw 1
	thaw 5
	wait_until 3 nothing_on_nodes
}

# hostile TEXT MORE: a node of three says this, and MORE for ever; each command goes on with the others
hostile() {
	local token
	tool listener "$1" "$2" 0
	export DLOCK_BACKEND=redlock://127.0.0.1:$TOOL_PORT,$HOSTS
	timed "$DLOCK" run -n -t 6s "$LOCK" -- true
	equal "$status" 0 "status: $stderr"
	took "$MS" 0 1500
	hold -t 4s --
	holds_for 2500 alive "$COMMAND"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	start "$DLOCK" run -w 10s "$LOCK" -- true
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	release
	join "$PID" 5
	equal "$status" 0
	token=$("$DLOCK" acquire -t 10s "$LOCK")
	"$DLOCK" renew "$LOCK" "$token"
	run --separate-stderr -0 "$DLOCK" status --names
	equal "$output" "$LOCK"
	"$DLOCK" release "$LOCK" "$token"
}

# bats test_tags=more
@test "a node whose replies never end is passed over, and two of three are a majority" {
	elder private_redlock 2 --appendonly yes --appendfsync always
	hostile '+' "$(head -c 1000 /dev/zero | tr '\0' A)"
	hostile $'*100000000\r\n' $':1\r\n'
	hostile $'$16000000\r\n' "$(head -c 1000 /dev/zero | tr '\0' A)"
	hostile '' $'-NOSCRIPT\r\n'
}

# [21]
@test "an acquisition that a frozen node carries out late is removed behind it" {
	local fence
	# A node that does not know the script would only say so.
	"$DLOCK" run "$LOCK-first" -- true
	freeze 5
	hold --
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$(at 1 exists "$KEY")" 0
	thaw 5
	wait_until 3 nothing_on_nodes
	# it was carried out: the fence is there
	fence=$(at 5 get "{$KEY}:fence")
	equal "$fence" "$FENCE" "fence on the late node"
}

# [21]
# bats test_tags=more
@test "an attempt that failed is removed from a frozen node, too" {
	local node
	# A node that does not know the script would only say so.
	"$DLOCK" run "$LOCK-first" -- true
	for node in 1 2 3; do
		at "$node" set "$KEY" theirs px 60000
	done
	freeze 5
	run -124 "$DLOCK" run -n "$LOCK" -- true
	equal "$(at 4 exists "$KEY")" 0
	thaw 5
	wait_until 3 node_has_fence 5
	equal "$(at 5 exists "$KEY")" 0
	for node in 1 2 3; do
		at "$node" del "$KEY"
	done
}

node_has_fence() {
	[[ $(at "$1" exists "{$KEY}:fence") == 1 ]]
}

# [20]
# bats test_tags=more
@test "a frozen node votes when it answers again, also if a failed attempt was removed from it" {
	private_redlock 3 --save ''
	DLOCK_BACKEND=$P_URI
	# Until all of them have been up for longer than the TTL.
	run -0 "$DLOCK" run -w 20s -t 2s "$LOCK" -- true
	hold -t 2s --
	freeze 3
	start "$DLOCK" run -v -t 2s -w 20s "$LOCK" -- true
	wait_until 5 has_line "$ERR" ': waiting, next in line, held by '
	thaw 3
	equal "$(at 3 ping)" PONG
	freeze 1
	release
	join "$PID" 5
	thaw 1
	equal "$status" 0
}

@test "two nodes wiped under a running command: it excludes, and a renewal sets the lock again" {
	hold -t 6s --
	wait_until 2 votes "$TOKEN" 5
	at 2 flushall
	at 3 flushall
	is_held
	wait_until 8 votes "$TOKEN" 5
	(($(at 2 get "{$KEY}:fence") >= FENCE))
	at 4 flushall
	at 5 flushall
	is_held
	wait_until 8 votes "$TOKEN" 5
	alive "$COMMAND"
	release
	wait_until 2 nothing_on_nodes
}

# bats test_tags=more
@test "two nodes restarted without their data: it excludes, and the lock is set again" {
	own_nodes
	hold -t 6s --
	wait_until 2 votes "$TOKEN" 5
	rm -r "$P_NODES/1/appendonlydir" "$P_NODES/4/appendonlydir"
	restart 1 --save ''
	restart 4 --save ''
	is_held
	wait_until 8 votes "$TOKEN" 5
	release
	wait_until 2 nothing_on_nodes
}

# [26]
@test "a renewal never takes a node where somebody else has the lock" {
	hold -t 4s --
	wait_until 2 votes "$TOKEN" 5
	at 2 set "$KEY" theirs px 60000
	at 3 set "$KEY" theirs px 60000
	holds_for 3500 votes "$TOKEN" 3
	votes theirs 2
	release
	votes theirs 2
	at 2 del "$KEY"
	at 3 del "$KEY"
	wait_until 2 nothing_on_nodes
}

# bats test_tags=more
@test "the clocks of two nodes jump by a day, forward or back, under a command and a waiter" {
	local node jump
	P_NODES=$T/faked
	HOSTS=
	for node in 1 2 3; do
		printf '#!/bin/sh\nexport TORTURE_CLOCK=%s LD_PRELOAD=%s\nexec redis-server "$@"\n' \
			"$T/clock.$node" "$BUILD/tests/preload/elder.so:$BUILD/tests/preload/wallclock.so" >server
		chmod +x server
		clock +0 "clock.$node"
		REDIS_SERVER=$T/server redis_start "$P_NODES/$node" --appendonly yes --appendfsync always
		SERVICES+=("$(<"$P_NODES/$node/pid")")
		HOSTS+=${HOSTS:+,}127.0.0.1:$(<"$P_NODES/$node/port")
	done
	DLOCK_BACKEND=redlock://$HOSTS
	for jump in +86400 -86400; do
		hold -t 6s --
		wait_until 2 votes "$TOKEN" 3
		clock "$jump" clock.2
		is_held
		holds_for 1000 alive "$COMMAND"
		is_held
		last=$FENCE
		release
		clock +0 clock.2
		hold -n -t 6s --
		((FENCE > last)) || fail "fence $FENCE after $last"
		release
	done
}

# ---- a majority

# bats test_tags=more
@test "Redisson ignores the result of its extension: a majority wiped ends the command, and is not set again" {
	local node
	hold -t 6s --
	wait_until 2 votes "$TOKEN" 5
	# A renewal between two nodes would set the lock again on the first one.
	keeper_of "$HOLDER"
	kill -STOP "$KEEPER"
	for node in 1 2 3; do
		at "$node" flushall
	done
	kill -CONT "$KEEPER"
	lost
	has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	has_line "$HOLDER_ERR" '3 of 5 nodes no longer have the lock'
	wait_until 2 nothing_on_nodes
}

@test "pottery's extension ignores the time it took: one that comes too late extends nothing" {
	through_proxies
	hold -t 4s -- "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	now
	local start=$NOW
	tell 'hold 3800' 1 2 3
	lost
	took $((NOW - start)) 0 4000
	now
	took $((NOW - start)) 0 5500 "ms until it was dead"
	tell pass 1 2 3
	wait_until 4 nothing_on_nodes
}

# [26]
# bats test_tags=more
@test "node redlock never checks that validity is left: an acquisition longer than its TTL is none" {
	through_proxies '?timeout=5s&node-timeout=3s'
	tell 'hold 1100' 1 2 3 4 5
	run --separate-stderr -122 "$DLOCK" run -n -t 1s "$LOCK" -- touch ran
	one_line 'nothing of the TTL was left'
	[[ ! -e ran ]]
	tell pass 1 2 3 4 5
	wait_until 3 nothing_on_nodes
}

# bats test_tags=more
@test "node redlock measures by the wall clock: one that jumps changes nothing" {
	local jump
	export TORTURE_CLOCK=$T/clock
	for jump in +100000 -100000; do
		clock +0
		LD_PRELOAD=$BUILD/tests/preload/wallclock.so hold -t 4s -- env -u LD_PRELOAD sleep 300
		clock "$jump"
		holds_for 3500 alive "$COMMAND"
		is_held
		release
	done
}

@test "a majority frozen: the command is dead before its lease ends, and the waiter only waits longer" {
	local node
	hold -t 4s -- "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	contend "$COMMAND"
	wait_until 5 one_waits
	for node in 1 2 3; do
		freeze "$node"
	done
	lost
	for node in 1 2 3; do
		thaw "$node"
	done
	met_nobody 20
	wait_until 3 nothing_on_nodes
}

# [20]
# bats test_tags=more
@test "a node that did not answer more renewals than are sent to it is asked again when it answers" {
	elder private_redlock 3 --appendonly yes --appendfsync always
	DLOCK_BACKEND=$P_URI
	hold -t 4s --
	freeze 1
	holds_for 14500 alive "$COMMAND"
	thaw 1
	wait_until 5 votes "$TOKEN" 3
	freeze 2
	holds_for 8000 alive "$COMMAND"
	thaw 2
	release
	wait_until 3 nothing_on_nodes
}

# bats test_tags=more
@test "a majority frozen for a while: renewals and tries reach it again when it answers again" {
	local waiter start
	elder private_redlock 3 --appendonly yes --appendfsync always
	DLOCK_BACKEND=$P_URI
	hold -t 20s -k 100ms --
	now
	start=$NOW
	freeze 1
	freeze 2
	holds_for 15200 alive "$COMMAND"
	thaw 1
	thaw 2
	holds_for 6000 alive "$COMMAND"
	now
	between $((NOW - start)) 20000 120000 "ms, longer than the first lease"
	release
	hold -t 100s --
	start "$DLOCK" run -v "$LOCK" -- true
	waiter=$PID
	wait_until 5 one_waits
	freeze 1
	freeze 2
	wait_until 12 has_line "$ERR" 'trying again'
	holds_for 6000 alive "$waiter"
	thaw 1
	thaw 2
	release
	join "$waiter" 10
	equal "$status" 0
	wait_until 3 nothing_on_nodes
}

# names_lead_to ADDRESS...: node1.test leads to the first of these addresses, and so on
names_lead_to() {
	local node=0 address
	for address; do
		echo "$address node$((++node)).test"
	done >hosts
}

# with_names: three nodes of this test at 127.0.0.1 to 127.0.0.3, all at one port, whose names
# DLOCK_BACKEND has, and DLOCK knows
with_names() {
	local node port
	own_names
	elder private_redlock 1 --appendonly yes --appendfsync always
	port=$(<"$P_NODES/1/port")
	for node in 2 3; do
		mkdir "$P_NODES/$node"
		echo "$port" >"$P_NODES/$node/port"
		: >"$P_NODES/$node/pid"
		launch_at "127.0.0.$node" "$node"
	done
	names_lead_to 127.0.0.{1,2,3}
	DLOCK_BACKEND=redlock://node1.test:$port,node2.test:$port,node3.test:$port
}

# launch_at ADDRESS NODE: starts a node of with_names there
launch_at() {
	local dir=$P_NODES/$2
	elder redis_launch "$dir" "$(<"$dir/port")" --bind "$1" --appendonly yes --appendfsync always ||
		fail "$(<"$dir/log")"
	SERVICES+=("$(<"$dir/pid")")
}

# [26]
# bats test_tags=more
@test "two of three names lead to other addresses: the run finds the nodes, and keeps its lock" {
	with_names
	hold -t 60s --
	server_stop "$P_NODES/1"
	server_stop "$P_NODES/2"
	launch_at 127.0.0.4 1
	launch_at 127.0.0.5 2
	names_lead_to 127.0.0.{4,5,3}
	wait_until 20 has_line "$HOLDER_ERR" 'no majority: 1 of 3 nodes'
	wait_until 40 has_line "$HOLDER_ERR" 'renewed again'
	votes "$TOKEN" 3
	alive "$COMMAND"
	release
	nothing_on_nodes
}

# [23]
# bats test_tags=more
@test "three names that have come to lead to one server are one vote" {
	with_names
	TOKEN=$("$DLOCK" acquire -t 60s "$LOCK")
	"$DLOCK" verify "$LOCK" "$TOKEN"
	names_lead_to 127.0.0.{3,3,3}
	run --separate-stderr -122 "$DLOCK" verify "$LOCK" "$TOKEN"
	one_line 'no majority: 1 of 3 nodes' 'are the same server'
	run --separate-stderr -122 "$DLOCK" renew "$LOCK" "$TOKEN"
	one_line 'no majority: 1 of 3 nodes'
	names_lead_to 127.0.0.{1,2,3}
	"$DLOCK" release "$LOCK" "$TOKEN"
	nothing_on_nodes
}

@test "a majority dead: 122 at once with the reason; a waiter goes on when it is back" {
	local node
	own_nodes
	hold --
	start "$DLOCK" run "$LOCK" -- echo mine
	local waiter=$PID out=$OUT
	wait_until 5 one_waits
	for node in 2 3 4; do
		server_stop "$P_NODES/$node"
	done
	timed "$DLOCK" run -n "$LOCK" -- true
	equal "$status" 122
	took "$MS" 0 1500
	one_line 'no majority: 2 of 5 nodes'
	for node in 2 3 4; do
		elder restart "$node" --appendonly yes --appendfsync always
	done
	alive "$waiter" "$COMMAND"
	release
	join "$waiter" 10
	equal "$status $(<"$out")" "0 mine"
	wait_until 2 nothing_on_nodes
}

one_waits() {
	[[ $(redlock_waiters) == 1 ]]
}

# ---- restarts

# [23]
# bats test_tags=more
@test "a node that reports a lease of a year keeps nobody from the majority of old nodes" {
	local node
	P_NODES=$T/faked
	HOSTS=
	clocked redis-server
	for node in 1 2 3; do
		REDIS_SERVER=$T/clocked redis_start "$P_NODES/$node"
		SERVICES+=("$(<"$P_NODES/$node/pid")")
		HOSTS+=${HOSTS:+,}127.0.0.1:$(<"$P_NODES/$node/port")
	done
	# Both good nodes are needed, however busy the machine is.
	DLOCK_BACKEND="redlock://$HOSTS?node-timeout=2s"
	clock +172800
	at 2 set "$KEY" foreign px 31536000000
	hold -n -t 3s --
	release
	at 2 set "$KEY" forger
	at 2 hset "{$KEY}:holders" forger "7 7 ttl=9000000000000000"
	hold -n -t 3s --
	release
	equal "$(at 2 get "$KEY")" forger
}

@test "nodes that were restarted within the TTL do not vote" {
	private_redlock 3 --save ''
	# A node has that long to answer before the two others decide without it.
	DLOCK_BACKEND="$P_URI?node-timeout=2s"
	# as after the start of all: nobody can know what they have forgotten
	run --separate-stderr -122 "$DLOCK" run -n -t 30s "$LOCK" -- touch ran
	one_line '3 of 3 nodes were started less than a TTL ago' 'vote in [0-9]+ s'
	[[ ! -e ran ]]
	# who waits is told, too
	run --separate-stderr -124 "$DLOCK" run -w 2s -t 30s "$LOCK" -- touch ran
	one_line 'held by nobody known: 3 of 3 nodes were started less than a TTL ago'
	# and gets it once they are old enough
	timed "$DLOCK" run -w 20s -t 2s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 5500
	elder private_redlock 3 --save ''
	DLOCK_BACKEND="$P_URI?node-timeout=2s"
	TOKEN=$("$DLOCK" acquire -t 12s "$LOCK")
	restart 1 --save ''
	restart 2 --save ''
	# A majority has forgotten the lock, and yet it is not given to somebody else.
	run --separate-stderr -122 "$DLOCK" run -n -t 12s "$LOCK" -- touch ran
	one_line 'started less than a TTL ago'
	# not even for a shorter TTL than that of the lock, which the third node tells
	run --separate-stderr -122 "$DLOCK" run -n -t 1s "$LOCK" -- touch ran
	[[ ! -e ran ]]
	run -0 "$DLOCK" run -w 30s -t 3s "$LOCK" -- true
}

# bats test_tags=more
@test "nodes that were restarted with their data on disk do not vote either, but hold what they held" {
	private_redlock 3 --appendonly yes --appendfsync always
	DLOCK_BACKEND=$P_URI
	hold -w 30s -t 6s --
	restart 1 --appendonly yes --appendfsync always
	restart 2 --appendonly yes --appendfsync always
	holds_for 7000 is_held
	release
	run -0 "$DLOCK" run -w 20s -t 3s "$LOCK" -- true
}

# ---- fences

# bats test_tags=more
@test "fences grow when any two nodes are wiped in between, whatever the clocks say" {
	local pair last=0 fence
	# far beyond every clock
	everywhere set "{$KEY}:fence" 9000000000000000
	for pair in 12 13 14 15 23 24 25 34 35 45; do
		fence=$("$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
		((fence > last && fence > 9000000000000000)) || fail "$fence after $last, before $pair"
		last=$fence
		at "${pair:0:1}" flushall
		at "${pair:1}" flushall
	done
}

# bats test_tags=more
@test "a forged fence of one node in three is passed over, and one of two is refused by name" {
	elder private_redlock 3 --appendonly yes --appendfsync always
	# With a forged fence, the answers of both others are needed, which may be late.
	export DLOCK_BACKEND="$P_URI?node-timeout=2s"
	at 2 set "{$KEY}:fence" 9007199254740992
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE
	between "$output" $((${EPOCHREALTIME/./} - 60000000)) "${EPOCHREALTIME/./}" fence
	wait_until 2 nothing_on_nodes
	at 3 set "{$KEY}:fence" 99999999999999999
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line 'no majority'
	[[ ! -e ran ]]
	wait_until 2 nothing_on_nodes
}

# [25]
@test "a majority has the fence before the command starts, also when the nodes disagree" {
	DLOCK_BACKEND="$DLOCK_BACKEND?node-timeout=2s"
	at 3 set "{$KEY}:fence" 9000000000000000
	run -0 "$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"; for node in 1 2 3 4 5; do
		redis-cli -s "$0/$node/sock" get "{dlock:$DLOCK_NAME}:fence"; done' "$NODES"
	equal "${lines[0]}" 9000000000000001
	between "$(printf '%s\n' "${lines[@]:1}" | grep -cx 9000000000000001)" 3 5 "nodes with the fence"
}

# [25]
# bats test_tags=more
@test "nodes that have lost the fence learn it from a run, so that two others may lose it, and one be late" {
	local last
	everywhere set "{$KEY}:fence" 9000000000000000
	at 2 flushall
	at 5 flushall
	last=$("$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE)
	equal "$last" 9000000000000001
	at 3 flushall
	at 4 flushall
	# the last of the three that remembered it
	freeze 1
	run -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE
	thaw 1
	equal "$output" $((last + 1))
}

# [25]
# bats test_tags=more
@test "a failed attempt writes the greatest fence to the nodes that have lost it" {
	local node
	# They do not vote, for they were just started.
	private_redlock 5
	DLOCK_BACKEND="$P_URI?node-timeout=2s"
	everywhere set "{$KEY}:fence" 9000000000000000
	at 1 flushall
	at 2 flushall
	run -122 "$DLOCK" run -n -t 1h "$LOCK" -- true
	for node in 1 2; do
		wait_until 3 at_least "$node" 9000000000000000
	done
}

# at_least NODE FENCE
at_least() {
	(($(at "$1" get "{$KEY}:fence") >= $2))
}

# ---- many at once

# [24]
# bats test_tags=more
@test "of twelve that do not wait one runs, and the others report who holds the lock" {
	local n all=() codes=
	for n in {1..12}; do
		start "$DLOCK" run -n -q "$LOCK" -- sleep 2
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 20
		codes+="$status "
	done
	equal "$(tr ' ' '\n' <<<"$codes" | sort -n | uniq -c | tr -s ' \n' ' ' | sed 's/ 2 $//')" " 1 1 0 11 124 " ||
		matches " $codes" ' 0 '
	nothing_on_nodes
}

# ---- operators

@test "check reports each node, warns of a dead one, and exits with 122 without a majority" {
	local node
	own_nodes
	run --separate-stderr "$DLOCK" check
	between "$status" 0 1
	for node in 1 2 3 4 5; do
		matches "$output" "version +127.0.0.1:$(<"$P_NODES/$node/port"): (Redis|Valkey) "
	done
	server_stop "$P_NODES/2"
	run --separate-stderr -1 "$DLOCK" check
	matches "$output" "warning +node +redis 127.0.0.1:$(<"$P_NODES/2/port"): cannot connect"
	matches "$output" 'warning +majority +4 of 5 nodes answer'
	server_stop "$P_NODES/3"
	server_stop "$P_NODES/4"
	run --separate-stderr -122 "$DLOCK" check
	matches "$output" 'error +unusable +no majority: 2 of 5'
	run --separate-stderr -122 "$DLOCK" status
	run --separate-stderr -122 "$DLOCK" status "$LOCK"
}

# bats test_tags=more
@test "status lists the locks of nodes that answer more slowly than node-timeout" {
	hold --
	through_proxies
	tell 'hold 120' 1 2 3 4 5
	run --separate-stderr -0 "$DLOCK" status --names
	has_line <(printf '%s\n' "${lines[@]}") "^$LOCK\$" || fail "not listed"
	# of which a minority may be silent
	tell drop 2 4
	run --separate-stderr -0 "$DLOCK" status --names
	has_line <(printf '%s\n' "${lines[@]}") "^$LOCK\$" || fail "not listed"
	tell drop 5
	run --separate-stderr -122 "$DLOCK" status --names
	one_line 'no majority: 2 of 5 nodes can be used' 'no answer'
	release
}

# bats test_tags=more
@test "status lists the locks of nodes that have many, a page after the other" {
	private_redlock 3
	everywhere eval 'for i = 1, 2500 do redis.call("SET", "dlock:" .. i, "x") end' 0
	at 2 set dlock:last x
	run -0 "$DLOCK" status --names -b "$P_URI"
	equal "${#lines[@]}" 2501 names
}

# bats test_tags=more
@test "--min-hold: a waiter reports at once until when the lock is kept" {
	kept_while_waiting
}

waiters() {
	[[ $(redlock_waiters) == "$1" ]]
}

# bats test_tags=more
@test "a hung waiter delays the next by 3 s, also when a minimum hold ends" {
	lapses_past_hung
}

@test "break takes the lock from all nodes and wakes a waiter" {
	TOKEN=$("$DLOCK" acquire -t 60s "$LOCK")
	start "$DLOCK" run "$LOCK" -- echo mine
	local waiter=$PID out=$OUT
	wait_until 5 one_waits
	run -0 "$DLOCK" break --yes "$LOCK"
	join "$waiter" 3
	equal "$status $(<"$out")" "0 mine"
	run -123 "$DLOCK" verify "$LOCK" "$TOKEN"
	nothing_on_nodes
}

# bats test_tags=more
@test "the password changes on all servers, and in its file: holder and waiter log in with the new one" {
	on_all() {
		local node
		for node in 1 2 3 4 5; do
			redis_at "$NODES/$node" "$@"
		done
	}
	outlives_password "redlock://jobs@${REDLOCK#*//}"
}
