# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # for shedlock.bash
# The table of ShedLock in PostgreSQL, for run.bats.

# shellcheck source=tests/postgres/postgres.bash
source "$TOP/tests/postgres/postgres.bash"
# shellcheck source=tests/conformance/backends/shedlock.bash
source "$TOP/tests/conformance/backends/shedlock.bash"

SHEDLOCK_TABLE="SELECT to_regclass('shedlock')"
SHEDLOCK_NOW="timezone('utc', clock_timestamp())"
SHEDLOCK_PID="split_part(split_part(locked_by, '&pid=', 2), '&', 1)"

shedlock_ask() {
	pg "$1"
}

backend_prepare() {
	URI="$POSTGRES?dialect=shedlock"
}
