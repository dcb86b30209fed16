# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# ZooKeeper with one node for a lock, for run.bats: no order, and exclusive holds only.

# shellcheck source=tests/conformance/backends/zookeeper.bash
source "${BASH_SOURCE[0]%/*}/zookeeper.bash"

FIFO=
LACKS='shared slots'

backend_prepare() {
	URI="zookeeper://127.0.0.1:$ZK_PORT?strategy=node"
}

backend_nothing_left() {
	local code=0
	zn stat "/dlock/$LOCK" >/dev/null 2>&1 || code=$?
	((code == 1))
}

# Waiters are the sessions, other than the holder's, that watch the node.
backend_waiters() {
	local owner
	owner=$(zn stat "/dlock/$LOCK" 2>/dev/null | sed 's/.* owner=\([^ ]*\) .*/\1/')
	zk_ask "$ZK_DIR" wchp | awk -v path="/dlock/$LOCK" -v owner="$owner" '
		/^\// { here = $0 == path; next }
		here && NF && $1 "" != owner "" { waiters++ }
		END { print waiters + 0 }'
}
