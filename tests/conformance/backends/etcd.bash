# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# etcd, one server, for run.bats.

FIFO=1
LEASES=1
TRANSACTION_FENCES=1
DEAD_WAITS=1

# shellcheck source=tests/lib/services/etcd.bash
source "$TOP/tests/lib/services/etcd.bash"

setup_file() {
	etcd_for_file
}

teardown_file() {
	etcd_file_end
}

backend_prepare() {
	URI=etcd://127.0.0.1:$ETCD_SERVER_PORT/dlock
}

# places: prints the modes of the entries, in their order
places() {
	ec get --prefix "dlock/$LOCK/" --sort-by CREATE --order ASCEND --print-value-only |
		sed -n 's/^dlock:\([^ ]*\) .*/\1/p'
}

backend_nothing_left() {
	local left
	left=$(ec get --prefix "dlock/$LOCK/" --keys-only) && [[ -z $left ]]
}

# All wait but the holders: the first one, or the shared ones at the head of the queue, or as many as
# there are slots.
backend_waiters() {
	places | awk '
		$1 == "s" && (NR == 1 || shared) { shared = 1; next }
		$1 ~ /^[0-9]+$/ && (NR == 1 || slots) {
			slots = $1
			if (NR <= slots)
				next
		}
		{ shared = slots = 0 }
		NR > 1 { waiters++ }
		END { print waiters + 0 }'
}

backend_wipe() {
	ec del --prefix '' >/dev/null
}
