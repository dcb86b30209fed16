# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the strategies of MySQL have in common whose locks live with a connection. STRATEGY
# is set by who sources this.

# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/../mysql.bash"

# The keeper renews, and the server ends a connection that is silent for a TTL, but nothing
# of that is stored: a keeper stays.
LEASES=1
if [[ $BATS_TEST_FILENAME == */conformance-acquire-* ]]; then
	LEASES=
fi

backend_prepare() {
	URI="$MYSQL?strategy=$STRATEGY"
}

# no waiter, nobody who shares it, and it is free
backend_nothing_left() {
	[[ $(backend_waiters) == 0 && $(sharers) == 0 ]] && lock_is_free
}

sharers() {
	if [[ -n $(my "SHOW TABLES LIKE 'dlock_sessions'") ]]; then
		my "SELECT COUNT(*) FROM dlock_sessions WHERE name = '$LOCK' AND sharer > ''"
	else
		echo 0
	fi
}

# each says in a comment what it waits for
backend_waiters() {
	my "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('%/* dl', 'ock $STRATEGY:', LOWER(HEX('$LOCK')), ' %')"
}

# as a server that was made anew: what is there, and who is connected
backend_wipe() {
	local id
	my "DROP TABLE dlock_sessions"
	for id in $(my "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER'"); do
		my "KILL $id"
	done
}
