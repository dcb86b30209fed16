# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The functions that the suites are written with. Each test gets its own working directory ($T),
# lock name ($LOCK) and lock directory ($LOCKS). Processes that a test starts with `start` are
# ended after it; a test that leaves any other process behind fails.
#
# No loop variable is called i, because `run` of bats 1.8 overwrites that one.

bats_require_minimum_version 1.5.0

# Whatever the terminal is that the tests run on, those that they make can do what xterm can.
export TERM=xterm

# shellcheck source=tests/services/redis.bash
source "${BASH_SOURCE[0]%/*}/services/redis.bash"
# shellcheck source=tests/services/zookeeper.bash
source "${BASH_SOURCE[0]%/*}/services/zookeeper.bash"

# What a hostile server or file may contain: orders for a terminal (ESC, C1 as a byte and as UTF-8),
# a byte that is not UTF-8, and a line that dlock has not written
EVIL=$'\e]0;x\a\e[31m \x9b31m \xc2\x9b31m \x7f \xff \t \ndlock: forged\r'

# ---- assertions

# fail MESSAGE...: fails the test, and shows the output of the last `run`
fail() {
	printf '%s\n' "$*" >&2
	if [[ -n ${output-} ]]; then
		printf 'output: %s\n' "$output" >&2
	fi
	if [[ -n ${stderr-} ]]; then
		printf 'stderr: %s\n' "$stderr" >&2
	fi
	return 1
}

# not_here REASON: skips the test, or fails it where skips count as failures
not_here() {
	if [[ ${DLOCK_TESTS_STRICT-} == 1 ]]; then
		fail "cannot run here: $1"
	else
		skip "$1"
	fi
}

# need_root: skips the test for a normal user. This is never a failure, and tests/run counts it apart.
need_root() {
	((EUID == 0)) || skip "needs root"
}

need() {
	local program
	for program; do
		type -P "$program" >/dev/null || not_here "needs $program"
	done
}

# equal ACTUAL EXPECTED [WHAT]
equal() {
	[[ $1 == "$2" ]] || fail "${3:-value}: got '$1', expected '$2'"
}

# matches TEXT REGEX [WHAT]
matches() {
	[[ $1 =~ $2 ]] || fail "${3:-text}: '$1' does not match '$2'"
}

# between VALUE LOW HIGH [WHAT]
between() {
	(($1 >= $2 && $1 <= $3)) || fail "${4:-value}: $1 is not in $2..$3"
}

# harmless TEXT: it is UTF-8 without control characters, but for tabs and newlines
harmless() {
	iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || fail "not UTF-8: $(cat -v <<<"$1")"
	if LC_ALL=C.UTF-8 grep -qP '[^\P{Cc}\t]' <<<"$1"; then
		fail "control characters: $(cat -v <<<"$1")"
	fi
}

# one_line: what `run --separate-stderr` put on stderr is one line that starts with
# "dlock: ", and matches each REGEX given.
one_line() {
	local regex
	equal "${#stderr_lines[@]}" 1 "lines on stderr"
	matches "$stderr" '^dlock: ' stderr
	for regex; do
		matches "$stderr" "$regex" stderr
	done
}

# ---- time

# now: sets NOW to the ms since boot, without starting a process. /proc/uptime counts in units
# of 10 ms, which is precise enough for every assertion here.
now() {
	local uptime
	read -r uptime _ </proc/uptime
	NOW=$((10#${uptime/./} * 10))
}

# timed COMMAND...: runs it as `run --separate-stderr` does; its duration goes to MS.
timed() {
	local start
	now
	start=$NOW
	run --separate-stderr "$@"
	now
	MS=$((NOW - start))
}

# pause SECONDS: sleeps without starting a process where possible, because most pauses are so
# short that sleep(1) would make them a tenth longer
pause() {
	if [[ -p ${BATS_FILE_TMPDIR-}/never ]]; then
		# Nothing is ever written into this FIFO.
		read -rt "$1" <>"$BATS_FILE_TMPDIR/never" || :
	else
		sleep "$1"
	fi
}

pause_ms() {
	local seconds
	printf -v seconds '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
	pause "$seconds"
}

# slack: sets SLACK to the ms in which the machine starts 50 programs, one after the other, as it does
# at this moment. They are some 70 on a machine that is not busy, so that a limit which is longer by
# SLACK is still that limit there. Where other programs want the processor, too, they are many.
slack() {
	local start
	now
	start=$NOW
	for _ in {1..25}; do
		sleep 0
	done
	now
	SLACK=$((2 * (NOW - start)))
}

# took MS LOW HIGH [WHAT]: `between` for a duration, which may be longer on a busy machine
took() {
	if (($1 > $3)); then
		slack
		between "$1" "$2" "$(($3 + SLACK))" "${4:-ms}"
	else
		between "$1" "$2" "$3" "${4:-ms}"
	fi
}

# wait_until SECONDS COMMAND...: polls until COMMAND succeeds, and fails at the deadline, which is later
# on a busy machine. It polls every 20 ms at first, and every 50 ms after 0.4 s; less often where
# COMMAND takes long itself, such as a client of MySQL.
wait_until() {
	local seconds=$1 start deadline late='' asked ms
	shift
	now
	start=$NOW deadline=$((NOW + seconds * 1000)) asked=$NOW
	until "$@"; do
		now
		if ((NOW <= deadline)); then
			ms=$((NOW < start + 400 ? 20 : 50))
			((ms >= NOW - asked)) || ms=$((NOW - asked))
			pause_ms "$ms"
			asked=$((NOW + ms))
		elif [[ -z $late ]]; then
			late=1
			slack
			((deadline += SLACK))
		else
			echo "waited $(((NOW - start) / 1000)) s for: $*" >&2
			return 1
		fi
	done
}

# holds_for MS COMMAND...: COMMAND succeeds each time it is tried during MS
holds_for() {
	local ms=$1 deadline
	shift
	now
	deadline=$((NOW + ms))
	while ((NOW < deadline)); do
		"$@" || fail "did not stay so for $ms ms: $*"
		pause 0.02
		now
	done
}

# not COMMAND...: succeeds when COMMAND fails. As an assertion, because errexit ignores "! COMMAND",
# and for wait_until and holds_for, which take a command.
not() {
	! "$@"
}

# ---- processes

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
	wait_until 10 waiters "$n"
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
	# without the mark for grep itself
	while read -r file; do
		pid=${file#/proc/}
		pid=${pid%/environ}
		if alive "$pid"; then
			echo "$pid"
		fi
	done < <(DLOCK_TEST_MARK='' grep -lzsxF -- "DLOCK_TEST_MARK=$MARK" /proc/[0-9]*/environ)
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

# ---- a test's frame

# untraced: bats notes before each command of bash where the test is, so as to tell where it failed.
# That takes 0.15 ms a command, most of a test's processor time. bash 5 knows the place when a
# command fails, so that it is enough to note it then.
untraced() {
	trap - DEBUG
	trap note_failure ERR
}

note_failure() {
	bats_error_trap
	bats_capture_stack_trace
}

setup() {
	untraced
	T=$BATS_TEST_TMPDIR
	cd "$T" || return
	MARK=$BATS_SUITE_TEST_NUMBER.$$
	export DLOCK_TEST_MARK=$MARK
	STARTED=()
	STARTED_COUNT=0
	SERVICES=()
	unset DLOCK_BACKEND DLOCK_REQUIRE_BACKEND DLOCK_TTL DLOCK_WAIT DLOCK_NAME DLOCK_TOKEN DLOCK_FENCE
	# The tests neither read nor change files of the user who runs them.
	export HOME=$T/home XDG_CONFIG_HOME=$T/config
	# Commands under the lock use these, too.
	export LOCK=test-$BATS_SUITE_TEST_NUMBER T
	LOCKS=$T/locks
	FILE=file://$LOCKS
	REDIS=redis://127.0.0.1:${REDIS_PORT-}
	KEY=dlock:$LOCK
	# Witnesses write here about their holds (tools/record.h); judge_histories reads it.
	export WITNESS_HISTORIES=$T/histories
	mkdir -m 0700 "$HOME" "$XDG_CONFIG_HOME" "$LOCKS" "$WITNESS_HISTORIES"
	# for pause
	[[ -p $BATS_FILE_TMPDIR/never ]] || mkfifo "$BATS_FILE_TMPDIR/never"
	# Most tests use this backend; without it a test could use the system's lock directory.
	export DLOCK_BACKEND=$FILE
	if declare -F prepare >/dev/null; then
		prepare
	fi
}

teardown() {
	local pid left
	if declare -F tidy >/dev/null; then
		tidy
	fi
	for pid in "${STARTED[@]}"; do
		# The pid of a process that ended may be another process's now.
		if ! not_ours "$pid"; then
			kill -TERM "$pid"
			kill -CONT "$pid"
		fi
	done
	for pid in "${STARTED[@]}"; do
		wait_until 8 not_ours "$pid" || echo "process $pid does not heed TERM" >&2
	done
	for pid in "${SERVICES[@]}"; do
		if alive "$pid"; then
			kill -KILL "$pid"
			wait_until 5 ended "$pid"
		fi
	done
	if [[ -n ${OPEN-} ]]; then
		cd /
		rm -rf "$OPEN" "/tmp/dlock-$ALICE" "/tmp/dlock-$BOB" "/run/lock/dlock-$ALICE" \
			"/run/lock/dlock-$BOB"
	fi
	if ! wait_until 2 no_strays; then
		left=$(strays)
		for pid in $left; do
			printf 'left behind: %s %s\n' "$pid" \
				"$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>&1)" >&2
			kill -KILL "$pid"
		done
		return 1
	fi
	judge_histories
}

# judge_histories: no history that the test's witnesses have written shows two holders at once, or a
# fence that shrank (torture/history.h). A test that expects such a history removes it.
judge_histories() {
	local file files=()
	for file in "$T"/histories/*; do
		[[ ! -f $file ]] || files+=("$file")
	done
	((${#files[@]} == 0)) || "$BUILD/tests/torture/judge" "${files[@]}" >&2
}

# ---- other users

# as USER COMMAND...: runs COMMAND as another user
as() {
	local user=$1
	shift
	setpriv --reuid="$user" --regid="$user" --clear-groups env -u DLOCK_BACKEND "$@"
}

# strangers: sets ALICE and BOB to two unused user ids, and OPEN to a directory that both can enter,
# with a copy of dlock in it
strangers() {
	need_root
	need setpriv
	ALICE=$((60000 + BASHPID % 2000))
	BOB=$((ALICE + 2500))
	# Other users cannot enter the tests' own directory.
	OPEN=$(mktemp -d /tmp/dlock-open.XXXXXX)
	chmod 0755 "$OPEN"
	cp "$DLOCK" "$OPEN/dlock"
	export HOME=$OPEN XDG_CONFIG_HOME=$OPEN
	cd "$OPEN" || return
}

# ---- services of a single test

# clock SECONDS|still [FILE]: puts the clock of the programs whose TORTURE_CLOCK is FILE, "clock" by
# default, that far from the true time, "+3600" or "-3600", or makes it stand still
# (torture/wallclock.c)
clock() {
	local ns shift bytes=
	if [[ $1 == still ]]; then
		ns=0x7fffffffffffffff
	else
		ns=$(($1 * 1000000000))
	fi
	for shift in 0 8 16 24 32 40 48 56; do
		printf -v bytes '%s\\x%02x' "$bytes" $((ns >> shift & 255))
	done
	# The file stays the same, for the program has it in its memory.
	printf '%b' "$bytes" 1<>"${2:-clock}"
}

# clocked PROGRAM: makes ./clocked, which runs PROGRAM with the wall clock that the test sets with
# `clock`, the true time at first
clocked() {
	clock +0
	cat >clocked <<-END
		#!/bin/sh
		export TORTURE_CLOCK='$T/clock' LD_PRELOAD='$BUILD/tests/torture/wallclock.so'
		exec $1 "\$@"
	END
	chmod +x clocked
}

# private_redis [OPTION VALUE]...: a server that this test may stop, freeze or
# break. Sets P_DIR, P_PORT, P_PID and P_URI.
private_redis() {
	P_DIR=$T/redis.${#SERVICES[@]}
	redis_start "$P_DIR" "$@"
	P_PORT=$(<"$P_DIR/port")
	P_PID=$(<"$P_DIR/pid")
	P_URI=redis://127.0.0.1:$P_PORT
	SERVICES+=("$P_PID")
}

# private_zookeeper [KEY=VALUE]...: the same for ZooKeeper
private_zookeeper() {
	P_DIR=$T/zookeeper.${#SERVICES[@]}
	zookeeper_start "$P_DIR" "$@"
	P_PORT=$(<"$P_DIR/port")
	P_PID=$(<"$P_DIR/pid")
	P_URI=zookeeper://127.0.0.1:$P_PORT
	SERVICES+=("$P_PID")
}

# tool NAME [ARG]...: starts a tool, or a script of tests/services, that prints a port when it is ready;
# sets TOOL_PORT and TOOL_PID. The tool ends with the test.
tool() {
	local out=$T/tool.${#SERVICES[@]} name=$1 program=$TOOLS/$1
	[[ $name != *.py ]] || program=$BATS_TEST_DIRNAME/services/$name
	shift
	setpriv --pdeathsig KILL "$program" "$@" </dev/null >"$out" 2>&1 3>&- 4>&- &
	TOOL_PID=$!
	disown "$TOOL_PID"
	SERVICES+=("$TOOL_PID")
	line "$out" 5
	matches "$LINE" '^[0-9]+$' "$name"
	TOOL_PORT=$LINE
}

# floods HOW...: prints the words, unless dlock has the address sanitizer, which ends the process where
# a client library has no more memory for what comes
floods() {
	grep -q __asan_init "$BUILD/dlock" || echo "$@"
}

# hostile COMMAND...: runs dlock as `timed` does against a server that means no good. It ends with 122
# and one line, in time, and takes less than 400 MB. A crash of a client library that ran out of
# memory is no finding of the address sanitizer.
hostile() {
	ASAN_OPTIONS=handle_segv=0:allocator_may_return_null=1:log_path=$T/asan timed timeout 30 \
		python3 -c 'import os, resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)' "$T/rss" "$DLOCK" "$@"
	equal "$status" 122
	took "$MS" 0 10000
	between "$(<"$T/rss")" 1 400000 "kB of memory"
}

# own_names: sets DLOCK to a script that runs dlock with the names and addresses in ./hosts, which is
# written as /etc/hosts is, and may be written again
own_names() {
	need_root
	need unshare
	touch hosts
	cat >named <<-END
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "\$0" /etc/hosts && exec "\$@"' \
			"$T/hosts" "$DLOCK" "\$@"
	END
	chmod +x named
	DLOCK=$T/named
}

# start_proxy PORT: starts a proxy before the server at PORT; sets PROXY to its URI
start_proxy() {
	tool proxy -l "$T/requests" "$1" "$T/proxy.ctl"
	PROXY=redis://127.0.0.1:$TOOL_PORT
}

# proxy COMMAND...: sends a command to the proxy; sets ANSWER
proxy() {
	ANSWER=$(echo "$*" | socat -t5 - "UNIX-CONNECT:$T/proxy.ctl")
	[[ $ANSWER == ok || $1 == stats ]] || fail "proxy $*: $ANSWER"
}

# proxy_stat NAME: sets VALUE to this counter of the proxy
proxy_stat() {
	proxy stats
	VALUE=${ANSWER#*"$1="}
	VALUE=${VALUE%% *}
}

# rcli ARG...: redis-cli to the Redis of this file's tests
rcli() {
	redis_at "$REDIS_DIR" "$@"
}

# ---- dlock

# hold [OPTION]... -- [COMMAND...]: starts `dlock run OPTION... $LOCK -- COMMAND` and
# waits until COMMAND runs. The default COMMAND sleeps until `release` ends it. Sets HOLDER and
# COMMAND (their pids), TOKEN, FENCE, HOLDER_OUT and HOLDER_ERR.
hold() {
	local options=() started
	while (($#)) && [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	started=$T/held.$((STARTED_COUNT + 1))
	if (($# == 0)); then
		set -- sleep 300
	fi
	# shellcheck disable=SC2016 # expanded by the inner shell
	start "$DLOCK" run "${options[@]}" "$LOCK" -- \
		sh -c 'echo "$$ $DLOCK_TOKEN $DLOCK_FENCE" >"$0.new" && mv "$0.new" "$0" && exec "$@"' \
		"$started" "$@"
	HOLDER=$PID HOLDER_OUT=$OUT HOLDER_ERR=$ERR
	wait_until 10 held_or_ended "$started" "$HOLDER"
	[[ -f $started ]] || fail "dlock did not start the command: $(<"$HOLDER_ERR")"
	read -r COMMAND TOKEN FENCE <"$started"
}

# lost [SECONDS [REGEX]]: the dlock of hold ends with 123, and says once that the lock was lost, or
# what matches REGEX; other lines may be about trouble with the server
lost() {
	join "$HOLDER" "${1:-8}"
	equal "$status" 123
	equal "$(grep -Ec "^dlock: $LOCK: .*${2:-lost}" "$HOLDER_ERR")" 1 "lines about the loss: $(<"$HOLDER_ERR")"
	equal "$(grep -vc "^dlock: $LOCK: " "$HOLDER_ERR")" 0 "other lines: $(<"$HOLDER_ERR")"
	ended "$COMMAND"
}

# not_renewed: the same with --no-renew, for which the end of the lease is no surprise
not_renewed() {
	lost 8 'the lease is about to end, and --no-renew forbids to renew it'
}

# gone_while_waiting SERVER COMMAND...: COMMAND stops the server at P_URI, which messages call what
# matches SERVER, while dlock waits there: -v and the end of the wait say so, and for how long
gone_while_waiting() {
	local waiter err
	hold -b "$P_URI" -t 60s --
	start "$DLOCK" run -b "$P_URI" -v -w 9s "$LOCK" -- true
	waiter=$PID err=$ERR
	wait_until 5 has_line "$err" "waiting.*, held by .*\(on $1\)$"
	"${@:2}"
	wait_until 7 has_line "$err" 'trying again$'
	join "$waiter" 15
	equal "$status" 124
	has_line "$err" "the server has not been reachable for [0-9.]+[a-z0-9]*; last seen held by .*pid $HOLDER"
}

# kept_while_waiting: a waiter says soon that the hold before it has ended, and until when --min-hold
# keeps the lock
kept_while_waiting() {
	local waiter
	hold --min-hold 4s -t 30s --
	start "$DLOCK" run -v "$LOCK" -- true
	waiter=$PID
	wait_until 5 has_line "$ERR" ': waiting, next in line, held by '
	# A waiter reads who holds the lock once a second at most.
	pause 1.1
	release
	wait_until 2 has_line "$ERR" ', kept until [0-9: -]+ \(.* has ended\)'
	join "$waiter"
	equal "$status" 0
}

# hold_as_job [OPTION]... -- [COMMAND...]: `hold` in a process group of its own, as an interactive
# shell or timeout(1) has its jobs
hold_as_job() {
	local real=$DLOCK
	printf '#!/bin/sh\nexec setsid "%s" "$@"\n' "$real" >"$T/as-job"
	chmod +x "$T/as-job"
	DLOCK=$T/as-job
	hold "$@"
	DLOCK=$real
}

held_or_ended() {
	[[ -f $1 ]] || ended "$2"
}

# release: ends the command of `hold` and waits for dlock
release() {
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 143 "status of the holder"
}

# contend [PID]...: starts a dlock that waits for $LOCK. Once that dlock holds the lock, its command
# prints "overlap PID" if one of PIDs is still alive, else "alone". CONTEND_WITH has more options
# for it, such as another mode. Sets PID and OUT. See met_nobody.
contend() {
	# shellcheck disable=SC2016,SC2086 # expanded by the inner shell; words
	start "$DLOCK" run -w 30s ${CONTEND_WITH-} "$LOCK" -- sh -c '
		for pid; do
			if grep -qs "^State:[[:space:]]*[^ZX[:space:]]" "/proc/$pid/status"; then
				echo "overlap $pid"
				exit 1
			fi
		done
		"$TOOLS/witness" -l /dev/null -f 0
		echo alone' contender "$@"
	CONTENDER=$PID CONTENDER_OUT=$OUT CONTENDER_ERR=$ERR
}

# met_nobody [SECONDS]: the contender gets the lock within that time, and only after the processes
# that contend was given were dead
met_nobody() {
	join "$CONTENDER" "${1:-10}"
	equal "$status $(<"$CONTENDER_OUT")" "0 alone" "contender ($(<"$CONTENDER_ERR"))"
}

# passes_dead MS LIVING DEAD...: the processes DEAD, of waiters, are killed, and the lock is released:
# the waiter LIVING ends within MS, and has run its command, which made the file ran
passes_dead() {
	local most=$1 living=$2 start
	shift 2
	kill -KILL "$@"
	wait_until 5 ended "$@"
	now
	start=$NOW
	release
	join "$living" 5
	now
	took $((NOW - start)) 0 "$most"
	[[ -e ran && ! -e dead ]]
}

# is_free, is_held: what another dlock finds
is_free() {
	"$DLOCK" run -n -q "$LOCK" -- true
}

is_held() {
	local code=0
	"$DLOCK" run -n -q "$LOCK" -- true || code=$?
	((code == 124))
}
