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

# the places in line, a name each, in their order; a place has a twin, which does not count
places() {
	zn ls "/dlock/$LOCK" 2>/dev/null | grep -v -- -dlock- |
		sed -E 's/(.*[^0-9])([0-9]+)$/\2 \1\2/' | sort | cut -d' ' -f2
}

# not even a twin; the directory goes in its time
backend_nothing_left() {
	local names code=0
	names=$(zn ls "/dlock/$LOCK" 2>/dev/null) || code=$?
	# 2: no server has answered
	[[ -z $names && $code != 2 ]]
}

# all but the first, or the first readers, or as many as there are slots
backend_waiters() {
	places | awk '
		/__READ__/ && (NR == 1 || readers) { readers = 1; next }
		match($0, /-slots-[0-9]+-/) && (NR == 1 || slots) {
			slots = substr($0, RSTART + 7, RLENGTH - 8)
			if (NR <= slots)
				next
		}
		{ readers = slots = 0 }
		NR > 1 { waiters++ }
		END { print waiters + 0 }'
}

backend_wipe() {
	zn wipe /dlock
}
