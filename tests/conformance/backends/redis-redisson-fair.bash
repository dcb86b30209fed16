# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The fair lock of Redisson, for run.bats.

# shellcheck source=tests/conformance/backends/redis-redisson.bash
source "${BASH_SOURCE[0]%/*}/redis-redisson.bash"

backend_prepare() {
	URI="$REDIS?dialect=redisson&lock=fair"
}

backend_waiters() {
	rcli llen "redisson_lock_queue:{$LOCK}"
}
