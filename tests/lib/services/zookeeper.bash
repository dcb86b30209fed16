# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Real ZooKeeper servers for the tests, single ones or three together, on free ports of
# 127.0.0.1, each with a directory of its own. Needs wait_until, alive and ended from
# helpers.bash. ZK_JAVA may name another java, ZK_JARS other jars.

ZK_JAVA=${ZK_JAVA:-java}
ZK_JARS=${ZK_JARS:-/usr/share/java/slf4j-simple.jar:/usr/share/java/zookeeper.jar}

# A JVM that starts fast, compiles little and stays small. The server does not call fsync(), because no test cuts
# the power, and looks for empty containers every second instead of every minute.
ZK_JVM=(-Xmx128m -Xss512k -XX:+UseSerialGC -XX:TieredStopAtLevel=1
	-XX:CompileThresholdScaling=4 -XX:-UsePerfData
	-Dzookeeper.forceSync=no -Dznode.container.checkIntervalMs=1000
	-Dorg.slf4j.simpleLogger.defaultLogLevel=warn)

# zookeeper_start DIR [KEY=VALUE]...: starts one server, with these lines in its configuration, and
# returns when it serves. Its pid is in DIR/pid, its port in DIR/port.
zookeeper_start() {
	local dir=$1 attempt PORT
	shift
	for attempt in 1 2 3 4 5 6 7 8 9 10; do
		free_port
		zk_configure "$dir" "$PORT" "$@"
		if zk_launch "$dir" && zk_settle "$dir"; then
			return 0
		fi
		if ! grep -q 'Address already in use' "$dir/log"; then
			break
		fi
	done
	echo "ZooKeeper did not start in $attempt attempts; its log:" >&2
	cat "$dir/log" >&2
	return 1
}

# zookeeper_restart DIR: starts the server again on its port, with its data. All that it had
# acknowledged is there again, sessions too.
zookeeper_restart() {
	zk_launch "$1" && zk_settle "$1"
}

# zk_ensemble_start DIR [KEY=VALUE]...: starts three servers, in DIR/1 to DIR/3, and returns when
# they have elected a leader. DIR/hosts has the hosts for a URI: 127.0.0.1:PORT,...
zk_ensemble_start() {
	local dir=$1 attempt member PORT servers=() hosts
	shift
	for attempt in 1 2 3 4 5; do
		# Three for clients, three where the leader listens, and three for the election of one.
		free_port 9
		servers=()
		for member in 1 2 3; do
			servers+=("server.$member=127.0.0.1:$((PORT + 2 + member)):$((PORT + 5 + member))")
		done
		hosts=
		for member in 1 2 3; do
			zk_configure "$dir/$member" "$((PORT + member - 1))" "${servers[@]}" "$@"
			echo "$member" >"$dir/$member/myid"
			hosts+=${hosts:+,}127.0.0.1:$((PORT + member - 1))
			zk_launch "$dir/$member"
		done
		echo "$hosts" >"$dir/hosts"
		if wait_until 30 zk_ensemble_settled "$dir" && zk_ensemble_serves "$dir"; then
			return 0
		fi
		zk_ensemble_stop "$dir"
		if ! cat "$dir"/?/log | grep -q 'Address already in use'; then
			break
		fi
	done
	echo "The ZooKeeper ensemble did not start in $attempt attempts; the logs:" >&2
	tail -n 50 "$dir"/?/log >&2
	return 1
}

zk_ensemble_stop() {
	local member
	for member in 1 2 3; do
		server_stop "$1/$member"
	done
}

# zookeeper_for_file, zookeeper_file_end: for setup_file and teardown_file. One server for all
# tests of a file, as ZK_DIR and ZK_PORT.
zookeeper_for_file() {
	export ZK_DIR=$BATS_FILE_TMPDIR/zookeeper
	zookeeper_start "$ZK_DIR"
	ZK_PORT=$(<"$ZK_DIR/port")
	export ZK_PORT
}

zookeeper_file_end() {
	if [[ ! -f $ZK_DIR/pid ]]; then
		return
	fi
	if ! server_runs "$ZK_DIR"; then
		echo "the server has ended by itself; its log:" >&2
		cat "$ZK_DIR/log" >&2
		return 1
	fi
	server_stop "$ZK_DIR"
}

# ---- one member of an ensemble; server_stop, zookeeper_restart and zk_ask work with
# DIR/MEMBER, too

# zk_leader DIR: sets LEADER and FOLLOWERS (an array) to the numbers of the members;
# fails while there is no leader with a follower
zk_leader() {
	local member mode
	LEADER='' FOLLOWERS=()
	for member in 1 2 3; do
		mode=$(zk_mode "$1/$member")
		case $mode in
		leader) LEADER=$member ;;
		follower) FOLLOWERS+=("$member") ;;
		esac
	done
	[[ -n $LEADER ]] && ((${#FOLLOWERS[@]} > 0))
}

# zk_signal DIR/MEMBER SIGNAL: freezes a member with STOP, and continues it with CONT
zk_signal() {
	kill "-$2" "$(<"$1/pid")"
}

# ---- asking

# zk_ask DIR WORD: prints what the server answers to a four-letter word, if it answers
zk_ask() {
	echo "$2" | socat -t2 -T2 - "TCP4:127.0.0.1:$(<"$1/port")" 2>/dev/null
}

# zk_mode DIR: prints standalone, leader or follower, or nothing while the server does not serve.
# Starts no process, because it is called often.
zk_mode() {
	local line fd
	{ exec {fd}<>"/dev/tcp/127.0.0.1/$(<"$1/port")"; } 2>/dev/null || return 0
	echo srvr >&"$fd"
	while read -rt 2 line <&"$fd"; do
		if [[ $line == Mode:* ]]; then
			echo "${line#Mode: }"
		fi
	done
	exec {fd}>&-
}

# zk_counter DIR NAME: prints a number from the server's `mntr`, such as zk_packets_received
zk_counter() {
	zk_ask "$1" mntr | awk -v name="$2" '$1 == name { print int($2) }'
}

zk_serves() {
	[[ -n $(zk_mode "$1") ]]
}

# zk_ensemble_serves DIR: there is a leader, and the three of them serve
zk_ensemble_serves() {
	zk_leader "$1" && ((${#FOLLOWERS[@]} == 2))
}

# ---- starting a server

# zk_configure DIR PORT LINE...
zk_configure() {
	local dir=$1 port=$2
	shift 2
	mkdir -p "$dir/data"
	echo "$port" >"$dir/port"
	# Of two lines with one key the server takes the later one.
	{
		printf '%s\n' tickTime=200 initLimit=50 syncLimit=15 clientPortAddress=127.0.0.1 \
			admin.enableServer=false maxClientCnxns=0 '4lw.commands.whitelist=*' \
			minSessionTimeout=1000 maxSessionTimeout=3600000 snapCount=10000 \
			"clientPort=$port" "dataDir=$dir"
		printf '%s\n' "$@"
	} >"$dir/zoo.cfg"
}

# zk_launch DIR
zk_launch() {
	local dir=$1
	: >"$dir/log"
	# The server dies with bats, even if bats is killed.
	# shellcheck disable=SC2086 # words
	$AHEAD setpriv --pdeathsig KILL "$ZK_JAVA" "${ZK_JVM[@]}" -cp "$ZK_JARS" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" \
		</dev/null >>"$dir/log" 2>&1 3>&- 4>&- &
	echo $! >"$dir/pid"
	disown $!
}

# zk_settle DIR: waits until the server serves; fails if it has ended
zk_settle() {
	wait_until 30 zk_settled "$1"
	zk_serves "$1"
}

zk_settled() {
	zk_serves "$1" || ! alive "$(<"$1/pid")"
}

zk_ensemble_settled() {
	local member
	zk_ensemble_serves "$1" && return
	for member in 1 2 3; do
		alive "$(<"$1/$member/pid")" || return 0
	done
	return 1
}
