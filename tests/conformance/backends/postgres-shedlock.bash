# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The table of ShedLock in PostgreSQL, for run.bats. Waiters have no order, and are not woken but try
# again and again.

FIFO=
LEASES=1
LACKS='shared slots names waiters'
# shellcheck source=tests/postgres/postgres.bash
source "$TOP/tests/postgres/postgres.bash"

backend_prepare() {
	URI="$POSTGRES?dialect=shedlock"
}

# The row stays, but its lease has ended.
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	if [[ -n $(pg "SELECT to_regclass('shedlock')") ]]; then
		[[ $(pg "SELECT count(*) FROM shedlock WHERE name = '$LOCK' AND
			lock_until > timezone('utc', clock_timestamp())") == 0 ]]
	fi
}

# The table has no waiters. Each process that waits, or that holds for a command, has a keeper in the
# directory of the test; a daemon has left it, and `dlock wait` has none.
backend_waiters() {
	local count=0 pid
	for pid in $(pgrep -x dlock-keeper); do
		# Without a process for each keeper: other suites may run a hundred.
		if [[ /proc/$pid/cwd -ef $T ]]; then
			count=$((count + 1))
		fi
	done
	for pid in $(pg "SELECT split_part(split_part(locked_by, '&pid=', 2), '&', 1) FROM shedlock
		WHERE name = '$LOCK' AND lock_until > timezone('utc', clock_timestamp())" 2>/dev/null); do
		if [[ $(readlink "/proc/$pid/exe") == */dlock ]]; then
			count=$((count - 1))
		fi
	done
	echo "$count"
}

backend_wipe() {
	pg 'DROP TABLE shedlock'
}
