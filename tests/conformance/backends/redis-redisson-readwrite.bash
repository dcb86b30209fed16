# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The read/write lock of Redisson, for run.bats. The tests want long leases of shared holds, too.

# shellcheck source=tests/conformance/backends/redis-redisson.bash
source "${BASH_SOURCE[0]%/*}/redis-redisson.bash"
LACKS=slots

backend_prepare() {
	URI="$REDIS?dialect=redisson&lock=readwrite&watchdog=3650d"
}
