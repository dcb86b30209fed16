# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: hosts that are cut off from each other, servers and clients together. Each
# host is a network namespace with one server, that clients there reach on its loopback;
# the servers reach each other over a switch, where a host can be unplugged.

load ../lib/helpers
load ../lib/network

PORT=2181

# Three hosts, with an ensemble on them, serve the whole file: no test ends a server.
setup_file() {
	local n servers=() T=$BATS_FILE_TMPDIR SERVICES=()
	# Only a test can be skipped.
	((EUID == 0)) || return 0
	network_hosts 3
	for n in 1 2 3; do
		program "$n" java "$(type -P java)"
		servers+=("server.$n=10.77.0.$n:2888:3888")
	done
	for n in 1 2 3; do
		zk_configure "$T/server.$n" "$PORT" "${servers[@]}"
		echo "$n" >"$T/server.$n/myid"
		ZK_JAVA=$T/java.$n zk_launch "$T/server.$n"
		SERVICES+=("$(<"$T/server.$n/pid")")
	done
	echo "$SWITCH" "${HOST[@]}" >"$T/hosts"
	echo "${SERVICES[@]}" >"$T/services"
}

teardown_file() {
	local services
	if [[ -e $BATS_FILE_TMPDIR/services ]]; then
		read -ra services <"$BATS_FILE_TMPDIR/services"
		kill -KILL "${services[@]}"
	fi
}

# Each test begins with hosts that reach each other, and a leader.
prepare() {
	local n
	need_root
	read -r SWITCH "HOST[1]" "HOST[2]" "HOST[3]" <"$BATS_FILE_TMPDIR/hosts"
	for n in 1 2 3; do
		program "$n" dlock "$DLOCK"
		plug "$n"
	done
	wait_until 40 leader 1 2 3
	export DLOCK_BACKEND=zookeeper://127.0.0.1:$PORT
}

# leader N...: true when these hosts serve and one of them leads; sets LEADER and FOLLOWERS
leader() {
	local n mode
	LEADER='' FOLLOWERS=()
	for n; do
		mode=$(echo srvr | on "$n" socat -t2 -T2 - "TCP4:127.0.0.1:$PORT" 2>/dev/null |
			sed -n 's/^Mode: //p')
		case $mode in
		leader) LEADER=$n ;;
		follower) FOLLOWERS+=("$n") ;;
		*) return 1 ;;
		esac
	done
	[[ -n $LEADER ]]
}

# cut_off N MS: holds on host N and waits on another one, then N is unplugged; the
# holder is dead MS later at most, and only then the other one gets the lock
cut_off() {
	local n=$1 ms=$2 other sign start
	other=$((n % 3 + 1))
	DLOCK=$T/dlock.$n hold -t "${ms}ms" -- "$TOOLS/witness" -i -l log
	DLOCK=$T/dlock.$other contend "$COMMAND"
	wait_until 10 has_place 2 "$other"
	now
	start=$NOW
	unplug "$n"
	join "$HOLDER" $((ms / 1000 + 4))
	equal "$status" 123 "status ($(<"$HOLDER_ERR"))"
	ended "$COMMAND"
	read -r sign _ < <(tail -n 1 log)
	between $((sign - start)) 0 "$ms" "last sign of life after it was unplugged"
	met_nobody 30
	plug "$n"
	wait_until 30 leader 1 2 3
	run -0 "$T/dlock.$n" run -w 10s "$LOCK" -- true
}

# has_place COUNT N: true when COUNT clients stand in line, as host N sees it
has_place() {
	[[ $(on "$2" "$TOOLS/znode" "$PORT" ls "/dlock/$LOCK" 2>/dev/null | grep -vc -- -dlock-) == "$1" ]]
}

@test "the leader's host is cut off, and the holder with it: dead before the next one holds" {
	cut_off "$LEADER" 4000
}

# bats test_tags=more
@test "a follower's host is cut off, and the holder with it: dead before the next one holds" {
	cut_off "${FOLLOWERS[0]}" 4000
}

# bats test_tags=more
@test "a host is cut off for a moment: the command runs on" {
	local n=${FOLLOWERS[0]}
	DLOCK=$T/dlock.$n hold -t 20s -- "$TOOLS/witness" -i -l log
	DLOCK=$T/dlock.$LEADER contend "$COMMAND"
	wait_until 10 has_place 2 "$LEADER"
	unplug "$n"
	holds_for 1000 alive "$COMMAND"
	plug "$n"
	holds_for 6000 alive "$COMMAND"
	kill -KILL "$COMMAND"
	join "$HOLDER"
	equal "$status" 137
	met_nobody
}

# bats test_tags=more
@test "the waiter's host is cut off: the lock goes to the next, and the waiter comes again" {
	local n=${FOLLOWERS[0]} m=${FOLLOWERS[1]} waiter next
	DLOCK=$T/dlock.$LEADER hold -t 4s --
	start "$T/dlock.$n" run -t 4s "$LOCK" -- sh -c 'mkdir in || echo overlap; echo cut >>order; rmdir in'
	waiter=$PID
	wait_until 10 has_place 2 "$LEADER"
	start "$T/dlock.$m" run -t 4s "$LOCK" -- sh -c 'mkdir in || echo overlap; echo next >>order; rmdir in'
	next=$PID
	wait_until 10 has_place 3 "$LEADER"
	unplug "$n"
	release
	join "$next" 15
	equal "$status" 0
	alive "$waiter"
	plug "$n"
	join "$waiter" 30
	equal "$status" 0 "status of the waiter ($(cat err.*))"
	equal "$(tr '\n' ' ' <order)" "next cut "
	equal "$(cat out.*)" ""
}
