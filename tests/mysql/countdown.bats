# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The workload that a lock must pass, with the number in the database itself, on every
# strategy of MySQL; and without a single deadlock.

load ../lib/helpers
load mysql

deadlocks() {
	mysql_at "$1" "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
}

# countdown PARAMETER: 41 processes, 40 at once
countdown() {
	local n all=()
	export DLOCK_BACKEND="$MYSQL?$1&connect-timeout=60s"
	my "DROP TABLE IF EXISTS countdown;
		CREATE TABLE countdown (number INT NOT NULL);
		INSERT INTO countdown VALUES (40);
		CREATE TABLE IF NOT EXISTS \`$LOCK\` (id INT PRIMARY KEY)"
	"$DLOCK" setup
	for n in {0..40}; do
		start "$DLOCK" run -t 60s "$LOCK" -- \
			"$TOP/tests/conformance/countdown-mysql" "$MYSQL_DIR/sock" log
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 90
		equal "$status" 0 "status of one"
	done
	diff <(seq 40 -1 0) log
	equal "$(deadlocks "$MYSQL_DIR")" 0 deadlocks
	not grep -q 'LATEST DETECTED DEADLOCK' <(my 'SHOW ENGINE INNODB STATUS')
	is_free
}

# bats test_tags=more
@test "countdown in a row: lease" {
	countdown strategy=lease
}

# bats test_tags=more
@test "countdown in a row: insert" {
	countdown strategy=insert
}

# bats test_tags=more
@test "countdown in a row: row" {
	countdown strategy=row
}

# For these two, as for row, a door stands before the entries.
# bats test_tags=more
@test "countdown in a row: advisory" {
	countdown strategy=advisory
}

# bats test_tags=more
@test "countdown in a row: table" {
	countdown strategy=table
}

# bats test_tags=more
@test "countdown in a row: shedlock" {
	countdown dialect=shedlock
}

# bats test_tags=more
@test "a deadlock shows in the number that the countdowns look at" {
	private_mysql
	pmy "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" --user=root "$MYSQL_DATABASE" --execute="
		START TRANSACTION; SELECT * FROM t WHERE id = 1 FOR UPDATE; DO SLEEP(0.7);
		SELECT * FROM t WHERE id = 2 FOR UPDATE"
	pmy "START TRANSACTION; SELECT * FROM t WHERE id = 2 FOR UPDATE; DO SLEEP(0.7);
		SELECT * FROM t WHERE id = 1 FOR UPDATE" || true
	join "$PID"
	equal "$(deadlocks "$P_DIR")" 1
}
