# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What MySQL's strategies share whose locks live with a connection. The file that sources this one
# sets STRATEGY.

# shellcheck source=tests/mysql/mysql.bash
source "$TOP/tests/mysql/mysql.bash"

# Under `run` a lock has a lease: the keeper renews it, and the server ends a connection that is
# silent for a TTL. `acquire` leaves a keeper behind that has the connection.
FIFO=1
LEASES=1
if [[ $BATS_TEST_FILENAME == */acquire.bats ]]; then
	LEASES=
fi

backend_prepare() {
	URI="$MYSQL?strategy=$STRATEGY"
}

# There is no waiter and no entry whose time is not over, and the lock is free.
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	lock_is_free || return 1
	[[ $(entries "$STRATEGY" \
		"expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))") == 0 ]]
}

# Only waiters whose connections live count.
backend_waiters() {
	entries "$STRATEGY" "$WAITS"
}

# Nothing is left of the data, nor of the connections.
backend_wipe() {
	local id
	my "DROP TABLE dlock_names, dlock_entries"
	for id in $(my "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER'"); do
		# It may be gone by now.
		my "KILL $id" || true
	done
}
