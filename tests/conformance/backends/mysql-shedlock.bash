# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # for shedlock.bash
# The table of ShedLock in MySQL, for run.bats.

# shellcheck source=tests/mysql/mysql.bash
source "$TOP/tests/mysql/mysql.bash"
# shellcheck source=tests/conformance/backends/shedlock.bash
source "$TOP/tests/conformance/backends/shedlock.bash"

SHEDLOCK_TABLE="SHOW TABLES LIKE 'shedlock'"
SHEDLOCK_NOW="UTC_TIMESTAMP(3)"
SHEDLOCK_PID="SUBSTRING_INDEX(SUBSTRING_INDEX(locked_by, '&pid=', -1), '&', 1)"

shedlock_ask() {
	my "$1"
}

backend_prepare() {
	URI="$MYSQL?dialect=shedlock"
}
