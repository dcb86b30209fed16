# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A Redis cluster, for run.bats. The URI names all its nodes.

# shellcheck source=tests/conformance/backends/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"
# shellcheck source=tests/redis/topology.bash
source "$TOP/tests/redis/topology.bash"

setup_file() {
	cluster_for_file
}

teardown_file() {
	cluster_file_end
}

backend_prepare() {
	cluster_load
	node_of "$KEY"
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$NODE
}

backend_wipe() {
	local n
	for n in 1 2 3; do
		at "${NODE_PORTS[n]}" flushall
	done
}
