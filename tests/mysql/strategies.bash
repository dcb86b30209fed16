# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # for the suites
#
# What the suites of MySQL's strategies share.

# shellcheck source=tests/mysql/mysql.bash
source "${BASH_SOURCE[0]%/*}/mysql.bash"

# The strategies whose locks live with a connection; those whose locks are rows with an end; all.
SESSIONS=(advisory row table)
ROWS=(lease insert shedlock)
ALL=("${ROWS[@]}" "${SESSIONS[@]}")

# on NAME [URI]: sets DLOCK_BACKEND to that strategy, and LOCK to a lock of its own
on() {
	STRATEGY=$1
	LOCK=test-$BATS_SUITE_TEST_NUMBER-$STRATEGY
	export LOCK
	if [[ $STRATEGY == shedlock ]]; then
		export DLOCK_BACKEND="${2:-$MYSQL}?dialect=shedlock"
	else
		export DLOCK_BACKEND="${2:-$MYSQL}?strategy=$STRATEGY"
	fi
	if [[ $STRATEGY == table ]]; then
		at_server "CREATE TABLE IF NOT EXISTS \`$LOCK\` (id INT PRIMARY KEY)"
	fi
}

# at_server SQL: runs SQL at the server of this test, or at that of the suite
at_server() {
	if [[ -n ${P_DIR-} ]]; then
		pmy "$@"
	else
		my "$@"
	fi
}

# connection_of_holder: sets CONNECTION to the number of the holder's connection
connection_of_holder() {
	CONNECTION=$(at_server "SELECT conn FROM dlock_entries WHERE name = '$LOCK' AND fence > 0")
	matches "$CONNECTION" '^[0-9]+$' "connection of the holder"
}

# lost [SECONDS]: dlock ends with 123 and says once that the lock was lost
lost() {
	join "$HOLDER" "${1:-8}"
	equal "$status" 123 "$STRATEGY: status ($(<"$HOLDER_ERR"))"
	equal "$(grep -c "^dlock: $LOCK: .*lost" "$HOLDER_ERR")" 1 \
		"$STRATEGY: lines about the loss: $(<"$HOLDER_ERR")"
	ended "$COMMAND"
}

# there ID: true when the server has that connection
there() {
	[[ $(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = $1") == 1 ]]
}

# queue N: true when N clients wait for $LOCK
queue() {
	[[ $(at_server "SELECT COUNT(*) FROM dlock_entries q WHERE name = '$LOCK' AND $WAITS") == "$1" ]]
}

# There is a table of waiters. Those for ShedLock's table are connections beside that of the holder.
queue_or_table() {
	case $STRATEGY in
	shedlock) [[ $(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER <> 'root' AND
		DB = '$MYSQL_DATABASE'") == $(($1 + 1)) ]] ;;
	*) queue "$1" ;;
	esac
}

# locks DIRECTORY SQL: another client of the server there executes SQL, and then its session stays open.
# Sets PID, and SESSION to its number.
locks() {
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$1/sock" --user=root --batch --skip-column-names --unbuffered \
		"$MYSQL_DATABASE" --execute="$2; SELECT 'session', CONNECTION_ID(); DO SLEEP(300)"
	wait_until 10 has_line "$OUT" '^session'
	SESSION=$(sed -n 's/^session\t//p' "$OUT")
}

# tries TABLE: true when a client waits until it may write to that table
tries() {
	(($(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE USER = '$MYSQL_USER' AND INFO LIKE '%INTO $1 %'") > 0))
}
