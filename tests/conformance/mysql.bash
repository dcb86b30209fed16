# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's leases, for suite.bats.

# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/../mysql.bash"

FIFO=1
LEASES=1

backend_prepare() {
	URI=$MYSQL
}

# tables: whether dlock's tables exist, which are made at the first use
tables() {
	[[ $(my "SHOW TABLES LIKE 'dlock_%'") == *dlock_queue* ]]
}

# Only the fence may stay: no token, no unexpired lease, no holder and no waiter.
backend_nothing_left() {
	! tables || [[ -z $(my "
		SELECT 'held', name FROM dlock_locks WHERE name = '$LOCK' AND (token <> '' OR
			expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
		UNION ALL SELECT 'holder', name FROM dlock_holders WHERE name = '$LOCK'
		UNION ALL SELECT 'waiter', name FROM dlock_queue WHERE name = '$LOCK'") ]]
}

# Only waiters whose connections live count, for the connection holds a waiter's ticket.
backend_waiters() {
	if tables; then
		my "SELECT COUNT(*) FROM dlock_queue WHERE name = '$LOCK' AND
			IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(token), 40))) = 0"
	else
		echo 0
	fi
}

backend_wipe() {
	my 'DROP TABLE dlock_locks, dlock_holders, dlock_queue'
}
