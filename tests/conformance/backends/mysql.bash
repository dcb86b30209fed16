# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's leases, for run.bats.

# shellcheck source=tests/mysql/mysql.bash
source "$TOP/tests/mysql/mysql.bash"

FIFO=1
LEASES=1
: "${STRATEGY:=lease}"

backend_prepare() {
	URI="$MYSQL?strategy=$STRATEGY"
}

# Only the fence may stay: no hold and no waiter.
backend_nothing_left() {
	[[ $(entries "$STRATEGY" 1) == 0 ]]
}

# Only waiters whose connections live count.
backend_waiters() {
	entries "$STRATEGY" "$WAITS"
}

backend_wipe() {
	my 'DROP TABLE dlock_names, dlock_entries'
}
