# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Processes: which there are, starting one, waiting for its end.

# proc_stat PID: sets PROC_COMM, PROC_STATE, PROC_PPID, PROC_PGRP; fails when gone.
proc_stat() {
	local line rest
	{ read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
	[[ -n $line ]] || return 1
	PROC_COMM=${line#*\(}
	PROC_COMM=${PROC_COMM%\)*}
	rest=${line##*\) }
	# shellcheck disable=SC2034 # for the caller
	read -r PROC_STATE PROC_PPID PROC_PGRP _ <<<"$rest"
}

# alive PID...: all these processes exist, and none is a zombie
alive() {
	local pid
	for pid; do
		proc_stat "$pid" && [[ $PROC_STATE != [ZX] ]] || return 1
	done
}

# ended PID...: none of these processes is alive
ended() {
	local pid
	for pid; do
		if alive "$pid"; then
			return 1
		fi
	done
}

# cpu_of PID: sets CPU, the ticks of processor time that the process has used
cpu_of() {
	CPU=$(sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }')
}

# idles PID: this process lives, and uses next to no processor time during a second
idles() {
	local before
	cpu_of "$1"
	before=$CPU
	pause 1
	alive "$1"
	cpu_of "$1"
	between $((CPU - before)) 0 10 "ticks of $PROC_COMM in 1 s"
}

# not_ours PID: this child of the test has ended, though another process may have its number now
not_ours() {
	! alive "$1" || ((PROC_PPID != $$))
}

stopped() {
	proc_stat "$1" && [[ $PROC_STATE == T ]]
}

# processes: prints "PID PPID COMM" of every process that is no zombie. One awk reads them all,
# because a loop in bash would take a second.
processes() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk '{
		match($0, /\(.*\) /)
		split(substr($0, RSTART + RLENGTH), field, " ")
		if (field[1] !~ /[ZX]/)
			print $1, field[2], substr($0, RSTART + 1, RLENGTH - 3)
	}'
}

# child PID [COMM]: sets CHILD to the (first) child of PID with that name
child() {
	CHILD=$(processes | awk -v parent="$1" -v name="${2-}" '
		$2 == parent && (name == "" || $3 == name) { print $1; exit }')
	[[ -n $CHILD ]]
}

# tree PID: prints the pids of its living descendants, one a line. A child of the guard that is
# still called dlock-guard or dlock-command is left out: it is about to become the command.
tree() {
	processes | awk -v root="$1" '
		{ parent[$1] = $2; name[$1] = $3 }
		END {
			for (pid in parent) {
				if (name[pid] ~ /^dlock-(guard|command)$/ && name[parent[pid]] == "dlock-guard")
					continue
				for (up = parent[pid]; up in parent && up != root;)
					up = parent[up]
				if (up == root)
					print pid
			}
		}'
}

# keeper_of PID, guard_of PID: wait for this process of the dlock that was started as PID
keeper_of() {
	wait_until 5 child "$1" dlock-keeper && KEEPER=$CHILD
}

guard_of() {
	wait_until 5 child "$1" dlock-guard && GUARD=$CHILD
}

# start COMMAND [ARG]...: runs COMMAND in the background, with /dev/null as standard input, and with
# the default action for INT and QUIT, as a job in the foreground has it. Sets PID, and OUT and
# ERR to the files that its output goes to.
start() {
	((++STARTED_COUNT))
	OUT=$T/out.$STARTED_COUNT
	ERR=$T/err.$STARTED_COUNT
	env --default-signal=INT,QUIT "$@" </dev/null >"$OUT" 2>"$ERR" 3>&- 4>&- &
	PID=$!
	STARTED+=("$PID")
}

# join PID [SECONDS]: waits for the end of a process; sets status as `run` does
join() {
	wait_until "${2:-10}" ended "$1" || fail "process $1 did not end"
	status=0
	wait "$1" || status=$?
}

# wait_in_line N [OPTION]... -- COMMAND...: starts a waiter, and returns when it is the Nth in line, as
# the function `waiters` of the suite sees it
wait_in_line() {
	local n=$1 options=()
	shift
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	start "$DLOCK" run "${options[@]}" "$LOCK" "$@"
	wait_until 20 waiters "$n"
}

# has_line FILE REGEX
has_line() {
	grep -Eqs -- "$2" "$1"
}

# line FILE [SECONDS]: waits until FILE has a whole first line; sets LINE to it
line() {
	wait_until "${2:-10}" has_line "$1" '' && read -r LINE <"$1"
}

# strays: pids of all processes that carry this test's mark in their environment
strays() {
	local file pid
	while read -r file; do
		pid=${file#/proc/}
		pid=${pid%/environ}
		if alive "$pid"; then
			echo "$pid"
		fi
	done < <(marked)
}

# marked: prints the path /proc/PID/environ of each of them, and of zombies. Processes that are older
# than the test have lower pids, unless the kernel has begun again with the lowest.
marked() {
	local file pid files=()
	for file in /proc/[0-9]*/environ; do
		pid=${file#/proc/}
		((BASHPID > $$ && ${pid%/environ} < $$)) || files+=("$file")
	done
	# without the mark for grep itself
	DLOCK_TEST_MARK='' grep -lzsxF -- "DLOCK_TEST_MARK=$MARK" "${files[@]}"
}

no_strays() {
	[[ -z $(strays) ]]
}

# no_strays_but PID...: exactly these processes carry the mark
no_strays_but() {
	local found
	# before sort runs, which has the mark, too
	found=$(strays)
	[[ $(sort <<<"$found") == "$(printf '%s\n' "$@" | sort)" ]]
}
