# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Real etcd servers for the tests, single ones or three together, on free ports of 127.0.0.1, each
# with a directory of its own. Needs wait_until, alive and ended from helpers.bash, and free_port from
# ports.bash. ETCD and ETCDCTL may name other programs.

ETCD=${ETCD:-etcd}
ETCDCTL=${ETCDCTL:-etcdctl}

# The server need not wait for its disk, because no test cuts the power. Its least lease is 1.5 times
# the election's, in whole seconds.
ETCD_OPTIONS=(--unsafe-no-fsync --heartbeat-interval 50 --election-timeout 500 --log-level error
	--logger zap --log-outputs stderr)

# etcd_start DIR [OPTION]...: starts one server, and returns when it serves. Its pid is in DIR/pid,
# its port in DIR/port. With SCHEME=https clients need TLS.
etcd_start() {
	local dir=$1 attempt peer
	shift
	for attempt in 1 2 3 4 5; do
		free_port 2
		peer=$((PORT + 1))
		etcd_launch "$dir" "$PORT" "$peer" "default=http://127.0.0.1:$peer" --name default "$@"
		wait_until 30 etcd_settled "$dir"
		if etcd_serves "$dir"; then
			return 0
		fi
		if ! grep -q 'address already in use' "$dir/log"; then
			break
		fi
	done
	echo "etcd did not start in $attempt attempts; its log:" >&2
	cat "$dir/log" >&2
	return 1
}

# etcd_launch DIR PORT PEER CLUSTER [OPTION]...: starts a member, and does not wait for it
etcd_launch() {
	local dir=$1 port=$2 peer=$3 cluster=$4 scheme=${SCHEME-http}
	shift 4
	mkdir -p "$dir"
	echo "$port" >"$dir/port"
	printf '%s\n' "${ETCD_OPTIONS[@]}" --data-dir "$dir/data" \
		--listen-client-urls "$scheme://127.0.0.1:$port" \
		--advertise-client-urls "$scheme://127.0.0.1:$port" \
		--listen-peer-urls "http://127.0.0.1:$peer" \
		--initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "$cluster" "$@" >"$dir/options"
	etcd_resume "$dir"
}

# etcd_resume DIR: starts the server again that DIR/options describes, with its data
etcd_resume() {
	local dir=$1 options
	mapfile -t options <"$dir/options"
	: >"$dir/log"
	# The server dies with bats, even if bats is killed.
	# shellcheck disable=SC2086 # words
	$AHEAD setpriv --pdeathsig KILL "$ETCD" "${options[@]}" </dev/null >>"$dir/log" 2>&1 3>&- 4>&- &
	echo $! >"$dir/pid"
	disown $!
}

# etcd_restart DIR: the same, and returns when it serves
etcd_restart() {
	etcd_resume "$1"
	wait_until 30 etcd_settled "$1"
	etcd_serves "$1"
}

# etcd_serves DIR: it has a leader. Starts no process, because it is called often. One with TLS only
# has to listen.
etcd_serves() {
	local line fd tls
	tls=$(<"$1/options")
	{ exec {fd}<>"/dev/tcp/127.0.0.1/$(<"$1/port")"; } 2>/dev/null || return
	if [[ $tls == *https://* ]]; then
		exec {fd}>&-
		return 0
	fi
	printf 'GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n' >&"$fd"
	# The last line has no end.
	while { read -rt 2 line <&"$fd"; } 2>/dev/null || [[ -n ${line-} ]]; do
		if [[ $line == *'"health":"true"'* ]]; then
			exec {fd}>&-
			return 0
		fi
		line=
	done
	exec {fd}>&-
	return 1
}

etcd_settled() {
	etcd_serves "$1" || ! alive "$(<"$1/pid")"
}

# etcd_for_file, etcd_file_end: for setup_file and teardown_file. One server for all tests of a file,
# as ETCD_DIR and ETCD_SERVER_PORT.
etcd_for_file() {
	export ETCD_DIR=$BATS_FILE_TMPDIR/etcd
	etcd_start "$ETCD_DIR"
	ETCD_SERVER_PORT=$(<"$ETCD_DIR/port")
	export ETCD_SERVER_PORT
}

etcd_file_end() {
	if [[ -f $ETCD_DIR/pid ]]; then
		server_stop "$ETCD_DIR"
	fi
}

# ec ARG...: etcdctl to the server of this file's tests, or to that in $ETCD_DIR
ec() {
	ETCDCTL_API=3 "$ETCDCTL" --endpoints "127.0.0.1:$(<"$ETCD_DIR/port")" "$@"
}

# private_etcd [OPTION]...: a server that this test may stop, freeze or break. Sets ETCD_DIR, P_PORT,
# P_PID and P_URI.
private_etcd() {
	ETCD_DIR=$T/etcd.${#SERVICES[@]}
	etcd_start "$ETCD_DIR" "$@"
	P_PORT=$(<"$ETCD_DIR/port")
	P_PID=$(<"$ETCD_DIR/pid")
	P_URI=etcd://127.0.0.1:$P_PORT
	SERVICES+=("$P_PID")
}

# ---- three members; the functions for a server work with DIR/1, DIR/2 and DIR/3, too

# etcd_cluster_start DIR [OPTION]...: starts three members, and returns when each has a leader.
# DIR/hosts has the hosts for a URI.
etcd_cluster_start() {
	local dir=$1 attempt member PORT cluster hosts
	shift
	for attempt in 1 2 3 4 5; do
		# Three for clients, and three for each other.
		free_port 6
		cluster='' hosts=''
		for member in 1 2 3; do
			cluster+=${cluster:+,}m$member=http://127.0.0.1:$((PORT + 2 + member))
			hosts+=${hosts:+,}127.0.0.1:$((PORT + member - 1))
		done
		for member in 1 2 3; do
			etcd_launch "$dir/$member" "$((PORT + member - 1))" "$((PORT + 2 + member))" "$cluster" \
				--name "m$member" "$@"
		done
		echo "$hosts" >"$dir/hosts"
		if wait_until 30 etcd_cluster_settled "$dir" && etcd_cluster_serves "$dir"; then
			return 0
		fi
		etcd_cluster_stop "$dir"
		cat "$dir"/?/log | grep -q 'address already in use' || break
		rm -rf "$dir"/?/data
	done
	echo "The etcd cluster did not start in $attempt attempts; the logs:" >&2
	tail -n 20 "$dir"/?/log >&2
	return 1
}

etcd_cluster_stop() {
	local member
	for member in 1 2 3; do
		server_stop "$1/$member"
	done
}

etcd_cluster_serves() {
	etcd_serves "$1/1" && etcd_serves "$1/2" && etcd_serves "$1/3"
}

etcd_cluster_settled() {
	local member
	etcd_cluster_serves "$1" && return
	for member in 1 2 3; do
		alive "$(<"$1/$member/pid")" || return 0
	done
	return 1
}

# etcd_leader DIR: sets LEADER and FOLLOWERS (an array) to the numbers of the members; fails while
# there is no leader
etcd_leader() {
	local member state
	LEADER='' FOLLOWERS=()
	for member in 1 2 3; do
		state=$(ETCDCTL_API=3 "$ETCDCTL" --command-timeout 2s --dial-timeout 1s -w json \
			--endpoints "127.0.0.1:$(<"$1/$member/port")" endpoint status 2>/dev/null |
			jq -r '.[0].Status | select(.leader) |
				if .leader == .header.member_id then "leader" else "follower" end' 2>/dev/null)
		case $state in
		leader) LEADER=$member ;;
		follower) FOLLOWERS+=("$member") ;;
		esac
	done
	[[ -n $LEADER ]] && ((${#FOLLOWERS[@]} > 0))
}
