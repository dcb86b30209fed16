# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock run --once-per: faults between the end of a command that has succeeded and the mark of its
# success, which the backend stores with the release.

load ../lib/helpers
load ../redis/server
# shellcheck source=tests/lib/services/mysql.bash
source "$TOP/tests/lib/services/mysql.bash"

# succeed [OPTION]...: starts a dlock whose command ends at once with 0, and returns when its guard is
# about to tell so (preload/ended.c): `mark` lets it. Sets FIRST, FIRST_ERR, GUARD and, where there is
# one, KEEPER. LATE has more variables.
succeed() {
	start env ENDED="$T/ended" LD_PRELOAD="$BUILD/tests/preload/ended.so${LATE_PRELOAD:+:$LATE_PRELOAD}" \
		"$DLOCK" run --once-per 12s "$@" "$LOCK" -- env -u LD_PRELOAD sh -c 'echo a >>ran'
	FIRST=$PID FIRST_ERR=$ERR
	wait_until 10 test -e ended
	child "$FIRST" dlock-guard
	GUARD=$CHILD KEEPER=
	if child "$FIRST" dlock-keeper; then
		KEEPER=$CHILD
	fi
}

mark() {
	rm ended
}

# another: starts a second host, which waits, or does the work if the first one has not
another() {
	start "$DLOCK" run --once-per 12s -w 20s "$@" "$LOCK" -- sh -c 'echo b >>ran'
	SECOND=$PID SECOND_ERR=$ERR
}

# marked: the first host ends with 0, and its success counts: for the second one, which waits, and for
# who comes later
marked() {
	join "$FIRST" 10
	# A renewal may meet the fault, too.
	equal "$status $(grep -v ' renew' "$FIRST_ERR")" "0 "
	join "$SECOND" 10
	equal "$status" 124
	matches "$(<"$SECOND_ERR")" ': done by [^ ]+ at [0-9-]*[ 0-9:]+ \(on '
	run --separate-stderr -124 "$DLOCK" run -n --once-per 12s "$@" "$LOCK" -- touch late
	matches "$stderr" ': done by '
	equal "$(<ran)" a
	[[ ! -e late ]]
}

# over [OPTION]...: 12 s after the lock was acquired, and no later, it is free, and the work is due again
over() {
	timed "$DLOCK" run -w 20s --once-per 100ms "$@" "$LOCK" -- sh -c 'echo c >>ran'
	equal "$status" 124
	timed "$DLOCK" run -w 20s "$@" "$LOCK" -- sh -c 'echo c >>ran'
	equal "$status" 0
	took "$MS" 0 13500
	equal "$(tail -n 1 <ran)" c
}

@test "the reply to the mark is lost, and the connection cut: the success counts" {
	start_proxy "$REDIS_PORT"
	succeed -b "$PROXY"
	another -b "$REDIS"
	pause 0.5
	proxy cut-after
	mark
	marked -b "$REDIS"
	proxy_stat cut
	equal "$VALUE" 1
	over -b "$REDIS"
}

# bats test_tags=more
@test "replies are swallowed while the success is marked: it counts" {
	start_proxy "$REDIS_PORT"
	succeed -b "$PROXY?timeout=1s"
	another -b "$REDIS"
	pause 0.5
	proxy drop
	mark
	pause 1.5
	proxy pass
	marked -b "$REDIS"
}

# bats test_tags=more
@test "the server restarts before the mark: the success counts, if the server has kept the hold" {
	private_redis --appendonly yes --appendfsync always
	succeed -b "$P_URI"
	another -b "$P_URI"
	pause 0.5
	server_stop "$P_DIR"
	mark
	pause 0.3
	redis_launch "$P_DIR" "$P_PORT" --appendonly yes --appendfsync always
	SERVICES+=("$(<"$P_DIR/pid")")
	marked -b "$P_URI"
}

@test "the server forgets the hold before the mark: dlock ends with 123, and another host does the work" {
	private_redis
	succeed -b "$P_URI" -t 6s
	server_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	mark
	join "$FIRST" 10
	equal "$status" 123
	matches "$(<"$FIRST_ERR")" 'lock lost: '
	run -0 "$DLOCK" run --once-per 12s -b "$P_URI" "$LOCK" -- sh -c 'echo b >>ran'
	equal "$(paste -sd ' ' ran)" "a b"
}

@test "all of dlock is stopped before the mark, for less than the lease: the success counts" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		rm -f ran
		LOCK=$LOCK-x
		succeed -b "$backend" -t 12s
		another -b "$backend"
		# shellcheck disable=SC2086 # none on file:
		kill -STOP "$FIRST" $KEEPER "$GUARD"
		mark
		pause 1
		not ended "$SECOND"
		# shellcheck disable=SC2086
		kill -CONT "$GUARD" $KEEPER "$FIRST"
		marked -b "$backend"
		over -b "$backend"
	done
}

# bats test_tags=more
@test "all of dlock is stopped before the mark, until the lease has ended: another host does the work" {
	succeed -b "$REDIS" -t 4s
	another -b "$REDIS"
	kill -STOP "$FIRST" "$KEEPER" "$GUARD"
	join "$SECOND" 10
	equal "$status" 0
	mark
	kill -CONT "$GUARD" "$KEEPER" "$FIRST"
	join "$FIRST" 10
	equal "$status" 123
	equal "$(paste -sd ' ' ran)" "a b"
	# The late mark of the first host has not touched that of the second.
	run --separate-stderr -124 "$DLOCK" run -n --once-per 12s -b "$REDIS" "$LOCK" -- touch late
	matches "$stderr" ': done by '
	rcli del "dlock:$LOCK"
}

# bats test_tags=more
@test "a hold that lives with a session, and the server hangs at the mark: the success counts" {
	private_zookeeper
	succeed -b "$P_URI?timeout=1s"
	another -b "$P_URI"
	kill -STOP "$P_PID"
	mark
	pause 1.5
	kill -CONT "$P_PID"
	marked -b "$P_URI"
	over -b "$P_URI"
}

@test "MySQL: the reply to the mark is lost, the connection cut, or the keeper stopped: the success counts" {
	local uri strategy fault
	mysql_start "$T/mysql"
	SERVICES+=("$(<"$T/mysql/pid")")
	uri=$(mysql_uri "$T/mysql")
	start_proxy "$(<"$T/mysql/port")"
	for strategy in lease row insert; do
		for fault in cut-after drop stop; do
			# A hold of this strategy ends with its connection.
			[[ $strategy != row || $fault == stop ]] || continue
			rm -f ran
			LOCK=$LOCK-x
			succeed -b "${uri/:$(<"$T/mysql/port")/:$TOOL_PORT}?strategy=$strategy&timeout=1s&connect-timeout=1s" -t 20s
			another -b "$uri?strategy=$strategy"
			pause 0.5
			if [[ $fault == stop ]]; then
				kill -STOP "$KEEPER"
				mark
				pause 1
				kill -CONT "$KEEPER"
			else
				proxy "$fault"
				mark
				pause 1.5
				proxy pass
			fi
			marked -b "$uri?strategy=$strategy"
		done
	done
}

# bats test_tags=more
@test "the server is gone for good: dlock reports that the success could not be stored" {
	private_redis
	succeed -b "$P_URI" -t 2s
	server_stop "$P_DIR"
	mark
	join "$FIRST" 10
	equal "$status" 0
	matches "$(<"$FIRST_ERR")" ': could not store the success of --once-per: .*refused; the lock lapses within '
}

# bats test_tags=more
@test "the limit of --max-run ends what the command left, or it ends with 0 at TERM: no success" {
	local work
	for work in 'sleep 60 & exit 0' 'trap "exit 0" TERM; while :; do sleep 0.05; done'; do
		LOCK=$LOCK-x
		run -121 "$DLOCK" run --once-per 12s --max-run 1s --leftovers wait -b "$REDIS" "$LOCK" -- \
			sh -c "$work"
		run -0 "$DLOCK" run -n --once-per 100ms -b "$REDIS" "$LOCK" -- true
	done
}

@test "the clock of the host jumps before the mark: the success counts, for the time that was asked for" {
	local backend jump
	export TORTURE_CLOCK=$T/clock
	LATE_PRELOAD=$BUILD/tests/preload/wallclock.so
	for jump in +86400 -86400; do
		for backend in "$FILE" "$REDIS"; do
			rm -f ran
			LOCK=$LOCK-x
			clock +0
			succeed -b "$backend"
			another -b "$backend"
			clock "$jump"
			mark
			marked -b "$backend"
			if [[ $jump == -* ]]; then
				over -b "$backend"
			else
				"$DLOCK" break --yes -b "$backend" "$LOCK"
			fi
		done
	done
}

# bats test_tags=more
@test "the supervisor is killed before the mark: the success counts" {
	succeed -b "$REDIS"
	another -b "$REDIS"
	pause 0.5
	kill -KILL "$FIRST"
	mark
	join "$FIRST" 10
	join "$SECOND" 10
	equal "$status" 124
	matches "$(<"$SECOND_ERR")" ': done by '
	equal "$(<ran)" a
}

@test "dlock is killed while the command runs, which then ends with 0: another host does the work" {
	start "$DLOCK" run --once-per 12s -b "$REDIS" "$LOCK" -- \
		sh -c 'trap "exit 0" TERM; echo a >>ran; while :; do sleep 0.05; done'
	FIRST=$PID
	wait_until 10 test -s ran
	another -b "$REDIS"
	pause 0.5
	kill -KILL "$FIRST"
	join "$SECOND" 10
	equal "$status" 0
	equal "$(paste -sd ' ' ran)" "a b"
}

# bats test_tags=deeper
@test "many waiters read that the work is done, although it took longer than its time" {
	local first count n waiters=()
	count=$(long_or 100 20)
	start "$DLOCK" run --once-per 1s -b "$REDIS" "$LOCK" -- sh -c 'echo a >>ran; until [ -e go ]; do sleep 0.1; done'
	first=$PID
	wait_until 10 test -s ran
	for ((n = 0; n < count; n++)); do
		start "$DLOCK" run -E 0 --once-per 1s -b "$REDIS" "$LOCK" -- sh -c 'echo b >>ran'
		waiters+=("$PID")
	done
	wait_until 60 waiters_on_redis "$count"
	: >go
	join "$first" 10
	equal "$status" 0
	for PID in "${waiters[@]}"; do
		join "$PID" 30
		equal "$status" 0
	done
	equal "$(<ran)" a
}

waiters_on_redis() {
	[[ $("$DLOCK" status --json -b "$REDIS" "$LOCK" | jq '.waiters | length') == "$1" ]]
}
