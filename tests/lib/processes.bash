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
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	read -ra stat <<<"${stat##*) }"
	CPU=$((stat[11] + stat[12]))
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

# of_this_bats PID: the process is alive and was started by this bats. A minute after its end another process may
# have its pid.
of_this_bats() {
	alive "$1" || return
	if ! grep -qzsxF "BATS_RUN_TMPDIR=$BATS_RUN_TMPDIR" "/proc/$1/environ"; then
		[[ $(readlink "/proc/$1/cwd") == "$BATS_RUN_TMPDIR"/* ]]
	fi
}

stopped() {
	proc_stat "$1" && [[ $PROC_STATE == T ]]
}

# children PID: sets CHILDREN to the pids of its children
children() {
	CHILDREN=()
	# The line has no end, so that read fails.
	{ read -ra CHILDREN <"/proc/$1/task/$1/children"; } 2>/dev/null || :
}

# child PID [COMM]: sets CHILD to the (first) living child of PID with that name
child() {
	children "$1"
	for CHILD in "${CHILDREN[@]}"; do
		if alive "$CHILD" && [[ -z ${2-} || $PROC_COMM == "$2" ]]; then
			return 0
		fi
	done
	return 1
}

# tree PID: prints the pids of its living descendants, one a line. A child of the guard that is
# still called dlock-guard or dlock-command is left out: it is about to become the command.
tree() {
	local pid parent
	proc_stat "$1" && parent=$PROC_COMM || return 0
	children "$1"
	for pid in "${CHILDREN[@]}"; do
		if alive "$pid" && [[ $parent != dlock-guard || $PROC_COMM != dlock-@(guard|command) ]]; then
			echo "$pid"
		fi
		tree "$pid"
	done
}

# keeper_of PID, guard_of PID: wait for this process of the dlock that was started as PID
keeper_of() {
	wait_until 5 child "$1" dlock-keeper && KEEPER=$CHILD
}

guard_of() {
	wait_until 5 child "$1" dlock-guard && GUARD=$CHILD
}

# start COMMAND [ARG]...: runs COMMAND in the background, with /dev/null as standard input, and with
# the default action for INT and QUIT, as a job in the foreground has it, and for HUP, which nohup(1)
# takes from the tests. Sets PID, and OUT and ERR to the files that its output goes to.
start() {
	((++STARTED_COUNT))
	OUT=$T/out.$STARTED_COUNT
	ERR=$T/err.$STARTED_COUNT
	env --default-signal=HUP,INT,QUIT "$@" </dev/null >"$OUT" 2>"$ERR" 3>&- 4>&- &
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
	local line
	[[ -r $1 ]] || return 1
	while IFS= read -r line || [[ -n $line ]]; do
		[[ ! $line =~ $2 ]] || return 0
	done <"$1"
	return 1
}

# line FILE [SECONDS]: waits until FILE has a whole first line; sets LINE to it
line() {
	wait_until "${2:-10}" has_line "$1" '' && read -r LINE <"$1"
}

# find_strays: sets STRAYS to the pids of all processes that carry this test's mark in their environment.
# Processes that are older than the test have lower pids, unless the kernel has begun again with the
# lowest.
find_strays() {
	local last file pid variables IFS=' '
	STRAYS=()
	read -r _ _ _ _ last </proc/loadavg
	for file in /proc/[0-9]*/environ; do
		pid=${file//[^0-9]/}
		((pid > $$ || last < $$)) || continue
		{ mapfile -td '' variables <"$file"; } 2>/dev/null || continue
		if [[ " ${variables[*]} " == *" DLOCK_TEST_MARK=$MARK "* ]] && alive "$pid"; then
			STRAYS+=("$pid")
		fi
	done
}

# strays: prints them, one a line
strays() {
	find_strays
	printf '%s\n' "${STRAYS[@]}"
}

no_strays() {
	find_strays
	((${#STRAYS[@]} == 0))
}

# no_strays_but PID...: exactly these processes carry the mark
no_strays_but() {
	local pid
	find_strays
	((${#STRAYS[@]} == $#)) || return 1
	for pid; do
		[[ " ${STRAYS[*]} " == *" $pid "* ]] || return 1
	done
}
