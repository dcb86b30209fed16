# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redisson's RLock, for suite.bats. Whoever tries first gets the lock: nobody stands in line.

FIFO=
LEASES=1
LACKS='shared slots replace'
# shellcheck source=tests/redis-server.bash
source "${BASH_SOURCE[0]%/*}/../redis-server.bash"

backend_prepare() {
	URI="$REDIS?dialect=redisson"
}

# leftovers: prints what is not a fence, and channels that somebody listens to
leftovers() {
	rcli --scan | grep -F -- "$LOCK" | grep -v ':dlock.fence$'
	rcli pubsub channels "*$LOCK*"
}

backend_nothing_left() {
	rcli ping >"$T/pong" && [[ -z $(leftovers) ]]
}

CHANNEL=redisson_lock__channel

# Those that have been killed are noted for a while; `dlock wait` listens, too, and is not noted.
backend_waiters() {
	local noted listening
	noted=$(rcli hkeys "{$LOCK}:dlock" | grep -c '^w:')
	listening=$(rcli pubsub numsub "$CHANNEL:{$LOCK}" | tail -n 1)
	echo $((noted < listening ? noted : listening))
}

backend_wipe() {
	rcli flushall
}
