# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's LOCK TABLES, for suite.bats. The server decides who is next.

FIFO=
STRATEGY=table
LACKS='slots names replace waiters'
# shellcheck source=tests/conformance/mysql-session.bash
source "${BASH_SOURCE[0]%/*}/mysql-session.bash"

# A table must exist to be locked.
backend_prepare() {
	local name
	URI="$MYSQL?strategy=$STRATEGY"
	for name in "$LOCK" "$LOCK-b"; do
		my "CREATE TABLE IF NOT EXISTS \`$name\` (id INT PRIMARY KEY)"
	done
}

lock_is_free() {
	my "LOCK TABLES \`$LOCK\` WRITE NOWAIT"
}
