# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What ends a command that holds its lock, or lets it go on: --max-run, --until and --leftovers; and
# what follows when the lock is lost: --on-lost-run. Most tests run with a lock in a directory, which
# has no keeper and no lease, and with one on Redis.

load ../lib/helpers
load ../redis/server

# on_both FUNCTION: calls it with DLOCK_BACKEND set to either backend
on_both() {
	local backend
	for backend in "$FILE" "$REDIS"; do
		export DLOCK_BACKEND=$backend
		"$@"
	done
}

# stop_all: stops all processes of the holder's dlock
stop_all() {
	guard_of "$HOLDER"
	STOPPED=("$HOLDER" "$GUARD")
	if [[ $DLOCK_BACKEND == redis:* ]]; then
		keeper_of "$HOLDER"
		STOPPED+=("$KEEPER")
	fi
	kill -STOP "${STOPPED[@]}"
}

# ---- --max-run

runs_too_long() {
	timed "$DLOCK" run --max-run 500ms -k 300ms "$LOCK" -- "$TOOLS/witness" -i -l log
	equal "$status" 121
	one_line '^dlock: test-[0-9]+: the 0\.5s of --max-run are over; stopping the command$'
	took "$MS" 790 4000
	has_line log ' TERM$'
	is_free
}

@test "--max-run: TERM, then KILL after --kill-after, status 121, the lock is free" {
	on_both runs_too_long
}

ends_on_term() {
	timed "$DLOCK" run --max-run 500ms -t 4h -k 1h "$LOCK" -- sh -c '
		trap "exit 7" TERM
		"$TOOLS/daemonize" -c -p daemon "$TOOLS/witness" -l log
		while :; do sleep 0.05; done'
	equal "$status" 121
	took "$MS" 490 5000
	ended "$(<daemon)"
	is_free
}

# bats test_tags=more
@test "--max-run: 121 also for a command that ends by itself on TERM; its daemons end with it" {
	on_both ends_on_term
}

ends_in_time() {
	run --separate-stderr -7 "$DLOCK" run --max-run 1h "$LOCK" -- sh -c 'exit 7'
	equal "$stderr" ""
	# The time to wait does not count, and what --kill-after allows comes on top.
	hold --
	start "$DLOCK" run --max-run 2s "$LOCK" -- sh -c 'exit 8'
	holds_for 2500 alive "$PID"
	release
	join "$PID"
	equal "$status" 8
}

@test "--max-run: a command that ends in time has its own status; waiting does not count" {
	on_both ends_in_time
}

# bats test_tags=more
@test "--max-run ends a command that is stopped" {
	timed "$DLOCK" run --max-run 500ms -t 1m -k 20s "$LOCK" -- \
		sh -c 'trap "echo term; exit 0" TERM; kill -STOP $$; while :; do sleep 0.05; done'
	equal "$status $output" "121 term"
	took "$MS" 490 5000
}

stopped_job() {
	hold_as_job --max-run 3s -k 300ms -- "$TOOLS/witness" -i -l log
	kill -STOP -- "-$HOLDER"
	wait_until 8 ended "$COMMAND"
	# The supervisor has no part in this: the lock is free while it is stopped.
	wait_until 5 is_free
	stopped "$HOLDER"
	kill -CONT -- "-$HOLDER"
	join "$HOLDER"
	equal "$status" 121
}

# bats test_tags=more
@test "--max-run: dlock's process group is stopped: the command ends in time, the lock is free" {
	on_both stopped_job
}

stopped_all() {
	hold --max-run 3s -k 300ms -- "$TOOLS/witness" -i -l log
	stop_all
	wait_until 8 ended "$COMMAND"
	kill -CONT "${STOPPED[@]}" 2>/dev/null || :
	join "$HOLDER"
	equal "$status" 121
	is_free
}

@test "--max-run: all of dlock is stopped: the command ends in time" {
	on_both stopped_all
}

stopped_early() {
	rm -f log
	STOP_PARENTS=yes LD_PRELOAD=$BUILD/tests/preload/early_stop.so start \
		"$DLOCK" run --max-run 1s -k 300ms "$LOCK" -- env -u LD_PRELOAD "$TOOLS/witness" -i -l log
	wait_until 5 has_line log ' TERM$'
	wait_until 5 is_free
	kill -CONT "$PID"
	join "$PID"
	equal "$status" 121
}

@test "--max-run: all of dlock is stopped before the command begins: the command ends in time" {
	on_both stopped_early
}

# bats test_tags=more
@test "--max-run: with --contain, and without the lock" {
	run --separate-stderr -121 "$DLOCK" run --contain --max-run 500ms -k 300ms "$LOCK" -- \
		sh -c '"$TOOLS/witness" -i -l log & wait'
	one_line '--max-run'
	run --separate-stderr -121 "$DLOCK" run -b redis://127.0.0.1:1 --if-down run --max-run 500ms \
		"$LOCK" -- sleep 300
	matches "$stderr" '--max-run'
}

# bats test_tags=more
@test "--max-run of a run inside a run: the inner one ends with 121, the outer one goes on" {
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- sh -c '
		"$DLOCK" run --max-run 300ms "$LOCK" -- sleep 300
		echo "inner: $?"'
	equal "$output" "inner: 121"
	run --separate-stderr -121 "$DLOCK" run --max-run 300ms "$LOCK" -- \
		"$DLOCK" run "$LOCK" -- sleep 300
	is_free
}

# bats test_tags=more
@test "a lock that is lost while --max-run stops the command is lost: 123" {
	export DLOCK_BACKEND=$REDIS
	hold -t 6s --max-run 300ms -k 2s -- "$TOOLS/witness" -i -l log
	wait_until 5 has_line "$HOLDER_ERR" --max-run
	"$DLOCK" break -q --yes "$LOCK"
	join "$HOLDER"
	equal "$status" 123
}

# ---- --until

until_noon() {
	local TZ
	TZ=$(noon 2)
	export TZ
	timed "$DLOCK" run --until 12:00 -k 300ms "$LOCK" -- "$TOOLS/witness" -i -l log
	equal "$status" 121
	one_line '^dlock: test-[0-9]+: the time of --until has come; stopping the command$'
	took "$MS" 1000 6000
	# One minute before noon is tomorrow.
	run --separate-stderr -0 "$DLOCK" run --until 11:59 "$LOCK" -- sleep 0.3
	equal "$stderr" ""
}

@test "--until: the command is stopped at that time of day, with status 121" {
	on_both until_noon
}

# bats test_tags=more
@test "--until: a wait ends then, too; the shorter one of the two limits counts" {
	export TZ
	hold --
	TZ=$(noon 2)
	timed "$DLOCK" run --until 12:00 -w 1h "$LOCK" -- touch ran
	equal "$status" 124
	took "$MS" 1000 6000
	TZ=$(noon 3600)
	timed "$DLOCK" run --until 12:00 -w 2s "$LOCK" -- touch ran
	equal "$status" 124
	took "$MS" 1990 4800
	[[ ! -e ran ]]
	release
	run --separate-stderr -121 "$DLOCK" run --until 12:00 --max-run 300ms "$LOCK" -- sleep 300
	one_line '--max-run'
}

stopped_at_noon() {
	TZ=$(noon 5) hold --until 12:00 -k 300ms -- "$TOOLS/witness" -i -l log
	stop_all
	wait_until 10 ended "$COMMAND"
	kill -CONT "${STOPPED[@]}" 2>/dev/null || :
	join "$HOLDER"
	equal "$status" 121
}

# bats test_tags=more
@test "--until: all of dlock is stopped: the command ends at that time" {
	on_both stopped_at_noon
}

# ---- --leftovers

# hold_leftover [OPTION]...: a run with --leftovers wait, whose command has ended with status 6 and
# left a daemon behind. Sets HOLDER and DAEMON; the daemon logs to ./log.
hold_leftover() {
	rm -f log
	hold -v --leftovers wait "$@" -- sh -c '
		"$TOOLS/daemonize" -c "$TOOLS/witness" ${WITNESS-} -l log
		while ! grep -qs alive log; do sleep 0.01; done
		exit 6'
	wait_until 10 has_line "$HOLDER_ERR" 'has ended and left 1 process running; keeping the lock'
	# In a namespace it knows itself by another number.
	DAEMON=$(tree "$HOLDER" | while read -r pid; do
		if proc_stat "$pid" && [[ $PROC_COMM == witness ]]; then
			echo "$pid"
		fi
	done)
	alive "$DAEMON"
}

waits_for_leftovers() {
	hold_leftover -t 3s
	# Longer than the lease.
	holds_for 4500 is_held
	alive "$HOLDER" "$DAEMON"
	kill -KILL "$DAEMON"
	join "$HOLDER"
	equal "$status" 6
	is_free
}

@test "--leftovers wait: the lock is kept until a daemon ends by itself; the status is the command's" {
	on_both waits_for_leftovers
}

ends_leftovers() {
	run --separate-stderr -6 "$DLOCK" run "$@" "$LOCK" -- sh -c 'sleep 300 & exit 6'
	one_line 'the command left 1 process running; ending it'
	is_free
}

@test "--leftovers kill is the default" {
	on_both ends_leftovers
	on_both ends_leftovers --leftovers kill
	run --separate-stderr -125 "$DLOCK" run --leftovers keep "$LOCK" -- touch ran
	one_line "--leftovers: 'keep' is not one of kill|wait|leave"
}

# bats test_tags=more
@test "--leftovers wait: a command that leaves nothing ends as ever" {
	timed "$DLOCK" run --leftovers wait "$LOCK" -- sh -c 'sleep 0.1 & wait; exit 4'
	equal "$status$stderr" 4
	took "$MS" 0 3000
}

signals_reach_leftovers() {
	hold_leftover
	kill -TERM "$HOLDER"
	join "$HOLDER"
	# Nobody has killed it: dlock passes signals on, and no more.
	equal "$status" 6
	is_free
}

# bats test_tags=more
@test "--leftovers wait: signals to dlock go to what the command has left" {
	on_both signals_reach_leftovers
	hold_leftover --contain
	kill -TERM "$HOLDER"
	join "$HOLDER"
	equal "$status" 6
	export WITNESS=-i
	hold_leftover
	kill -INT "$HOLDER"
	wait_until 5 has_line log ' INT$'
	holds_for 300 alive "$HOLDER" "$DAEMON"
	kill -KILL "$DAEMON"
	join "$HOLDER"
	equal "$status" 6
}

# bats test_tags=more
@test "--leftovers wait: Ctrl-Z stops dlock alone, which keeps the lock and goes on" {
	hold_leftover
	kill -TSTP "$HOLDER"
	wait_until 5 stopped "$HOLDER"
	is_held
	not stopped "$DAEMON"
	kill -CONT "$HOLDER"
	wait_until 5 not stopped "$HOLDER"
	holds_for 300 is_held
	kill -KILL "$DAEMON"
	join "$HOLDER"
	equal "$status" 6
}

limited_leftovers() {
	export WITNESS=-i
	hold_leftover --max-run 3s -k 300ms
	join "$HOLDER"
	equal "$status" 121
	has_line "$HOLDER_ERR" 'the 3s of --max-run are over; stopping what the command has left running$'
	ended "$DAEMON"
	has_line log ' TERM$'
	is_free
}

@test "--leftovers wait: --max-run ends what the command has left, with 121" {
	on_both limited_leftovers
}

loses_leftovers() {
	export WITNESS=-i
	hold_leftover -t 2s -k 300ms "$@"
	"$DLOCK" break -q --yes "$LOCK"
	join "$HOLDER"
	equal "$status" 123
	has_line "$HOLDER_ERR" 'lock lost: .*; stopping what the command has left running$'
	ended "$DAEMON"
}

# bats test_tags=more
@test "--leftovers wait: what the command has left is ended when the lock is lost, with 123" {
	on_both loses_leftovers
	on_both loses_leftovers --contain
}

@test "--leftovers wait: all of dlock is stopped: what is left is dead before another has the lock" {
	local options
	export DLOCK_BACKEND=$REDIS WITNESS=-i
	for options in '' --contain; do
		# A long lease, because a slow machine may need time even for KILL.
		# shellcheck disable=SC2086 # none, or one
		hold_leftover -t 6s -k 500ms $options
		contend "$DAEMON"
		stop_all
		met_nobody
		kill -CONT "${STOPPED[@]}" 2>/dev/null || :
		join "$HOLDER"
		matches "$status" '^(123|6)$'
	done
}

killed_with_leftovers() {
	hold_leftover -t 3s
	contend "$DAEMON"
	kill -KILL "$HOLDER"
	met_nobody
	hold_leftover -t 3s
	guard_of "$HOLDER"
	contend "$DAEMON"
	kill -KILL "$GUARD"
	met_nobody
	join "$HOLDER"
	equal "$status" 6
}

# bats test_tags=more
@test "--leftovers wait: kill -9 of dlock, or of the guard: what is left dies, then the lock is free" {
	export WITNESS=-i
	on_both killed_with_leftovers
}

# ---- --on-lost-run

# What the shell finds: is the command dead, its token gone, and the lock to be had?
TELL='
	{
		echo "$DLOCK_NAME $DLOCK_FENCE ${DLOCK_TOKEN-none} $DLOCK_BACKEND"
		echo "$DLOCK_REASON"
		kill -0 "$(cat pid)" 2>/dev/null && echo overlap || echo alone
		wc -c </dev/stdin
		"$DLOCK" run -w 5s "$DLOCK_NAME" -- echo mine
	} >told.new 2>&1
	mv told.new told'

lost_by_break() {
	rm -f told
	# The token of another lock, which dlock itself was started with, is not for the shell either.
	DLOCK_NAME=other DLOCK_TOKEN=$(printf '%032d' 7) \
		hold -t 3s -k 300ms --on-lost-run "$TELL" -- "$TOOLS/witness" -i -l log
	echo "$COMMAND" >pid
	"$DLOCK" break -q --yes "$LOCK"
	join "$HOLDER"
	equal "$status" 123
	mapfile -t TOLD <told
	equal "${TOLD[0]}" "$LOCK $FENCE none $DLOCK_BACKEND"
	has_line "$HOLDER_ERR" "lock lost: ${TOLD[1]}; stopping the command\$"
	equal "${TOLD[*]:2}" "alone 0 mine"
}

@test "--on-lost-run: runs when the lock was lost, the command is dead, and the lock is free" {
	on_both lost_by_break
}

# bats test_tags=more
@test "--on-lost-run: the server hangs, and the reason says so" {
	private_redis
	export DLOCK_BACKEND=$P_URI
	hold -t 2s -k 300ms --on-lost-run 'echo "$DLOCK_REASON" >told' -- "$TOOLS/witness" -i -l log
	kill -STOP "$P_PID"
	join "$HOLDER"
	equal "$status" 123
	ended "$COMMAND"
	equal "$(<told)" "it was not renewed before its lease ran out"
}

# bats test_tags=more
@test "--on-lost-run: with --on-lost warn it runs after the command has ended" {
	hold --on-lost warn -t 1s --on-lost-run 'touch told' -- sh -c \
		'while [ ! -e go ]; do sleep 0.05; done; [ ! -e told ]; echo $? >early'
	"$DLOCK" break -q --yes "$LOCK"
	wait_until 10 has_line "$HOLDER_ERR" 'lock lost'
	holds_for 500 alive "$COMMAND"
	touch go
	join "$HOLDER"
	equal "$status $(<early)" "123 0"
	[[ -e told ]]
}

keeps_quiet() {
	run -0 "$DLOCK" run --on-lost-run 'touch told' "$LOCK" -- true
	run -7 "$DLOCK" run --on-lost-run 'touch told' "$LOCK" -- sh -c 'exit 7'
	run -127 "$DLOCK" run --on-lost-run 'touch told' "$LOCK" -- ./none
	run -121 "$DLOCK" run --on-lost-run 'touch told' --max-run 200ms "$LOCK" -- sleep 300
	hold --
	run -124 "$DLOCK" run --on-lost-run 'touch told' -n "$LOCK" -- true
	release
	[[ ! -e told ]]
}

# bats test_tags=more
@test "--on-lost-run: runs nothing when no lock was lost" {
	on_both keeps_quiet
	run -122 "$DLOCK" run -b redis://127.0.0.1:1 --on-lost-run 'touch told' "$LOCK" -- true
	[[ ! -e told ]]
}

# hold_hook CMD: a run that has lost its lock, and whose --on-lost-run has made ./told
hold_hook() {
	hold -k 300ms --on-lost-run "$1" -- sleep 300
	"$DLOCK" break -q --yes "$LOCK"
	wait_until 10 test -e told
}

# bats test_tags=more
@test "--on-lost-run: is killed after 30 seconds, with all of its process group" {
	hold_hook 'sleep 301 & echo "$! $$" >told.new; mv told.new told; sleep 302'
	now
	local start=$NOW pids
	read -ra pids <told
	holds_for 25000 alive "$HOLDER" "${pids[@]}"
	join "$HOLDER" 15
	now
	equal "$status" 123
	took $((NOW - start)) 29000 40000
	wait_until 2 ended "${pids[@]}"
	has_line "$HOLDER_ERR" 'the command of --on-lost-run has run for 30 s and is killed$'
}

@test "--on-lost-run: a signal that ends dlock ends it; its failure is reported" {
	hold_hook 'touch told; sleep 301'
	kill -TERM "$HOLDER"
	join "$HOLDER"
	equal "$status" 123
	has_line "$HOLDER_ERR" 'the command of --on-lost-run died of signal 15$'
	rm told
	hold_hook 'touch told; exit 9'
	join "$HOLDER"
	equal "$status" 123
	has_line "$HOLDER_ERR" 'the command of --on-lost-run ended with status 9$'
}

@test "--until and --max-run refuse what is neither a time of day nor a duration" {
	local text
	for text in 24:00 6 6:0 6:00pm '' 06:00:00; do
		run --separate-stderr -125 "$DLOCK" run --until "$text" "$LOCK" -- touch ran
		one_line '^dlock: --until: bad time of day'
	done
	run --separate-stderr -125 "$DLOCK" run --max-run 6:00 "$LOCK" -- touch ran
	one_line '^dlock: --max-run: bad duration'
	run --separate-stderr -125 "$DLOCK" acquire --max-run 6 "$LOCK"
	one_line "unknown option '--max-run'; try 'dlock acquire --help'$"
	run --separate-stderr -125 "$DLOCK" acquire -k 6 "$LOCK"
	one_line "unknown option '-k'; try 'dlock acquire --help'$"
	[[ ! -e ran ]]
}

@test "400 processes that ignore TERM are dead before the lease ends, where /proc is slow" {
	export DLOCK_BACKEND=$REDIS
	LD_PRELOAD=$BUILD/tests/preload/slow_proc.so hold -t 6s -k 2s -- env -u LD_PRELOAD \
		sh -c 'trap "" TERM; i=0; while [ $((i += 1)) -le 400 ]; do setsid sleep 300 & echo $! >>pids; done; touch all; wait'
	wait_until 20 test -e all
	keeper_of "$HOLDER"
	kill -9 "$KEEPER"
	run --separate-stderr -0 "$DLOCK" run -w 30s "$LOCK" -- sh -c 'for p in $(cat pids); do ! kill -0 $p 2>/dev/null || echo $p; done'
	equal "$output" ""
	join "$HOLDER"
	equal "$status" 123
}
