# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redis over its unix socket, in another database, for suite.bats.

# shellcheck source=tests/conformance/redis.bash
source "$BATS_TEST_DIRNAME/conformance/redis.bash"

backend_prepare() {
	URI="redis+unix://$REDIS_DIR/sock?db=2"
}

rcli() {
	redis_at "$REDIS_DIR" -n 2 "$@"
}
