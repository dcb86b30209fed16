# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the suites of MySQL's leases share.

# shellcheck source=tests/mysql.bash
source "${BASH_SOURCE[0]%/*}/mysql.bash"

# SQL for the server's clock in the unit of the tables, µs since 1970.
UTC_US="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

# ask SQL: runs SQL at the server in the directory SERVER, by default that of the file
ask() {
	mysql_at "${SERVER-$MYSQL_DIR}" "$@"
}

# waiters N: N wait in line whose connections live, for the connection holds a waiter's ticket
waiters() {
	[[ $(ask "SELECT COUNT(*) FROM dlock_queue WHERE name = '$LOCK' AND
		IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(token), 40))) = 0" 2>&1) == "$1" ]]
}

# only_fences: the server has nothing of this lock but its fence
only_fences() {
	[[ -z $(ask "
		SELECT name FROM dlock_locks WHERE name = '$LOCK' AND (token <> '' OR expires > $UTC_US)
		UNION ALL SELECT name FROM dlock_holders WHERE name = '$LOCK'
		UNION ALL SELECT name FROM dlock_queue WHERE name = '$LOCK'" 2>&1) ]]
}

# lock_field COLUMN: sets VALUE to this column of the lock's row
lock_field() {
	VALUE=$(ask "SELECT $1 FROM dlock_locks WHERE name = '$LOCK'")
}

# connections: prints the ids of dlock's connections, one a line
connections() {
	ask "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER' ORDER BY ID"
}

# kill_connections: the server ends all connections of dlock
kill_connections() {
	local id
	for id in $(connections); do
		ask "KILL $id"
	done
}

# refused REGEX URI [OPTION]...: dlock says why in one line that matches REGEX, runs nothing, and
# ends with 122
refused() {
	local regex=$1 uri=$2
	shift 2
	timed "$DLOCK" run -b "$uri" "$@" "$LOCK" -- touch ran
	equal "$status" 122
	equal "$output" ""
	one_line "$regex"
	[[ ! -e ran ]]
}
