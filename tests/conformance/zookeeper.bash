# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# ZooKeeper, one server, for suite.bats.

FIFO=1
LEASES=1
SESSION=1
TRANSACTION_FENCES=1

setup_file() {
	zookeeper_for_file
}

teardown_file() {
	zookeeper_file_end
}

backend_prepare() {
	URI=zookeeper://127.0.0.1:$ZK_PORT
}

# zn COMMAND...: what the server has, see tools/znode.c
zn() {
	"$TOOLS/znode" "$ZK_PORT" "$@"
}

# the places in line, a name each; a place has a twin, which does not count
places() {
	zn ls "/dlock/$LOCK" 2>/dev/null | grep -v -- -dlock-
}

# not even a twin; the directory goes in its time
backend_nothing_left() {
	local names code=0
	names=$(zn ls "/dlock/$LOCK" 2>/dev/null) || code=$?
	# 2: no server has answered
	[[ -z $names && $code != 2 ]]
}

backend_waiters() {
	local count
	count=$(places | wc -l)
	echo $((count > 0 ? count - 1 : 0))
}

backend_wipe() {
	zn wipe /dlock
}
