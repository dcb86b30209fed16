# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redisson's RLock, for run.bats. dlock's waiters get it in order.

FIFO=1
LEASES=1
LACKS='shared slots'
# shellcheck source=tests/redis/server.bash
source "$TOP/tests/redis/server.bash"

backend_prepare() {
	URI="$REDIS?dialect=redisson"
}

# leftovers: prints what is not a fence, and channels that somebody listens to
leftovers() {
	rcli --scan | grep -F -- "$LOCK" | grep -v '}:fence$'
	rcli pubsub channels "*$LOCK*"
}

backend_nothing_left() {
	rcli ping >"$T/pong" && [[ -z $(leftovers) ]]
}

backend_waiters() {
	rcli zcard "{$LOCK}:queue"
}

backend_wipe() {
	rcli flushall
}
