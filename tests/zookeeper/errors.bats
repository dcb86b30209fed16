# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: every bad day gets its status, one line that names the thing, and no lock.

load ../lib/helpers
load zookeeper

@test "error: nobody listens" {
	refused '127\.0\.0\.1:1[^0-9].*(refused|Refused)' zk://127.0.0.1:1
	took "$MS" 0 6000
	# Nobody listens at any of the hosts. The library is between two of them at some moments only.
	for _ in {1..8}; do
		refused '127\.0\.0\.1:[12][^0-9].*(refused|Refused)' zk://127.0.0.1:1,127.0.0.1:2
		took "$MS" 0 2500
	done
}

# bats test_tags=more
@test "the default port is 2181" {
	# This is a network of its own, where nobody listens.
	need_root
	need unshare
	run --separate-stderr -122 unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
		timeout 30 "$DLOCK" run -b zookeeper://127.0.0.1 "$LOCK" -- touch ran
	one_line '127\.0\.0\.1:2181'
	[[ ! -e ran ]]
}

@test "error: a host that does not resolve, and one of two that does" {
	refused 'no-such-host\.invalid' zk://no-such-host.invalid
	run --separate-stderr -0 timeout 30 "$DLOCK" run -b "zk://no-such-host.invalid,127.0.0.1:$ZK_PORT" "$LOCK" -- true
}

# bats test_tags=more
@test "error: a host that swallows everything, within connect-timeout" {
	tool listener
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "zk://127.0.0.1:$TOOL_PORT?connect-timeout=1s"
	# The last part of that time is for finding out what is wrong with each server.
	took "$MS" 400 4000
}

@test "error: a server that accepts and never answers, within its bounds" {
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "zk://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
	took "$MS" 390 4500
}

@test "error: a server that speaks another protocol" {
	local answer
	for answer in $'HTTP/1.1 400 Bad Request\r\n\r\n' $'SSH-2.0-OpenSSH_9.2\r\n' '-ERR unknown command' \
		$'\x7f\xff\xff\xff\x01\x02\x03' $'\x01\x01\x01\x01'; do
		tool listener "$answer"
		refused "127\\.0\\.0\\.1:$TOOL_PORT" "zk://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
		took "$MS" 0 5000
	done
	# This is a server of another kind.
	private_redis
	refused "127\\.0\\.0\\.1:$P_PORT" "zk://127.0.0.1:$P_PORT?timeout=1s&connect-timeout=1s"
}

# bats test_tags=more
@test "error: a server whose answer never ends: every command ends in time, and takes little memory" {
	local how uri
	for how in null drip giant $(floods events pings); do
		tool hostile_zookeeper.py "$how"
		uri="zk://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
		hostile run -b "$uri" -n "$LOCK" -- touch ran
		one_line "127\\.0\\.0\\.1:$TOOL_PORT"
		hostile status -b "$uri" "$LOCK"
		one_line "127\\.0\\.0\\.1:$TOOL_PORT"
		[[ ! -e ran ]]
	done
	# acquire uses the connection as run does, and check as status does.
	hostile acquire -b "$uri" -n "$LOCK"
	hostile check -b "$uri"
}

# bats test_tags=more
@test "error: a list that does not fit into the memory: every command reports it" {
	local command uri
	tool hostile_zookeeper.py vast
	uri="zk://127.0.0.1:$TOOL_PORT?timeout=2s&connect-timeout=3s"
	for command in "status $LOCK" "wait $LOCK" "break --yes $LOCK" check; do
		# shellcheck disable=SC2086 # words
		hostile $command -b "$uri"
		# check reports what it finds on standard output
		matches "$stderr$output" "127\\.0\\.0\\.1:$TOOL_PORT: cannot .*: marshalling error"
	done
	# Commands that read no list may not notice.
	for command in verify release renew; do
		hostile "$command" -b "$uri" "$LOCK" 0123456789abcdef0123456789abcdef
		one_line "127\\.0\\.0\\.1:$TOOL_PORT"
	done
}

@test "error: a code that ZooKeeper does not have: every command names the server, with 122" {
	local command
	tool hostile_zookeeper.py code
	for command in "run -n $LOCK -- touch ran" "acquire -n $LOCK" "status $LOCK" status "wait $LOCK" \
		"break --yes $LOCK" {verify,renew,release}" $LOCK 0123456789abcdef0123456789abcdef" setup; do
		# shellcheck disable=SC2086 # words
		DLOCK_BACKEND="zk://127.0.0.1:$TOOL_PORT?timeout=1s" hostile $command
		one_line "127\\.0\\.0\\.1:$TOOL_PORT: cannot .*: unknown error \\(1\\)"
	done
	[[ ! -e ran ]]
}

@test "a reader of the output that has gone ends dlock by SIGPIPE, without a message" {
	mkfifo pipe
	run --separate-stderr -141 env --default-signal=PIPE \
		sh -c 'exec 7<>pipe >pipe 7>&- && exec "$DLOCK" status "$LOCK"'
	equal "$stderr" ""
}

@test "error: the server takes no more connections" {
	private_zookeeper maxClientCnxns=1
	local address=127.0.0.1:$P_PORT
	exec {taken}<>"/dev/tcp/127.0.0.1/$P_PORT"
	refused "127\\.0\\.0\\.1:$P_PORT" "zk://$address?connect-timeout=1s"
	exec {taken}>&-
	wait_until 5 "$DLOCK" run -b "zk://$address" "$LOCK" -- true
}

# bats test_tags=more
@test "error: no right to make the root, or to make a lock in it" {
	zn_as joe:Sesame8 create "/joes-$LOCK"
	"$DLOCK" setup -b "zk://joe:Sesame8@127.0.0.1:$ZK_PORT/mine-$LOCK"
	refused 'NoAuth' "$ZK/mine-$LOCK"
	refused 'NoAuth' "$ZK/mine-$LOCK/deeper"
	refused 'NoAuth' "zk://joe:other@127.0.0.1:$ZK_PORT/mine-$LOCK"
	# With the right password the lock can be taken.
	run -0 "$DLOCK" run -b "zk://joe:Sesame8@127.0.0.1:$ZK_PORT/mine-$LOCK" "$LOCK" -- true
}

@test "error: the node that is there is no directory of locks" {
	# An ephemeral node can have no nodes below it.
	start "$TOOLS/znode" "$PORTS" hold "/node-$LOCK"
	line "$OUT" 5
	refused "/node-$LOCK" "$ZK/node-$LOCK"
	refused "/node-$LOCK" "$ZK/node-$LOCK/deeper"
}

# bats test_tags=more
@test "error: one strategy finds the other in use" {
	hold --
	refused "$LOCK.*strategy=node" "$ZK?strategy=node"
	release
	hold -b "$ZK?strategy=node" --
	refused "$LOCK.*strategy=node" "$ZK"
	refused "$LOCK.*strategy=node" "$ZK" -w 5s
	release
}

# bats test_tags=more
@test "error: usage" {
	local uri
	for uri in zk:// zk:///root zk://host:0 zk://host:65536 zk://host:x zk://h1,,h2 "zk://127.0.0.1:1?strategy=herd" \
		"zk://127.0.0.1:1?stratgy=node" "zk://127.0.0.1:1/a//b" "zk://127.0.0.1:1/a/../b" \
		"zk://127.0.0.1:1/zookeeper" "zk://127.0.0.1:1?timeout=0" "zk://[::1:1" "zk://127.0.0.1:1/%zz" \
		"zk://127.0.0.1:1?ssl-ca=/no/such&tls=1"; do
		run --separate-stderr -125 "$DLOCK" run -n -b "$uri" "$LOCK" -- touch ran
		one_line
	done
	[[ ! -e ran ]]
	# Only the strategy queue can do this.
	for option in -s --slots=2; do
		run --separate-stderr -125 "$DLOCK" run -n "$option" -b "$ZK?strategy=node" "$LOCK" -- touch ran
		one_line 'strategy|node'
	done
}

@test "error: TLS, where the library has none" {
	run --separate-stderr "$DLOCK" run -n -b "$ZK?ssl-ca=/no/such" "$LOCK" -- touch ran
	matches "$status" '^12[25]$'
	one_line 'TLS|ssl-ca'
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "error: the server begins to refuse while dlock waits" {
	hold --
	start "$DLOCK" run -w 30s "$LOCK" -- touch ran
	local waiter=$PID err=$ERR session
	wait_until 5 waiters 1
	# ZooKeeper 3.9 tells the owner of a node to nobody who may not read it.
	session=$(owner_of "$NODE/$(places | tail -n 1)")
	# No client in this test is the user eve.
	for node in $(zn ls "$NODE"); do
		zn protect "$NODE/$node" rwcda digest:eve:0123456789abcdefghijklmnopq=
	done
	# The check that is due each 5 s may have ended it.
	zn expire "$session" || wait_until 5 ended "$waiter"
	zn protect "$NODE" rwcda digest:eve:0123456789abcdefghijklmnopq=
	kill -TERM "$COMMAND"
	# It had an answer before, and waits for another one.
	wait_until 15 has_line "$err" 'NoAuth.*; trying again$'
	kill -TERM "$waiter"
	join "$waiter" 15
	equal "$status" 143 "status of the waiter ($(<"$err"))"
	[[ ! -e ran ]]
	join "$HOLDER"
}

# bats test_tags=more
@test "a directory without the right to delete: a waiter behind a dead one sleeps until that one's session ends" {
	hold --
	local dead=() waiter
	wait_in_line 1 -t 16s -- touch dead
	# shellcheck disable=SC2207 # words
	dead=("$PID" $(tree "$PID"))
	wait_in_line 2 -t 4s -- touch ran
	waiter=$PID
	zn protect "$NODE" rwca world:anyone
	# One after the other, the keeper could learn of the others' end, and leave the queue.
	kill -STOP "${dead[@]}"
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	expire_owner "$NODE/$(places | head -n 1)"
	join "$HOLDER"
	# The waiter looks every second, and tries to remove the dead one's place 0.9 s after that.
	pause 3
	keeper_of "$waiter"
	idles "$KEEPER"
	join "$waiter" 20
	equal "$status" 0
	[[ -e ran && ! -e dead ]]
}

# bats test_tags=more
@test "strategy node: a node that dlock may not read is an error at once" {
	directory
	start "$TOOLS/znode" "$PORTS" hold "/dlock/closed-$LOCK"
	line "$OUT" 5
	# No client in this test is the user eve.
	zn protect "/dlock/closed-$LOCK" rwcda digest:eve:0123456789abcdefghijklmnopq=
	LOCK=closed-$LOCK
	refused "read /dlock/$LOCK \\(NoAuth" "$ZK?strategy=node"
	took "$MS" 0 2000
}

@test "every command reports in one line that no server can be reached, with 122" {
	local args
	for args in "acquire $LOCK" "acquire --pid $$ $LOCK" "acquire -n $LOCK" \
		"renew $LOCK 0123456789abcdef0123456789abcdef" \
		"verify $LOCK 0123456789abcdef0123456789abcdef" \
		"release $LOCK 0123456789abcdef0123456789abcdef" \
		"status $LOCK" status "wait $LOCK" "break --yes $LOCK" setup; do
		# Nobody listens there.
		# shellcheck disable=SC2086 # words
		run --separate-stderr -122 env DLOCK_BACKEND=zk://127.0.0.1:1 timeout 20 "$DLOCK" $args
		one_line '127\.0\.0\.1:1'
		equal "$output" "" "stdout of $args"
	done
}

# bats test_tags=more
@test "--if-down run runs the command without a server, and warns" {
	run --separate-stderr -0 timeout 20 "$DLOCK" run --if-down run -b "zk://127.0.0.1:1" "$LOCK" -- echo ran
	equal "$output" ran
	matches "$stderr" 127.0.0.1:1
}
