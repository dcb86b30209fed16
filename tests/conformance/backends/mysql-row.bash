# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's row locks, for run.bats.

STRATEGY=row
LACKS='slots waiters'
# shellcheck source=tests/conformance/backends/mysql-session.bash
source "${BASH_SOURCE[0]%/*}/mysql-session.bash"

lock_is_free() {
	if [[ -n $(my "SHOW TABLES LIKE 'dlock_rows'") ]]; then
		my "SELECT name FROM dlock_rows WHERE name = '$LOCK' FOR UPDATE NOWAIT"
	fi
}
