# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What the ZooKeeper suites share. Their assertions ask the server, with tools that speak the
# protocol themselves (tools/znode.c), and do not rely on what dlock prints.

setup_file() {
	zookeeper_for_file
}

teardown_file() {
	zookeeper_file_end
}

prepare() {
	ZK=zookeeper://127.0.0.1:$ZK_PORT
	# the node that is the lock's directory
	export NODE=/dlock/$LOCK
	use "$ZK" "$ZK_PORT"
}

# use URI PORT[,PORT]...: from now on dlock uses URI, and the tools the servers at these ports
use() {
	export DLOCK_BACKEND=$1 PORTS=$2
}

# ---- what is stored

zn() {
	"$TOOLS/znode" "$PORTS" "$@"
}

# zn_as USER:PASSWORD COMMAND...
zn_as() {
	"$TOOLS/znode" -a "$1" "$PORTS" "${@:2}"
}

# places: prints the nodes that stand in line for the lock, one a line, in their order, without the
# shadows by which other kinds of clients see them. Numbers below 0 have tests of their own.
places() {
	zn ls "$NODE" 2>"$T/error" | grep -v -- '-dlock-' |
		sed -E 's/(.*[^0-9])([0-9]+)$/\2 \1\2/' | sort | cut -d' ' -f2
	if [[ -s $T/error && $(<"$T/error") != *'(no node)' ]]; then
		cat "$T/error" >&2
	fi
}

# stat_of PATH NAME: prints one of the numbers that the server keeps for a node
stat_of() {
	local stat
	stat=$(zn stat "$1") || return
	stat=" $stat"
	stat=${stat#* "$2="}
	echo "${stat%% *}"
}

place_count() {
	[[ $(places | wc -l) == "$1" ]]
}

# waiters N: N stand in line behind one holder
waiters() {
	place_count $(($1 + 1))
}

# wait_known N [OPTION]... -- COMMAND...: as wait_in_line does, and returns when this dlock knows that
# it is in line. Before that it gives up at once when its server goes.
wait_known() {
	wait_in_line "$1" -v "${@:2}"
	wait_until 10 has_line "$ERR" ': waiting'
}

# no_places: there is no node in the queue, and no shadow
no_places() {
	[[ -z $(zn ls "$NODE" 2>/dev/null) ]]
}

# nothing_left: not even the lock's directory is left, which the server removes after a while
nothing_left() {
	wait_until 2 no_places
	wait_until 8 not zn stat "$NODE" >/dev/null 2>&1
}

# directory: makes the lock's directory, as another client would
directory() {
	zn create "${NODE%/*}" 2>/dev/null || true
	zn container "$NODE" 2>/dev/null || true
}

# foreign NAME [DATA]: makes a node in the lock's directory as another client would. It exists until
# the test ends or end_foreign is called. Sets FOREIGN to its path, and FOREIGN_PID.
foreign() {
	foreign_node hold "$@"
}

# foreign_sequence PREFIX [DATA]: the same with a node that the server numbers
foreign_sequence() {
	foreign_node sequence "$@"
}

# foreign_node VERB NAME [DATA]
foreign_node() {
	# The server may remove the empty directory before the node is made. Then try both again.
	for _ in 1 2 3; do
		directory
		start "$TOOLS/znode" "$PORTS" "$1" "$NODE/$2" "${3-}"
		FOREIGN_PID=$PID
		wait_until 5 made_or_not "$OUT" "$PID"
		if has_line "$OUT" ''; then
			break
		fi
	done
	line "$OUT"
	FOREIGN=$LINE
}

# made_or_not OUT PID
made_or_not() {
	has_line "$1" '' || ended "$2"
}

end_foreign() {
	kill -TERM "${1-$FOREIGN_PID}"
	join "${1-$FOREIGN_PID}"
	equal "$status" 0 "status of znode"
}

# owner_of PATH: prints the session that an ephemeral node belongs to
owner_of() {
	stat_of "$1" owner
}

# watchers PATH: prints the sessions that watch a node, one a line
watchers() {
	zk_ask "$ZK_DIR" wchp | awk -v path="$1" '
		/^\// { here = $0 == path; next }
		here && NF { sub(/^[[:space:]]+/, ""); print }'
}

# expire_owner PATH: makes the server end the session that owns a node
expire_owner() {
	zn expire "$(owner_of "$1")"
}

# ---- a command that testifies (tools/zkwitness.c)

# testify [OPTION]...: holds $LOCK with a witness that ignores TERM and asks the servers at $PORTS
# itself whether the lock's node still stands. The witness writes to ./log.
testify() {
	hold "$@" -- sh -c 'exec "$TOOLS/zkwitness" -i "$PORTS" "$NODE" "$DLOCK_FENCE" log'
	wait_until 5 has_line log ' held$'
}

# lost_nothing: no answer of a server has told the witness that it ran without the lock
lost_nothing() {
	not has_line log LOST
}

# frozen_at: sets FAULT to the time of a fault, which is now
frozen_at() {
	now
	FAULT=$NOW
}

# dead_by TIME: the witness is dead, and wrote nothing after TIME
dead_by() {
	local sign
	ended "$COMMAND"
	lost_nothing
	read -r sign _ < <(tail -n 1 log)
	((sign < $1)) || fail "lived until $sign, should have been dead by $1"
}

# lives_on MS: the witness lives for MS more, under a lock that stands
lives_on() {
	holds_for "$1" alive "$COMMAND"
	lost_nothing
}

# end_witness: ends the witness, which ignores TERM, and its dlock
end_witness() {
	kill -KILL "$COMMAND"
	join "$HOLDER" 10
	equal "$status" 137
	lost_nothing
}

# zk_proxy [PORT]: starts a proxy before the server at PORT, by default $ZK_PORT; sets PROXY (a URI)
zk_proxy() {
	start_proxy "${1-$ZK_PORT}"
	PROXY=zookeeper://127.0.0.1:$TOOL_PORT
}

# ---- three servers, in P_DIR

# private_ensemble [KEY=VALUE]...: starts three servers, which are the backend of this test
private_ensemble() {
	local member
	P_DIR=$T/ensemble
	zk_ensemble_start "$P_DIR" "$@"
	for member in 1 2 3; do
		SERVICES+=("$(<"$P_DIR/$member/pid")")
	done
	members 1 2 3
}

# members N...: from now on dlock and the tools use these servers
members() {
	local member hosts='' ports=''
	for member; do
		hosts+=${hosts:+,}127.0.0.1:$(<"$P_DIR/$member/port")
		ports+=${ports:+,}$(<"$P_DIR/$member/port")
	done
	use "zookeeper://$hosts" "$ports"
}

# kill_members N...
kill_members() {
	local member
	for member; do
		server_stop "$P_DIR/$member"
	done
}

# elected: waits until there is a leader. This may take long, for a frozen member answers late.
elected() {
	wait_until 30 zk_leader "$P_DIR"
}

# member_of PATH: sets MEMBER to the member that the owner of a node is connected to
member_of() {
	local owner
	owner=$(owner_of "$1")
	for MEMBER in 1 2 3; do
		if zk_ask "$P_DIR/$MEMBER" cons | grep -qF "sid=$owner,"; then
			return 0
		fi
	done
	fail "nobody is connected to $owner"
}
