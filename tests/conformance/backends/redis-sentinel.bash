# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redis, found through a sentinel, for run.bats.

# shellcheck source=tests/conformance/backends/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"

setup_file() {
	redis_for_file
	free_port
	redis_sentinel_start "$BATS_FILE_TMPDIR/sentinel" "$PORT" "sentinel monitor m 127.0.0.1 $REDIS_PORT 1"
	export SENTINEL_PORT=$PORT
}

teardown_file() {
	server_stop "$BATS_FILE_TMPDIR/sentinel"
	redis_file_end
}

backend_prepare() {
	URI=redis+sentinel://127.0.0.1:$SENTINEL_PORT/m
}
