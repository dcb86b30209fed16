# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the suites of MySQL's leases share.

# shellcheck source=tests/mysql/mysql.bash
source "${BASH_SOURCE[0]%/*}/mysql.bash"

# SQL for the server's clock in the unit of the tables, µs since 1970.
UTC_US="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

# ask SQL: runs SQL at the server in the directory SERVER, by default that of the file
ask() {
	mysql_at "${SERVER-$MYSQL_DIR}" "$@"
}

# waiters N: N wait in the queue whose connections live
waiters() {
	[[ $(entries lease "$WAITS") == "$1" ]]
}

# sleepers N: N of them sleep in the server
sleepers() {
	[[ $(entries lease "fence = 0 AND EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p
		WHERE p.ID = q.conn AND p.INFO LIKE CONCAT('SELECT /* dlock sl', 'eep%'))") == "$1" ]]
}

# asleep N: N connections sleep in the server, whether an entry has them or not
asleep() {
	[[ $(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('SELECT /* dlock sl', 'eep%')") == "$1" ]]
}

# only_fences: the server has nothing of this lock but its fence
only_fences() {
	[[ $(entries lease 1) == 0 ]]
}

# lock_field COLUMN: sets VALUE to this column of the entry that holds
lock_field() {
	VALUE=$(ask "SELECT $1 FROM dlock_entries WHERE name = '$LOCK' AND fence > 0")
}

# connections: prints the ids of dlock's connections, one a line
connections() {
	ask "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER' ORDER BY ID"
}

# kill_connections: the server ends all connections of dlock. One may have ended by itself before.
kill_connections() {
	local id
	for id in $(connections); do
		ask "KILL $id" || [[ $'\n'$(connections)$'\n' != *$'\n'$id$'\n'* ]]
	done
}
