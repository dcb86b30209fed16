# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Redlock on five nodes, for run.bats. Waiters have no order.

FIFO=
LEASES=1
LACKS='shared slots'
# The nodes vote for no TTL that is longer than they say that they have been up.
LONGEST_HOURS=11
# shellcheck source=tests/redlock/redlock.bash
source "$TOP/tests/redlock/redlock.bash"

setup_file() {
	redlock_for_file
}

teardown_file() {
	redlock_file_end
}

backend_prepare() {
	URI=$REDLOCK
}

backend_nothing_left() {
	nothing_on_nodes
}

backend_waiters() {
	redlock_waiters
}

# A renewal between two nodes would set the lock again on the first one.
backend_wipe() {
	[[ -z ${KEEPER-} ]] || kill -STOP "$KEEPER"
	everywhere flushall
	[[ -z ${KEEPER-} ]] || kill -CONT "$KEEPER"
}
