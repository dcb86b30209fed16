# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # for the suite
# The table of ShedLock, for run.bats. Waiters have no order, and are not woken but try again and again.
# shedlock_ask SQL asks the server. SHEDLOCK_TABLE is SQL that prints something where the table is there,
# SHEDLOCK_NOW the time now, and SHEDLOCK_PID the pid in locked_by.

FIFO=
LEASES=1
LACKS='shared slots names waiters'

# The row stays, but its lease has ended.
backend_nothing_left() {
	[[ $(backend_waiters) == 0 ]] || return 1
	if [[ -n $(shedlock_ask "$SHEDLOCK_TABLE") ]]; then
		[[ $(shedlock_ask "SELECT COUNT(*) FROM shedlock WHERE name = '$LOCK' AND lock_until > $SHEDLOCK_NOW") == 0 ]]
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
	for pid in $(shedlock_ask "SELECT $SHEDLOCK_PID FROM shedlock WHERE name = '$LOCK' AND lock_until > $SHEDLOCK_NOW" 2>/dev/null); do
		if [[ $(readlink "/proc/$pid/exe") == */dlock ]]; then
			count=$((count - 1))
		fi
	done
	echo "$count"
}

backend_wipe() {
	shedlock_ask 'DROP TABLE shedlock'
}
