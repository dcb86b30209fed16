# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# ZooKeeper, one server, for run.bats.

FIFO=1
LEASES=1
SESSION=1
TRANSACTION_FENCES=1
DEAD_WAITS=1

setup_file() {
	zookeeper_for_file
}

teardown_file() {
	zookeeper_file_end
}

backend_prepare() {
	URI=zookeeper://127.0.0.1:$ZK_PORT
}

# zn COMMAND...: asks the server; see tools/znode.c
zn() {
	"$TOOLS/znode" "$ZK_PORT" "$@"
}

# places: prints the names of the nodes in line, in their order, without their shadows
places() {
	zn ls "/dlock/$LOCK" 2>/dev/null | grep -v -- -dlock- |
		sed -E 's/(.*[^0-9])([0-9]+)$/\2 \1\2/' | sort | cut -d' ' -f2
}

# Neither a node in the queue nor a shadow is left. The server removes the directory after a while.
backend_nothing_left() {
	local names code=0
	names=$(zn ls "/dlock/$LOCK" 2>/dev/null) || code=$?
	# Status 2 means that no server has answered.
	[[ -z $names && $code != 2 ]]
}

# All in line wait but the holders: the first one, or the readers at the head of the line, or as
# many as there are slots.
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
