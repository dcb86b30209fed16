# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's LOCK TABLES, for run.bats.

STRATEGY=table
LACKS='slots names waiters'
# shellcheck source=tests/conformance/backends/mysql-session.bash
source "${BASH_SOURCE[0]%/*}/mysql-session.bash"

# A table must exist to be locked.
backend_prepare() {
	local name
	URI="$MYSQL?strategy=$STRATEGY"
	for name in "$LOCK" "$LOCK-a" "$LOCK-b" "$LOCK-c"; do
		my "CREATE TABLE IF NOT EXISTS \`$name\` (id INT PRIMARY KEY)"
	done
}

lock_is_free() {
	# Oracle's server has no NOWAIT here.
	my "SET SESSION lock_wait_timeout = 1; LOCK TABLES \`$LOCK\` WRITE"
}
