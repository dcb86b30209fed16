# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redis over TCP, for run.bats.

FIFO=1
LEASES=1
# shellcheck disable=SC2034 # for common.bash
# shellcheck source=tests/redis/server.bash
source "$TOP/tests/redis/server.bash"

backend_prepare() {
	URI=$REDIS
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
	rcli zcard "{$KEY}:queue"
}

backend_wipe() {
	rcli flushall
}
