# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What every backend must do. The file `list` has the backends that it is run for; a test with the tag
# "program" shows what is not the store's.

load ../lib/helpers
load common

# ---- taking, waiting, not obtaining

# bats test_tags=own
@test "run executes the command and leaves nothing behind" {
	run --separate-stderr -3 "$DLOCK" run "$LOCK" -- sh -c 'echo out; echo err >&2; exit 3'
	equal "$output" out
	equal "$stderr" err
	backend_nothing_left
}

# bats test_tags=program
@test "-v reports every step, in order, even of a command that ends at once" {
	local pause
	for pause in 0 0.001 0.004; do
		run --separate-stderr -0 "$DLOCK" run -v "$LOCK" -- sleep "$pause"
		equal "$(sed 's/ after .*//; s/.*: //' <<<"$stderr" | paste -sd ,)" \
			"acquired,running sleep,the command ended with status 0,released"
		matches "$stderr" "acquired after .*, on [a-z+]+[: ]."
	done
	# The command's output comes where it belongs.
	run -0 "$DLOCK" run -v "$LOCK" -- echo OUT
	equal "$(sed 's/ after .*//; s/.*: //' <<<"$output" | paste -sd ,)" \
		"acquired,running echo,OUT,the command ended with status 0,released"
}

# bats test_tags=program
@test "--log json and --metrics have the fence and the status of the command" {
	run --separate-stderr -3 "$DLOCK" run --log json --metrics m.prom "$LOCK" -- \
		sh -c 'echo "$DLOCK_FENCE"; exit 3'
	matches "$output" '^[1-9][0-9]*$' fence
	equal "$(jq -r .event <<<"$stderr" | paste -sd ' ')" "acquired started ended released"
	equal "$(jq -r .fence <<<"$stderr" | sort -u)" "$output" "fence in the log"
	has_line m.prom "^dlock_last_fence\{.*\} $output\$"
	has_line m.prom '^dlock_last_exit_status\{.*\} 3$'
	has_line m.prom '^dlock_last_obtained\{.*\} 1$'
}

# bats test_tags=own
@test "while the lock is held, -n gives up at once and reports who has it" {
	hold --
	timed timeout 20 "$DLOCK" run -n "$LOCK" -- touch ran
	equal "$status" 124
	took "$MS" 0 1500
	one_line "^dlock: $LOCK: held by $(uname -n) pid $HOLDER \($(id -un)\) for [0-9.]+[a-z0-9]*: sh \(on [a-z+]+[: ].*\)$"
	equal "$output" ""
	[[ ! -e ran ]]
	release
	is_free
	backend_nothing_left
}

# bats test_tags=program
@test "-E names the exit code, also 0 and 255" {
	hold --
	local code
	for code in 7 0 255; do
		run --separate-stderr "-$code" "$DLOCK" run -n -E $code "$LOCK" -- touch ran
	done
	run --separate-stderr -8 "$DLOCK" run -w 0.5 --conflict-exit-code=8 "$LOCK" -- touch ran
	[[ ! -e ran ]]
	waiters 0
}

@test "-w ends the wait when its time is over, not before and not much later" {
	hold --
	timed "$DLOCK" run -w 2s "$LOCK" -- touch ran
	equal "$status" 124
	# The clock of the tests has a resolution of 10 ms.
	took "$MS" 1990 3000
	one_line "held by"
	[[ ! -e ran ]]
	waiters 0
	release
	nothing_left
}

# bats test_tags=program
@test "-w 0 does not wait" {
	hold --
	timed "$DLOCK" run -w 0 "$LOCK" -- true
	equal "$status" 124
	took "$MS" 0 1000
	waiters 0
}

# bats test_tags=own
@test "a waiter gets the lock when the holder ends, and prints nothing while it waits" {
	hold --
	wait_in_line 1 -- sh -c 'echo mine'
	local waiter=$PID out=$OUT err=$ERR
	holds_for 300 alive "$waiter"
	equal "$(<"$out")" ""
	release
	join "$waiter" 5
	equal "$status" 0
	equal "$(<"$out")" mine
	equal "$(<"$err")" ""
	nothing_left
}

# bats test_tags=own
@test "waiters get the lock one after the other, in order where the backend promises it" {
	hold --
	local n waiter=()
	for n in 1 2 3 4 5 6; do
		wait_in_line "$n" -- sh -c 'mkdir inside || echo overlap >>order; echo "$0" >>order; rmdir inside' "$n"
		waiter+=("$PID")
	done
	release
	for n in "${waiter[@]}"; do
		join "$n"
		equal "$status" 0
	done
	if [[ -n $FIFO ]]; then
		equal "$(tr '\n' ' ' <order)" "1 2 3 4 5 6 "
	else
		equal "$(sort order | tr '\n' ' ')" "1 2 3 4 5 6 "
	fi
	nothing_left
}

@test "a waiter that has given up lets the next one have the lock" {
	hold --
	# The second one is in line before the first one gives up.
	wait_in_line 1 -w "$((3 + 2 * SLOW))s" -- true
	local first=$PID
	wait_in_line 2 -- touch second
	local second=$PID
	join "$first"
	equal "$status" 124
	wait_until 2 waiters 1
	release
	join "$second" 5
	equal "$status" 0
	[[ -e second ]]
	nothing_left
}

# bats test_tags=program
@test "a command that cannot be executed gives the lock to the next" {
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- ./not-there
	one_line not-there
	nothing_left
	is_free
}

# bats test_tags=deeper
@test "locks of different names do not exclude each other, those of one name do, however odd it is" {
	# The suites of the strategies table and shedlock test the names that their tables take.
	offers names || { refuses names; return; }
	local name slashes names n held=()
	printf -v slashes '%200s' ''
	slashes=${slashes// //}
	names=(a/b a%2Fb 'a b' .. .lock %s%n '{a}' 'Ünï🔒' "\"it's\"" '*' "$slashes")
	[[ -z $(long_or all '') ]] || names+=(a%2fb ' a' . ...x /abs ../up % 'a:b' '?' '\x' '$HOME'
		"${slashes//\//x}" "${slashes//\//.}")
	for n in "${!names[@]}"; do
		start "$DLOCK" run -n "${names[n]}" -- sh -c 'printf %s "$DLOCK_NAME" >"got.$0.new"; mv "got.$0.new" "got.$0"; exec sleep 300' "$n"
		held+=("$PID")
	done
	for n in "${!names[@]}"; do
		wait_until 5 test -e "got.$n" || fail "${names[n]} is not held: $(<"$T/err.$((n + 1))")"
		equal "$(<"got.$n")" "${names[n]}" DLOCK_NAME
		run --separate-stderr -124 "$DLOCK" run -n "${names[n]}" -- true
		one_line
		# A blank at an end is shown in quotes.
		name=${names[n]}
		[[ $name != ' '* ]] || name="'$name'"
		[[ $stderr == "dlock: $name: held by "* ]] || fail "name $name"
	done
	kill -TERM "${held[@]}"
	wait_until 10 ended "${held[@]}"
	for name in "${names[@]}"; do
		"$DLOCK" run -n "$name" -- true
	done
}

# ---- signals while waiting and running

@test "TERM, INT and HUP end a waiter at once and leave no waiter behind" {
	hold --
	local sig code
	for sig in TERM:143 INT:130 HUP:129; do
		code=${sig#*:}
		wait_in_line 1 -- touch ran
		kill "-${sig%:*}" "$PID"
		join "$PID" 2
		equal "$status" "$code" "status after ${sig%:*}"
		equal "$(<"$ERR")" "" "stderr after ${sig%:*}"
		wait_until 1 waiters 0
	done
	[[ ! -e ran ]]
	release
	nothing_left
}

# bats test_tags=program
@test "TERM while the command runs reaches it, and the lock is released" {
	hold --
	kill -TERM "$HOLDER"
	join "$HOLDER" 3
	equal "$status" 143
	ended "$COMMAND"
	nothing_left
	is_free
}

# bats test_tags=program,more
@test "TERM at any instant leaves the lock free and no process" {
	local n codes=' '
	for n in {0..199}; do
		# TERM comes at 40 instants, and again if timeout(1) was late for each of them.
		((n % 40 > 0)) || [[ $codes != *' 143 '* ]] || break
		run timeout --preserve-status -s TERM "0.$(printf %04d $(((n % 40 + 1) * 4)))" "$DLOCK" run "$LOCK" -- true
		matches "$status" '^(0|143)$' "status when TERM came after $n % 40 + 1 steps of 0.4 ms"
		codes+="$status "
		is_free || fail "not free when TERM came after $n % 40 + 1 steps of 0.4 ms"
	done
	matches "$codes" ' 143 '
	nothing_left
}

# ---- kill -9

@test "kill -9 of dlock while the command runs: the tree dies, then the lock is free" {
	hold -k 1s -- "$TOOLS/witness" -i -l "$T/log"
	# Before that TERM would end the shell that becomes the witness.
	wait_until 5 has_line log alive
	guard_of "$HOLDER"
	contend "$COMMAND"
	kill -KILL "$HOLDER"
	met_nobody
	ended "$GUARD"
	has_line log ' TERM$'
	nothing_left
}

# bats test_tags=program
@test "kill -9 of dlock: a daemon that closed everything and cleared its environment dies too" {
	hold -k 300ms -- "$TOOLS/daemonize" -c -w -p "$T/daemon" "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	contend "$COMMAND" "$(<daemon)"
	kill -KILL "$HOLDER"
	met_nobody
	ended "$(<daemon)"
	nothing_left
}

# bats test_tags=program
@test "kill -9 of the guard: the tree dies, then the lock is free" {
	hold -k 300ms -- "$TOOLS/daemonize" -c -w -p "$T/daemon" "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	guard_of "$HOLDER"
	contend "$COMMAND" "$(<daemon)"
	kill -KILL "$GUARD"
	join "$HOLDER" 5
	equal "$status" 137
	met_nobody
	nothing_left
}

# bats test_tags=program
@test "kill -9 of dlock's process group: the tree dies, then the lock is free" {
	hold_as_job -k 300ms -- "$TOOLS/daemonize" -c -w -p "$T/daemon" "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	guard_of "$HOLDER"
	contend "$COMMAND" "$(<daemon)"
	kill -KILL -- "-$HOLDER"
	met_nobody
	ended "$HOLDER" "$GUARD" "$COMMAND" "$(<daemon)"
	nothing_left
}

# bats test_tags=program,more
@test "timeout -k over dlock: the tree dies, then the lock is free" {
	start timeout -k 0.3 0.6 "$DLOCK" run -t 10s -k 3s "$LOCK" -- sh -c 'echo $$ >pid
		trap "" TERM; sleep 300 & while :; do wait; done'
	line pid
	contend "$LINE"
	join "$PID"
	met_nobody
	nothing_left
}

# bats test_tags=program
@test "kill -9 of dlock and guard at once: the command dies, then the lock is free" {
	hold -t 2s -- sleep 300
	guard_of "$HOLDER"
	contend "$COMMAND"
	kill -KILL "$HOLDER" "$GUARD"
	met_nobody
	ended "$COMMAND"
	nothing_left
}

# bats test_tags=program
@test "dlock's process group stopped: the lock stays held, and the command runs on" {
	hold_as_job -t 4s -- sleep 300
	kill -STOP -- "-$HOLDER"
	holds_for 5000 is_held
	alive "$COMMAND"
	kill -CONT -- "-$HOLDER"
	release
	is_free
	nothing_left
}

@test "all of dlock stopped: the lock stays held, or the command and its daemons are dead in time" {
	hold -t 3s -- "$TOOLS/daemonize" -c -w -p "$T/daemon" "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	guard_of "$HOLDER"
	KEEPER=
	if [[ -n $LEASES ]]; then
		keeper_of "$HOLDER"
	fi
	contend "$COMMAND" "$(<daemon)"
	# shellcheck disable=SC2086 # there may be none
	kill -STOP "$HOLDER" "$GUARD" $KEEPER
	if [[ -n $LEASES ]]; then
		wait_until 8 ended "$COMMAND" "$(<daemon)"
		met_nobody 20
	else
		holds_for 4000 alive "$COMMAND"
		is_held
	fi
	# shellcheck disable=SC2086
	kill -CONT "$HOLDER" "$GUARD" $KEEPER 2>/dev/null || :
	if [[ -n $LEASES ]]; then
		join "$HOLDER"
		matches "$status" '^(123|137)$' "status of the holder"
	else
		kill -KILL "$COMMAND"
		join "$HOLDER"
		met_nobody
	fi
	nothing_left
}

# bats test_tags=program,more
@test "a guard that was stopped is continued" {
	hold -t 30s -- sleep 300
	guard_of "$HOLDER"
	kill -STOP "$GUARD"
	wait_until 5 not stopped "$GUARD"
	release
	is_free
	nothing_left
}

# bats test_tags=program,more
@test "no minimum hold for a command that could not be executed" {
	run --separate-stderr -127 "$DLOCK" run --min-hold 30s "$LOCK" -- ./none
	run --separate-stderr -126 "$DLOCK" run --min-hold 30s "$LOCK" -- /
	wait_until 2 is_free
	nothing_left
}

# bats test_tags=own
@test "kill -9 of the keeper: without a lease the command runs on, else it is dead in time" {
	hold -t 3s --
	if [[ -n $LEASES ]]; then
		keeper_of "$HOLDER"
		kill -KILL "$KEEPER"
		join "$HOLDER" 8
		equal "$status" 123
		ended "$COMMAND"
	else
		# There is no lease to renew, and so nobody is killed.
		not child "$HOLDER" dlock-keeper
		holds_for 4000 is_held
		alive "$COMMAND"
		release
	fi
	wait_until 6 is_free
	nothing_left
}

@test "kill -9 of the keeper just before the command ends: it was held, and the lease lapses" {
	hold -t 3s --
	if [[ -n $LEASES ]]; then
		keeper_of "$HOLDER"
		kill -KILL "$KEEPER"
	fi
	release
	if [[ -n $LEASES ]]; then
		has_line "$HOLDER_ERR" ": could not release the lock: the keeper process was killed by signal 9; the lock lapses within "
	fi
	wait_until 6 is_free
	nothing_left
}

# bats test_tags=program
@test "kill -9 of the command: its status, and the lock is free" {
	hold --
	kill -KILL "$COMMAND"
	join "$HOLDER" 3
	equal "$status" 137
	nothing_left
}

# bats test_tags=own
@test "kill -9 of a waiting dlock delays nobody and leaves nothing" {
	hold --
	wait_in_line 1 -- touch first
	local dead=$PID family
	family=$(tree "$dead")
	wait_in_line 2 -- touch second
	local second=$PID
	kill -KILL "$dead"
	# shellcheck disable=SC2086 # words
	wait_until 5 ended $family
	release
	join "$second" 3
	equal "$status" 0
	[[ ! -e first && -e second ]]
	nothing_left
}

# bats test_tags=more
@test "kill -9 of a waiter's keeper: it gets the lock or reports why not, and leaves nothing" {
	hold --
	wait_in_line 1 ${DEAD_WAITS:+-t 2s} -- touch ran
	local second=$PID err=$ERR
	if [[ -n $LEASES ]]; then
		keeper_of "$second"
		kill -KILL "$KEEPER"
	else
		not child "$second" dlock-keeper
	fi
	start "$DLOCK" run "$LOCK" -- touch third
	local third=$PID
	holds_for 200 alive "$third"
	release
	join "$third" $((${DEAD_WAITS:+5} + 3))
	equal "$status" 0
	join "$second" 3
	if ((status)); then
		equal "$status" 125
		equal "$(wc -l <"$err")" 1 "lines on stderr"
		[[ ! -e ran ]]
	else
		[[ -e ran ]]
	fi
	nothing_left
}

# bats test_tags=program,more
@test "kill -9 of a waiter's guard: another one takes its place" {
	hold --
	wait_in_line 1 -- touch ran
	guard_of "$PID"
	kill -KILL "$GUARD"
	# The supervisor does not start guards in a busy loop.
	local before after
	before=$(cut -d ' ' -f 14,15 "/proc/$PID/stat")
	holds_for 300 alive "$PID"
	after=$(cut -d ' ' -f 14,15 "/proc/$PID/stat")
	between "$((${after/ /+} - (${before/ /+})))" 0 5 "ticks of CPU"
	release
	join "$PID"
	equal "$status" 0
	[[ -f ran ]]
	backend_nothing_left
}

@test "kill -9 of all of dlock at once: the lock does not stay" {
	hold -t 1s --
	local family
	family=$(tree "$HOLDER")
	# shellcheck disable=SC2086 # words
	kill -KILL "$HOLDER" $family
	wait_until 5 is_free
	nothing_left
}

# ---- the command's tree

# bats test_tags=program
@test "what the command leaves behind is ended before the lock is free" {
	start "$DLOCK" run -k 300ms "$LOCK" -- sh -c '
		"$TOOLS/witness" -i -l log &
		"$TOOLS/daemonize" -c -p daemon "$TOOLS/witness" -i -l daemon.log
		while ! grep -qs alive log || ! grep -qs alive daemon.log; do sleep 0.01; done
		echo $! >background
		exit 5'
	local holder=$PID
	wait_until 5 test -s background
	contend "$(<background)" "$(<daemon)"
	join "$holder" 5
	equal "$status" 5
	ended "$(<background)" "$(<daemon)"
	met_nobody
	has_line log ' TERM$'
	has_line daemon.log ' TERM$'
	nothing_left
}

# ---- min-hold

# bats test_tags=own
@test "--min-hold keeps the lock after the command, and run returns at once" {
	timed "$DLOCK" run --min-hold 3s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 1200
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	run --separate-stderr -0 "$DLOCK" run -v -w 10s --min-hold 3s "$LOCK" -- true
	matches "$stderr" 'released; --min-hold keeps the lock for [0-9.]+m?s more$'
	timed "$DLOCK" run -w 10s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 100 4100
	wait_until 3 backend_nothing_left
}

# kept NAME: `status` tells until when NAME, which nobody uses any more, is kept
kept() {
	"$DLOCK" status --json "$1" >kept.json || true
	jq -e '.holders[0].kept_until' kept.json >kept.until
}

# bats test_tags=program
@test "--min-hold: status, and a client that is refused, report until when the lock is kept" {
	local -A modes=(["$LOCK"]='' ["$LOCK-b"]=-s ["$LOCK-c"]='--slots 2')
	local name until
	export TZ=UTC0
	for name in "${!modes[@]}"; do
		if offers "${modes[$name]}"; then
			# shellcheck disable=SC2086 # an option and its value
			"$DLOCK" run --min-hold 12s ${modes[$name]} --note "ask Ann" "$name" -- true
		else
			unset "modes[$name]"
		fi
	done
	for name in "${!modes[@]}"; do
		if ! offers kept; then
			run -1 kept "$name"
			continue
		fi
		wait_until 3 kept "$name"
		jq -e '(.holders[0].kept_until | .[0:19] + "Z" | fromdate) - now
			| . > 0 and . < 13' kept.json >in-time || fail "$(<kept.json)"
		until="kept until ([0-9-]+ )?$(jq -r '.[11:19]' kept.until) \(true has ended\): ask Ann"
		run --separate-stderr -124 "$DLOCK" run -n "$name" -- touch ran
		one_line "^dlock: $name: held by .* for [^ ]+, $until \(on "
		run -1 "$DLOCK" status "$name"
		matches "${lines[1]}" "\) $until$"
	done
	[[ ! -e ran ]]
	for name in "${!modes[@]}"; do
		"$DLOCK" run -w 20s -q "$name" -- true
	done
	# The next holder is not shown as that.
	hold --
	run -1 kept "$LOCK"
	release
	nothing_left
}

# bats test_tags=program,more
@test "--min-hold: what keeps the lock keeps no pipe of the caller's open, whatever its number" {
	# `run` reads the output to its end, which comes when nobody has the pipe open.
	timed bash -c 'exec 300>&1 && exec "$DLOCK" run --min-hold 4s "$LOCK" -- echo done'
	equal "$status $output" "0 done"
	took "$MS" 0 3000
	# Otherwise the end of the test would have to wait for the process that keeps the lock.
	wait_until 8 is_free
}

# bats test_tags=program,more
@test "--min-hold that is over already keeps nothing" {
	run -0 "$DLOCK" run --min-hold 10ms "$LOCK" -- sleep 0.05
	is_free
}

# ---- once-per

# work HOST [OPTION]...: starts a dlock that lets HOST do the work of $LOCK once in 12 s. The work
# ends when the file HOST is there, with the status in it. Sets PID, OUT and ERR.
work() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	start "$DLOCK" run -E 33 --once-per 12s "${@:2}" "$LOCK" -- sh -c '
		echo "$0" >>ran
		until [ -s "$0" ]; do sleep 0.05; done
		exit "$(cat "$0")"' "$1"
}

# bats test_tags=own
@test "--once-per: when the work has succeeded, those who wait or come later end, until its time is over" {
	local first waiters=() errors=() done='done by [^ ]+ at [0-9:]{8} \(on '
	export TZ=UTC0
	work a
	first=$PID
	wait_until 10 test -s ran
	work b
	waiters=("$PID") errors=("$ERR")
	wait_until 10 waiters 1
	work c
	waiters+=("$PID") errors+=("$ERR")
	wait_until 10 waiters 2
	# -n does not wait, and says that the work is being done
	run --separate-stderr -124 "$DLOCK" run -n --once-per 12s "$LOCK" -- touch ran-too
	one_line "^dlock: $LOCK: held by "
	echo 0 >a
	join "$first"
	equal "$status" 0
	for PID in "${waiters[@]}"; do
		join "$PID" 5
		equal "$status" 33
	done
	matches "$(cat "${errors[@]}")" "^dlock: $LOCK: $done.*"$'\n'"dlock: $LOCK: $done"
	wait_until 2 waiters 0
	# who comes later, waiting or not
	run --separate-stderr -124 "$DLOCK" run --once-per 12s "$LOCK" -- touch ran-too
	one_line "^dlock: $LOCK: $done"
	run --separate-stderr -5 "$DLOCK" run -n -E 5 --once-per 12s "$LOCK" -- touch ran-too
	one_line "^dlock: $LOCK: $done"
	run -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" '\) done until ([0-9-]+ )?[0-9:]{8} \(sh has succeeded\)$'
	run -1 "$DLOCK" status --json "$LOCK"
	jq -e '.holders[0] | .done_at != null and .kept_until > .done_at' <<<"$output"
	equal "$(<ran)" a
	# without --once-per the lock is waited for as usual
	timed "$DLOCK" run -w 20s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 500 14000
	[[ ! -e ran-too ]]
	nothing_left
}

@test "--once-per: a run that takes longer than its time counts for those who wait" {
	local first first_err
	start "$DLOCK" run -v -E 33 --once-per 1s "$LOCK" -- sh -c 'echo a >>ran; until [ -e go ]; do sleep 0.1; done'
	first=$PID first_err=$ERR
	wait_until 10 test -s ran
	start "$DLOCK" run -E 33 --once-per 1s "$LOCK" -- sh -c 'echo b >>ran'
	wait_until 10 waiters 1
	pause 1.2
	: >go
	join "$first"
	equal "$status" 0
	has_line "$first_err" 'took longer than the time of --once-per'
	join "$PID" 20
	equal "$status" 33
	equal "$(<ran)" a
	"$DLOCK" break --yes "$LOCK"
}

# ---- several locks

@test "several locks: taken in the order of their names, all or none, and released together" {
	# shellcheck disable=SC2016 # expanded by the inner shell
	run --separate-stderr -7 "$DLOCK" run "$LOCK-c" "$LOCK-a" "$LOCK-b" "$LOCK-a" -- sh -c '
		"$0" status "$1-a" "$1-b" "$1-c" | grep -c exclusive; echo "$DLOCK_NAME"; exit 7' "$DLOCK" "$LOCK"
	equal "$output$stderr" "3"$'\n'"$LOCK-c"
	LOCK=$LOCK-b hold --
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK-a" "$LOCK-b" "$LOCK-c" -- touch ran-too
	one_line "^dlock: $LOCK-b: held by "
	run -0 "$DLOCK" run -w 1500ms -E 0 --once-per 60s "$LOCK-a" "$LOCK-b" -- touch ran-too
	run -0 "$DLOCK" status "$LOCK-a" "$LOCK-c"
	[[ ! -e ran-too ]]
	LOCK=$LOCK-b release
}

@test "several locks: the last one is awaited without limit, also when a start takes some ms" {
	printf '#\n%.0s' {1..30000} >"$XDG_CONFIG_HOME/dlock.conf"
	LOCK=$LOCK-b hold --
	start "$DLOCK" run -v "$LOCK-a" "$LOCK-b" -- touch ran
	wait_until 10 has_line "$ERR" "$LOCK-b: waiting"
	LOCK=$LOCK-b release
	join "$PID" 10
	equal "$status" 0
	[[ -e ran ]]
}

@test "--once-per: when the work fails, or its host dies, another host does it" {
	local first second family
	work a
	first=$PID
	wait_until 10 test -s ran
	work b -t 2s
	second=$PID
	wait_until 10 waiters 1
	echo 3 >a
	join "$first"
	equal "$status" 3
	wait_until 10 has_line ran '^b$'
	# c waits, and b's host dies: all that runs there is gone at once, and nothing is released
	work c
	wait_until 10 waiters 1
	family=$(tree "$second")
	# shellcheck disable=SC2086 # words
	kill -STOP $family
	# shellcheck disable=SC2086 # words
	kill -KILL $family
	wait_until 20 has_line ran '^c$'
	echo 0 >c
	join "$PID"
	equal "$status" 0
	run --separate-stderr -124 "$DLOCK" run --once-per 12s "$LOCK" -- touch ran-too
	# for an early end, or to do the work once more
	"$DLOCK" break --yes "$LOCK"
	run -0 "$DLOCK" run -n --once-per 12s "$LOCK" -- true
	"$DLOCK" break --yes "$LOCK"
	[[ ! -e ran-too ]]
	nothing_left
}

# ---- no-renew

@test "--no-renew: the command is stopped before the lease ends; without a lease it runs on" {
	if [[ -z $LEASES ]]; then
		run --separate-stderr -7 "$DLOCK" run --no-renew -t 1s "$LOCK" -- sh -c 'sleep 1.5; exit 7'
		equal "$stderr" ""
		nothing_left
		return
	fi
	# A third of the lease is left for the release. A lease that has ended is not released, and leaves
	# its row.
	timed "$DLOCK" run --no-renew -t 3s "$LOCK" -- "$TOOLS/witness" -i -l log
	equal "$status" 123
	took "$MS" 1000 5000
	one_line "^dlock: $LOCK: the lease is about to end, and --no-renew forbids to renew it; stopping the command"
	has_line log ' TERM$'
	nothing_left
}

# bats test_tags=own
@test "a hold goes on for longer than its TTL" {
	hold -t 3s --
	holds_for 4500 is_held
	alive "$COMMAND"
	release
}

# ---- fences

# fence: takes the lock, and prints the fence of that hold
fence() {
	"$DLOCK" run -w 10s "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"'
}

# bats test_tags=own
@test "fences grow over releases, over crashes of holders and over lost data" {
	local before after fence last
	before=${EPOCHREALTIME/./}
	last=$(fence)
	after=${EPOCHREALTIME/./}
	if [[ -z ${TRANSACTION_FENCES-} ]]; then
		between "$last" "$((before - 1000))" "$((after + 1000))" "fence against the clock"
	fi
	for _ in 1 2 3; do
		fence=$(fence)
		((fence > last)) || fail "$fence after $last"
		last=$fence
	done
	hold -t 1s --
	((FENCE > last)) || fail "$FENCE after $last"
	last=$FENCE
	kill -KILL "$HOLDER"
	fence=$(fence)
	((fence > last)) || fail "$fence after $last, over a crash"
	last=$fence
	backend_wipe
	fence=$(fence)
	((fence > last)) || fail "$fence after $last, over lost data"
}

# ---- reentrancy

@test "a lock inside itself neither takes nor releases" {
	run --separate-stderr -0 timeout 10 "$DLOCK" run "$LOCK" -- bash -c '
		echo "$DLOCK_TOKEN $DLOCK_FENCE"
		"$DLOCK" run "$LOCK" -- sh -c "echo \$DLOCK_TOKEN \$DLOCK_FENCE; exit 7"
		echo $?
		env -i "$DLOCK" run -b "$DLOCK_BACKEND" -n "$LOCK" -- true
		echo $?'
	equal "${lines[1]}" "${lines[0]}" "token and fence inside"
	equal "${lines[2]}" 7
	equal "${lines[3]}" 124 "a stranger, after the inner one ended"
	is_free
	nothing_left
}

# bats test_tags=more
@test "a lock inside itself: every mode in every mode" {
	local held asked n
	for held in '' -s '--slots 1' '--slots 3' '--slots 5'; do
		offers "$held" || { refuses "$held"; continue; }
		# shellcheck disable=SC2086 # words
		"$DLOCK" run $held "$LOCK" -- bash -c '
			for asked in "" -s "--slots 1" "--slots 3" "--slots 5"; do
				timeout 10 "$DLOCK" run $asked "$LOCK" -- touch ran 2>err
				echo "$? $(ls ran 2>&1) $(wc -l <err) $(<err)"
				rm -f ran
			done' >inside
		n=0
		for asked in '' -s '--slots 1' '--slots 3' '--slots 5'; do
			((++n))
			LINE=$(sed -n ${n}p inside)
			if [[ -z $held || $asked == "$held" ]]; then
				equal "$LINE" '0 ran 0 ' "run $asked in $held"
			else
				matches "$LINE" "^125 ls: .* 1 dlock: $LOCK: .*${held/#-s/--shared}" "run $asked in $held"
			fi
			if [[ $held != "$asked" && $held$asked == *slots*slots* ]]; then
				matches "$LINE" "with $held, which does not cover $asked: " "run $asked in $held"
			fi
		done
		is_free
	done
	nothing_left
}

# bats test_tags=program
@test "a lock inside another inside itself does not deadlock" {
	run --separate-stderr -0 timeout 10 \
		"$DLOCK" run "$LOCK" -- "$DLOCK" run "$LOCK-b" -- "$DLOCK" run "$LOCK" -- \
		"$DLOCK" run "$LOCK-b" -- sh -c 'echo "$DLOCK_NAME"'
	equal "$output" "$LOCK-b"
	is_free
	nothing_left
}

# release_refused TOKEN: release fails with a line that says what to do, and the run still holds
release_refused() {
	run --separate-stderr -123 "$DLOCK" release "$LOCK" "$1"
	equal "$output" ""
	one_line "$LOCK" 'dlock run' 'end that command'
	"$DLOCK" verify "$LOCK" "$1"
	is_held
}

# bats test_tags=program
@test "release of what run holds is refused: the command stays protected" {
	local mode
	for mode in '' -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		hold $mode --
		release_refused "$TOKEN"
		release_refused "$TOKEN"
		# The release of an acquisition made inside changes nothing.
		# shellcheck disable=SC2086 # words
		equal "$(DLOCK_TOKEN=$TOKEN "$DLOCK" acquire $mode "$LOCK")" "$TOKEN+1"
		"$DLOCK" release "$LOCK" "$TOKEN+1"
		release_refused "$TOKEN"
		alive "$COMMAND"
		release
		is_free
		run --separate-stderr -123 "$DLOCK" release "$LOCK" "$TOKEN"
		one_line 'does not hold the lock'
	done
	nothing_left
	# The same from within the command.
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- bash -c '
		"$DLOCK" release "$LOCK" 2>err
		[ $? = 123 ] || exit 1
		env -i "$DLOCK" run -b "$DLOCK_BACKEND" -n -E 9 "$LOCK" -- true 2>&1
		[ $? = 9 ] || exit 2'
	has_line err 'dlock run'
	is_free
	nothing_left
}

# bats test_tags=more
@test "run with a token that does not hold starts nothing while somebody else holds the lock" {
	local old
	mapfile -d '' old < <("$DLOCK" run "$LOCK" -- env -0)
	hold --
	# a token that was right once, with all that went with it
	run --separate-stderr -123 env -i "${old[@]}" "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "$LOCK"
	# one that other programs or tests make up
	run --separate-stderr -124 env DLOCK_NAME="$LOCK" DLOCK_TOKEN=0123456789abcdef0123456789abcdef \
		"$DLOCK" run -n "$LOCK" -- touch ran
	[[ ! -e ran ]]
	release
	nothing_left
}

# ---- the workload

# finish PID...: waits until all of them have ended, and checks that their status is 0
finish() {
	local pid
	for pid; do
		join "$pid" 60
		[[ $status == 0 ]] || fail "status of one: $status; all of them said: $(cat err.*)"
	done
}

# for_many: gives a hundred processes at once the time to connect and to be answered, though other
# suites keep the processors busy
for_many() {
	case $DLOCK_BACKEND in
	file:* | memory:*) ;;
	*\?*) DLOCK_BACKEND+='&connect-timeout=60s&timeout=8s' ;;
	*) DLOCK_BACKEND+='?connect-timeout=60s&timeout=8s' ;;
	esac
}

# The next countdown, which kills processes, runs for every store.
# bats test_tags=deeper
@test "countdown: many processes at once print each number once and in order" {
	local n most all=()
	for_many
	most=$(long_or 100 30)
	echo "$most" >number
	for ((n = 0; n <= most; n++)); do
		start "$DLOCK" run "$LOCK" -- "$TOP/tests/conformance/countdown" number log
		all+=("$PID")
	done
	finish "${all[@]}"
	diff <(seq "$most" -1 0) log
	nothing_left
}

# bats test_tags=more
@test "countdown: one process in ten is killed inside, and no number is skipped" {
	local n all=()
	for_many
	mkdir faults
	echo 40 >number
	for n in {1..45}; do
		start "$DLOCK" run -k 1s "$LOCK" -- "$TOP/tests/conformance/countdown" number log faults
		all+=("$PID")
	done
	local codes=()
	for n in "${all[@]}"; do
		join "$n" 60
		codes+=("$status")
	done
	equal "$(printf '%s\n' "${codes[@]}" | sort | uniq -c | tr -s ' \n' ' ')" " 41 0 4 137 " \
		"statuses; all of them said: $(cat err.*); statuses"
	diff <(for n in {40..0}; do echo "$n"; if ((n % 10 == 0 && n > 0)); then echo "$n"; fi; done) log
	nothing_left
}

# bats test_tags=own
@test "two buyers of a stock of 5 leave 3 when both ask under the lock" {
	echo 5 >stock
	local buyer=()
	for _ in 1 2; do
		start "$DLOCK" run "$LOCK" -- sh -c '
			stock=$(cat stock)
			[ "$stock" -ge 1 ] || exit 1
			sleep 0.1
			echo $((stock - 1)) >stock'
		buyer+=("$PID")
	done
	finish "${buyer[@]}"
	equal "$(<stock)" 3
}
