# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The table of ShedLock, for suite.bats. Waiters have no order, and are not
# woken but try again and again.

FIFO=
LEASES=1
LACKS='shared slots names kept replace'
# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/../mysql.bash"

backend_prepare() {
	URI="$MYSQL?dialect=shedlock"
}

# The row stays, but its lease has ended.
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	if [[ -n $(my "SHOW TABLES LIKE 'shedlock'") ]]; then
		[[ $(my "SELECT COUNT(*) FROM shedlock
			WHERE name = '$LOCK' AND lock_until > UTC_TIMESTAMP(3)") == 0 ]]
	fi
}

# The statement that a waiter runs has a comment with the lock's name.
backend_waiters() {
	my "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('%/* dl', 'ock shedlock:', LOWER(HEX('$LOCK')), ' %')"
}

backend_wipe() {
	my "DROP TABLE shedlock"
}
