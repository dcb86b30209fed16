# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's unique keys, for suite.bats. Nobody wakes a waiter, nobody knows who came first.

FIFO=
LEASES=1
LACKS='shared slots'
# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/../mysql.bash"

backend_prepare() {
	URI="$MYSQL?strategy=insert"
}

# only the fence may stay
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	if [[ -n $(my "SHOW TABLES LIKE 'dlock_inserts'") ]]; then
		[[ $(my "SELECT COUNT(*) FROM dlock_inserts WHERE name = '$LOCK'") == 0 ]]
	fi
}

# each says in a comment what it waits for
backend_waiters() {
	my "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('%/* dl', 'ock insert:', LOWER(HEX('$LOCK')), ' %')"
}

backend_wipe() {
	my "DROP TABLE dlock_inserts, dlock_fences"
}
