# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's unique keys, for suite.bats. Waiters have no order, and are not
# woken but try again and again.

FIFO=
LEASES=1
LACKS='shared slots replace'
# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/../mysql.bash"

backend_prepare() {
	URI="$MYSQL?strategy=insert"
}

# Only the fence may stay.
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	if [[ -n $(my "SHOW TABLES LIKE 'dlock_inserts'") ]]; then
		[[ $(my "SELECT COUNT(*) FROM dlock_inserts WHERE name = '$LOCK'") == 0 ]]
	fi
}

# The statement that a waiter runs has a comment with the lock's name.
backend_waiters() {
	my "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('%/* dl', 'ock insert:', LOWER(HEX('$LOCK')), ' %')"
}

backend_wipe() {
	my "DROP TABLE dlock_inserts, dlock_fences"
}
