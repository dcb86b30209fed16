# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's strategies on a Galera cluster of three nodes, which accept writes all at once,
# and find out only at the commit when two of them contradict each other. The lease has a
# suite of its own, too: mysql-galera.bats.

load ../lib/helpers
load mysql

setup_file() {
	local node
	export GALERA_DIR=$BATS_FILE_TMPDIR/galera
	galera_start "$GALERA_DIR"
	for node in 1 2 3; do
		export "NODE_$node=$(mysql_uri "$GALERA_DIR/$node")"
	done
}

teardown_file() {
	mysql_stop_three "$GALERA_DIR"
}

prepare() {
	export DLOCK_BACKEND=$NODE_1
}

# A node that a test has frozen takes part in the next one.
tidy() {
	kill -CONT "$(<"$GALERA_DIR/1/pid")" "$(<"$GALERA_DIR/2/pid")" "$(<"$GALERA_DIR/3/pid")"
}

# node N SQL: runs SQL on node N
node() {
	mysql_at "$GALERA_DIR/$1" "$2"
}

runs_on() {
	"$DLOCK" run -q -w 5s -b "$1" "$LOCK" -- true
}

# conflicts: prints how often a transaction was refused, or rolled back for another node's
conflicts() {
	local n sum=0
	for n in 1 2 3; do
		sum=$((sum + $(node $n "SHOW GLOBAL STATUS WHERE Variable_name IN
			('wsrep_local_cert_failures', 'wsrep_local_bf_aborts')" | awk '{ sum += $2 } END { print sum }')))
	done
	echo "$sum"
}

# crowd PARAMETER URI...: 60 processes count down from 59, each with the next of the URIs
crowd() {
	local parameter=$1 n all=() uris=("${@:2}")
	echo 59 >number
	rm -f log
	"$DLOCK" setup -b "${uris[0]}?$parameter"
	for n in {0..59}; do
		start "$DLOCK" run -t 60s -b "${uris[n % ${#uris[@]}]}?$parameter" "$LOCK" -- \
			"$TOP/tests/conformance/countdown" number log
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 90
		equal "$status" 0 "status of one ($(cat "$T"/err.*))"
	done
	diff <(seq 59 -1 0) log
}

# bats test_tags=more
@test "insert: countdown on different nodes" {
	crowd strategy=insert "$NODE_1" "$NODE_2" "$NODE_3"
}

# bats test_tags=more
@test "shedlock: countdown on different nodes" {
	crowd dialect=shedlock "$NODE_1" "$NODE_2" "$NODE_3"
}

# at_commit NODE: a client's transaction there waits until all nodes have received it
at_commit() {
	[[ $(node "$1" "SELECT COUNT(*) FROM information_schema.processlist
		WHERE user = '$MYSQL_USER' AND state = 'Waiting for certification'") != 0 ]]
}

either_ended() {
	ended "$1" || ended "$2"
}

# refused_at_commit STRATEGY NAME: two clients take the lock NAME at once, on two nodes. No transaction
# is ordered while the third node is stopped, so neither client's sees the other's.
refused_at_commit() {
	local inside='mkdir inside || touch overlap; until [ -e "$0" ]; do sleep 0.02; done; rmdir inside'
	local one one_err two two_err codes
	kill -STOP "$(<"$GALERA_DIR/3/pid")"
	start "$DLOCK" run -n -b "$NODE_1?$1" "$2" -- sh -c "$inside" "go-$2"
	one=$PID one_err=$ERR
	start "$DLOCK" run -n -b "$NODE_2?$1" "$2" -- sh -c "$inside" "go-$2"
	two=$PID two_err=$ERR
	wait_until 10 at_commit 1
	wait_until 10 at_commit 2
	kill -CONT "$(<"$GALERA_DIR/3/pid")"
	wait_until 20 either_ended "$one" "$two"
	touch "go-$2"
	join "$one"
	codes=$status
	join "$two"
	codes="$codes $status"
	[[ ! -e overlap ]]
	matches "$codes" '^(0 124|124 0)$' "$1: $(<"$one_err") $(<"$two_err")"
}

# bats test_tags=more
@test "a transaction that Galera refuses at its commit means that the lock is busy" {
	local before strategy n
	for strategy in strategy=lease strategy=insert dialect=shedlock; do
		"$DLOCK" setup -b "$NODE_1?$strategy"
		before=$(conflicts)
		for n in 1 2 3 4 5; do
			refused_at_commit "$strategy" "$LOCK-${strategy#*=}-$n"
		done
		(($(conflicts) >= before + 5)) || fail "$strategy: $before, $(conflicts) conflicts"
	done
}

# bats test_tags=more
@test "two at once on different nodes are never inside together" {
	local strategy n
	for strategy in strategy=lease strategy=insert dialect=shedlock; do
		for n in {1..15}; do
			start "$DLOCK" run -w 20s -b "$NODE_1?$strategy" "$LOCK" -- \
				sh -c 'mkdir inside || echo overlap >>overlaps; rmdir inside'
			local one=$PID
			run -0 "$DLOCK" run -w 20s -b "$NODE_3?$strategy" "$LOCK" -- \
				sh -c 'mkdir inside || echo overlap >>overlaps; rmdir inside'
			join "$one" 25
			equal "$status" 0 "$strategy"
		done
		[[ ! -e overlaps ]]
	done
}

# bats test_tags=more
@test "fences grow across nodes" {
	local strategy last fence n
	for strategy in strategy=lease strategy=insert dialect=shedlock; do
		last=0
		for n in 1 2 3 1 3 2; do
			local uri=NODE_$n
			fence=$("$DLOCK" run -w 20s -b "${!uri}?$strategy" "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
			((fence > last)) || fail "$strategy: $fence on node $n after $last"
			last=$fence
		done
	done
}

# bats test_tags=more
@test "row and table: a lock that is held on one node is held on all" {
	local strategy
	node 1 "CREATE TABLE \`$LOCK\` (id INT PRIMARY KEY)"
	for strategy in row table; do
		hold -b "$NODE_1?strategy=$strategy" --
		run --separate-stderr -124 "$DLOCK" run -n -b "$NODE_2?strategy=$strategy" "$LOCK" -- touch ran
		release
		run -0 "$DLOCK" run -w 5s -b "$NODE_2?strategy=$strategy" "$LOCK" -- true
	done
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "a node that freezes: its holder's command is dead in time, and the lease stands on the others" {
	hold -b "$NODE_3" -t 4s --
	kill -STOP "$(<"$GALERA_DIR/3/pid")"
	# Two of three nodes are the majority, where the lease excludes others.
	run --separate-stderr -124 "$DLOCK" run -n -b "$NODE_1" "$LOCK" -- true
	join "$HOLDER" 8
	equal "$status" 123
	ended "$COMMAND"
	# The two that are left must agree on that first: 5 to 15 s, or more under load.
	wait_until 45 runs_on "$NODE_1"
	kill -CONT "$(<"$GALERA_DIR/3/pid")"
	wait_until 40 runs_on "$NODE_3"
}

# bats test_tags=more
@test "a node that answers and refuses, behind a balancer: a holder goes on with another node" {
	local strategy
	balance "$(<"$GALERA_DIR/3/port")"
	for strategy in strategy=lease strategy=insert dialect=shedlock; do
		balance_to "$(<"$GALERA_DIR/3/port")"
		hold -b "$BALANCED?$strategy" -t 6s --
		balance_to "$(<"$GALERA_DIR/1/port")"
		# So does a node that has lost the quorum, once it has noticed that.
		node 3 "SET GLOBAL wsrep_reject_queries = ALL"
		holds_for 6500 alive "$COMMAND"
		node 3 "SET GLOBAL wsrep_reject_queries = NONE"
		release
	done
}

# bats test_tags=more
@test "a node without the others refuses: no quorum, no lock" {
	wait_until 20 runs_on "$NODE_1"
	hold -b "$NODE_1" -t 3s --
	kill -STOP "$(<"$GALERA_DIR/2/pid")" "$(<"$GALERA_DIR/3/pid")"
	join "$HOLDER" 10
	equal "$status" 123
	ended "$COMMAND"
	run --separate-stderr "$DLOCK" run -w 3s -b "$NODE_1" "$LOCK" -- touch ran
	matches "$status" '^12[24]$'
	[[ ! -e ran ]]
	kill -CONT "$(<"$GALERA_DIR/2/pid")" "$(<"$GALERA_DIR/3/pid")"
	wait_until 30 runs_on "$NODE_1"
}
