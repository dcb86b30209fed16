# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redis over its unix socket, in another database, for run.bats.

# shellcheck source=tests/conformance/backends/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"

backend_prepare() {
	URI="redis+unix://$REDIS_DIR/sock?db=2"
}

rcli() {
	redis_at "$REDIS_DIR" -n 2 "$@"
}
