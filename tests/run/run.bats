# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock run as a program: status, environment, descriptors, signals, options, files.
# What has to do with the lock itself is in conformance/.

load ../lib/helpers
load ../redis/server

# ---- exit status

@test "the status is the command's own, also where dlock uses that number" {
	local code
	for code in 0 1 42 122 123 124 125 126 127 255; do
		run --separate-stderr "-$code" "$DLOCK" run "$LOCK" -- sh -c 'exit "$0"' $code
		equal "$stderr" ""
	done
}

@test "the status is 128+N when the command dies of signal N" {
	local sig
	for sig in HUP:129 KILL:137 SEGV:139 TERM:143 USR1:138; do
		run --separate-stderr "-${sig#*:}" "$DLOCK" run "$LOCK" -- sh -c "kill -${sig%:*} \$\$"
	done
	is_free
}

@test "the status is 127 for a command that is not there, 126 for one that cannot be executed" {
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- no-such-command-at-all
	one_line no-such-command-at-all
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- ./none
	one_line '\./none'
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- "echo hi"
	one_line "echo hi: command not found; for a shell command: sh -c 'echo hi'\$"
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- "./$EVIL"
	harmless "$stderr"
	one_line 'dlock: forged'
	echo 'exit 0' >plain
	run --separate-stderr -126 "$DLOCK" run "$LOCK" -- ./plain
	one_line '\./plain'
	printf '#!/usr/bin/pyhton -u\n' >job
	chmod +x job
	run --separate-stderr -127 "$DLOCK" run "$LOCK" -- ./job
	one_line "^dlock: $LOCK: \./job: its interpreter was not found\$"
	run --separate-stderr -127 env PATH="/nowhere:$T:$PATH" "$DLOCK" run "$LOCK" -- job
	one_line "^dlock: $LOCK: job: command not found\$"
	run --separate-stderr -126 "$DLOCK" run "$LOCK" -- /
	one_line '/'
	is_free
}

@test "-c STRING is a command of sh, before the name and after it; without a name as with -- sh -c" {
	local text='echo "$0 $DLOCK_NAME"; exit 3'
	# flock(1) would take this shell
	export SHELL=/nowhere
	run --separate-stderr -3 "$DLOCK" run -c "$text" "$LOCK"
	equal "$output" "sh $LOCK"
	run --separate-stderr -3 "$DLOCK" run -qc "$text" "$LOCK"
	equal "$output" "sh $LOCK"
	run --separate-stderr -3 "$DLOCK" run -n "$LOCK" -c "$text"
	equal "$output" "sh $LOCK"
	run --separate-stderr -3 "$DLOCK" run "$LOCK" --command="$text"
	equal "$output" "sh $LOCK"
	run --separate-stderr -0 "$DLOCK" run -c 'echo "$DLOCK_NAME"'
	equal "$output" "$("$DLOCK" run -- sh -c 'echo "$DLOCK_NAME"')"
	# behind -- it is the command's
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- sh -c 'echo "$*"' sh -c x
	equal "$output" "-c x"
}

# ---- what the command sees

@test "a run inside a run of another lock finds the hold around that, and its fence" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		export DLOCK_BACKEND=$backend
		run -0 "$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE" >fence
			"$DLOCK" run "$0-b" -- "$DLOCK" run "$0-c" -- "$DLOCK" run -n "$0" -- sh -c "
				echo \$DLOCK_FENCE >inner; exec \"\$DLOCK\" run -n $0-b -- true"' "$LOCK"
		equal "$(<inner)" "$(<fence)"
	done
	# Without the lock, no hold around it counts.
	run -124 "$DLOCK" run "$LOCK" -- env -u DLOCK_TOKEN -u DLOCK_OUTER "$DLOCK" run -n "$LOCK" -- true
}

@test "the command's environment is that of dlock and five variables" {
	"$DLOCK" run "$LOCK" -- env | sort >inside
	env | sort >outside
	comm -13 outside inside >added
	comm -23 outside inside >removed
	equal "$(cut -d= -f1 added | grep -v '^_$' | tr '\n' ' ')" "DLOCK_FENCE DLOCK_NAME DLOCK_OUTER DLOCK_TOKEN "
	equal "$(grep -v '^_=' removed)" ""
	has_line inside "^DLOCK_BACKEND=$FILE\$"
	has_line inside "^DLOCK_NAME=$LOCK\$"
	has_line inside '^DLOCK_TOKEN=[0-9a-f]{32}$'
	has_line inside '^DLOCK_FENCE=[0-9]{16,}$'
	has_line inside '^DLOCK_OUTER=[0-9a-f]{32}$'
}

@test "DLOCK_BACKEND is the backend in use, named or default" {
	run -0 "$DLOCK" run -b "file://$T/locks" "$LOCK" -- printenv DLOCK_BACKEND
	equal "$output" "file://$T/locks"
	printf '[here]\nuri = file://%s\n' "$LOCKS" >"$XDG_CONFIG_HOME/dlock.conf"
	run -0 "$DLOCK" run -b here "$LOCK" -- sh -c 'exec "$0" run -n "$DLOCK_NAME" -- true' "$DLOCK"
}

@test "tokens differ from run to run" {
	local first
	first=$("$DLOCK" run "$LOCK" -- printenv DLOCK_TOKEN)
	run -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_TOKEN
	[[ $output != "$first" ]]
}

# same_as_direct ARG...: sigprobe sees the same with and without dlock around it. (-o: the descriptor
# of a lock file is for file.bats.)
same_as_direct() {
	local backend
	"$@" "$TOOLS/sigprobe" -sdn | grep -v '^pgid:' >direct
	for backend in "$FILE" "$REDIS"; do
		"$@" "$DLOCK" run -o -b "$backend" "$LOCK" -- "$TOOLS/sigprobe" -sdn | grep -v '^pgid:' >under
		# Only the numbers of the pipes differ.
		diff <(sed 's/pipe:.*/pipe/' direct) <(sed 's/pipe:.*/pipe/' under)
	done
}

@test "descriptors, signal mask and dispositions are those that dlock was given" {
	same_as_direct env
	same_as_direct env --ignore-signal=HUP,INT,PIPE,USR2,CHLD --block-signal=USR1,TERM,WINCH
	exec 7</dev/zero 9>>"$T/nine"
	same_as_direct env
	exec 7<&- 9>&-
}

@test "standard descriptors that are closed stay closed, and nothing fails" {
	"$DLOCK" run "$LOCK" -- "$TOOLS/sigprobe" -dn <&- >closed
	equal "$(grep -c '^fd 0 ' closed)" 0
	"$DLOCK" run "$LOCK" -- sh -c '"$0" -dn >closed' "$TOOLS/sigprobe" <&- >&- 2>&-
	equal "$(grep -c '^fd [02] ' closed)" 0
	hold --
	run -124 sh -c 'exec "$DLOCK" run -n "$0" -- true <&- >&- 2>&-' "$LOCK"
	release
}

# without_dev SCRIPT [ARG]...: runs a shell script where /dev is empty
without_dev() {
	unshare -m sh -c 'mount -t tmpfs none /dev && eval "$0"' "$@"
}

# bats test_tags=more
@test "without /dev/null nothing hangs, and no message goes astray" {
	need_root
	local backend
	timed without_dev 'exec "$DLOCK" acquire -t 6s "$LOCK"'
	equal "$status" 0
	took "$MS" 0 4000
	"$DLOCK" release "$LOCK" "$output"
	timed without_dev 'exec "$DLOCK" run --min-hold 6s "$LOCK-kept" -- echo done'
	equal "$status $output" "0 done"
	took "$MS" 0 4000
	for backend in "$FILE" "$REDIS"; do
		rm -f ran
		timed without_dev 'exec "$DLOCK" run -v -b "$1" "$LOCK" -- "$BUILD/tests/lib/tools/sigprobe" -dn \
			<&- >&- 2>&-' "$backend"
		equal "$status" 0
		took "$MS" 0 4000
	done
	# The command finds them closed.
	without_dev 'exec "$DLOCK" run "$LOCK" -- "$TOOLS/sigprobe" -dn <&- 2>&-' >closed
	equal "$(grep -c '^fd [02] ' closed)" 0
	wait_until 8 eval 'LOCK=$LOCK-kept is_free'
}

@test "the command has a process group of its own in dlock's session" {
	run -0 "$DLOCK" run "$LOCK" -- "$TOOLS/sigprobe" -sn
	matches "$output" 'pgid: own'
	local sid
	sid=$("$TOOLS/sigprobe" -sn | grep '^sid')
	matches "$output" "$sid"
}

@test "working directory, umask, limits and nice value are inherited" {
	mkdir "$T/sub"
	cd "$T/sub"
	run -0 bash -c 'umask 027; ulimit -n 321; ulimit -c 0
		nice -n 3 "$DLOCK" run "$0" -- bash -c "pwd; umask; ulimit -n; nice"' "$LOCK"
	equal "$output" "$(printf '%s\n' "$T/sub" 0027 321 "$(nice -n 3 nice)")"
}

@test "standard input reaches the command, through a pipe too" {
	local backend
	head -c 3000000 /dev/urandom >data
	for backend in "$FILE" "$REDIS"; do
		"$DLOCK" run -b "$backend" "$LOCK" -- cat <data >copy
		cmp data copy
		head -c 3000000 data | "$DLOCK" run -b "$backend" "$LOCK" -- cat | cat >copy
		cmp data copy
	done
	printf 'one\ntwo\n' | { "$DLOCK" run "$LOCK" -- head -c 4; "$DLOCK" run "$LOCK" -- cat; } >copy
	equal "$(<copy)" $'one\ntwo'
}

@test "the output's end is seen as soon as dlock has ended" {
	timed sh -c '"$DLOCK" run --min-hold 5s "$0" -- echo done | cat' "$LOCK"
	equal "$output" "done"
	took "$MS" 0 3000
	# Otherwise the end of the test would have to wait for that process.
	wait_until 8 is_free
}

# bats test_tags=more
@test "the keeper of acquire keeps no pipe of the caller's open, whatever its number" {
	timed bash -c 'exec 300>&1 1500>&1 && exec "$DLOCK" acquire -t 5s "$LOCK"'
	equal "$status" 0
	took "$MS" 0 4000
	"$DLOCK" release "$LOCK" "$output"
}

@test "arguments pass as they are" {
	run -0 "$DLOCK" run "$LOCK" -- printf '<%s>' '' 'a b' -n --wait=1 -- '*' $'new\nline' '$x'
	equal "$output" $'<><a b><-n><--wait=1><--><*><new\nline><$x>'
}

@test "processes are called dlock, dlock-keeper and dlock-guard" {
	hold -b "$REDIS" --
	keeper_of "$HOLDER"
	guard_of "$HOLDER"
	proc_stat "$HOLDER"
	equal "$PROC_COMM" dlock
	child "$GUARD"
	equal "$CHILD" "$COMMAND"
}

@test "the command begins with no signal pending, also where CONT is blocked" {
	run -0 env --block-signal=CONT "$DLOCK" run "$LOCK" -- grep ShdPnd /proc/self/status
	matches "$output" '^ShdPnd:.0+$'
}

# bats test_tags=more
@test "a waiting guard is killed: another one starts the command" {
	local backend waiter
	for backend in "$FILE" "$REDIS"; do
		hold -b "$backend" --
		start "$DLOCK" run -b "$backend" "$LOCK" -- echo started
		waiter=$PID
		guard_of "$waiter"
		kill -KILL "$GUARD"
		wait_until 5 ended "$GUARD"
		release
		join "$waiter"
		equal "$status" 0
		equal "$(<"$OUT")" started
	done
}

# bats test_tags=more
@test "the guard has no child before the lock is there" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		hold -b "$backend" --
		start "$DLOCK" run -b "$backend" "$LOCK" -- true
		guard_of "$PID"
		holds_for 300 not child "$GUARD"
		kill -TERM "$PID"
		join "$PID"
		release
	done
}

@test "a waiting dlock is killed: nothing of it is left" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		hold -b "$backend" --
		start "$DLOCK" run -b "$backend" "$LOCK" -- true
		guard_of "$PID"
		kill -KILL "$PID"
		wait_until 5 ended "$GUARD"
		release
	done
}

@test "a run that does not get its lock leaves nothing to an outer run under another lock" {
	local backend _
	for backend in "$FILE" "$REDIS"; do
		hold -b "$backend" --
		for _ in {1..40}; do
			"$DLOCK" run -v outer -- "$DLOCK" run -b "$backend" -n "$LOCK" -- true || equal $? 124
		done 2>said
		has_line said 'the command ended with status 124'
		not has_line said 'left'
		release
	done
}

@test "inside a run, with the token of another hold in DLOCK_TOKEN, the run's own hold is found" {
	local script='DLOCK_TOKEN=$("$DLOCK" acquire --pid $$ other) && export DLOCK_TOKEN || exit
		"$DLOCK" run -n "$1" -- printenv DLOCK_FENCE
		"$DLOCK" run -n other -- "$DLOCK" run -n "$1" -- printenv DLOCK_FENCE
		"$DLOCK" release other'
	for DLOCK_BACKEND in "$FILE" "$REDIS"; do
		"$DLOCK" run -n "$LOCK" -- sh -c 'printenv DLOCK_FENCE; eval "$0"' "$script" "$LOCK" >fences
		equal "$(uniq -c <fences | tr -s ' ')" " 3 $(head -n 1 fences)"
	done
}

@test "Ctrl-Z before the command is executed stops neither it nor its guard" {
	for DLOCK_BACKEND in "$FILE" "$REDIS"; do
		LD_PRELOAD=$BUILD/tests/preload/early_stop.so timed timeout 20 \
			"$DLOCK" run "$LOCK" -- env -u LD_PRELOAD echo ran
		equal "$status $output" "0 ran"
	done
}

# bats test_tags=more
@test "a guard that hangs after its message to the keeper: dlock sleeps until it goes on" {
	LD_PRELOAD=$BUILD/tests/preload/late_end.so start "$DLOCK" run -b "$REDIS" "$LOCK" -- \
		env -u LD_PRELOAD true
	wait_until 5 "$DLOCK" run -b "$REDIS" -n -q "$LOCK" -- true
	pause 1
	alive "$PID"
	cpu_of "$PID"
	between "$CPU" 0 30 "ticks of dlock"
	join "$PID"
	equal "$status" 0
}

# bats test_tags=more
@test "dlock is delayed while it takes the lock: the keeper does not release it" {
	LD_PRELOAD=$BUILD/tests/preload/late_clock.so run -0 "$DLOCK" run -b "$REDIS" "$LOCK" -- \
		env -u LD_PRELOAD echo started
	equal "$output" started
}

# bats test_tags=more
@test "dlock is delayed for too long after it has taken the lock: the lock is released" {
	export LATE_GUARD_MS=2500
	LD_PRELOAD=$BUILD/tests/preload/late_clock.so run -123 "$DLOCK" run -b "$REDIS" "$LOCK" -- \
		touch started
	equal "$output" "dlock: $LOCK: lock lost: dlock was stopped for too long, and \
gave the lock back; the command is not started"
	[[ ! -e started ]]
	run -0 "$DLOCK" run -b "$REDIS" -n "$LOCK" -- true
}

# bats test_tags=more
@test "dlock is delayed when the guard has taken the lock: the hold began with the command" {
	export LATE_GUARD_MS=0
	# The guard's parent is stopped.
	LD_PRELOAD=$BUILD/tests/preload/late_clock.so run -0 "$DLOCK" run -b "$REDIS" \
		--min-hold 3500ms --metrics m.prom "$LOCK" -- env -u LD_PRELOAD sh -c '
		read -r pid name state parent rest <"/proc/$PPID/stat"
		kill -STOP "$parent"
		sleep 3
		kill -CONT "$parent"
		sleep 0.6'
	has_line m.prom '^dlock_last_wait_seconds.* [0-2][.]'
	run -0 "$DLOCK" run -b "$REDIS" -n "$LOCK" -- true
}

# bats test_tags=more
@test "a guard that is stopped while dlock waits is continued" {
	hold -b "$REDIS" --
	start "$DLOCK" run -b "$REDIS" "$LOCK" -- true
	guard_of "$PID"
	kill -STOP "$GUARD"
	wait_until 5 not stopped "$GUARD"
	idles "$PID"
	holds_for 1500 alive "$GUARD"
}

@test "orphans of the command are reaped while it runs" {
	hold -- sh -c '(sleep 0.01 & echo $! >orphan); exec sleep 300'
	wait_until 5 test -s orphan
	wait_until 5 test ! -e "/proc/$(<orphan)"
	release
}

# ---- signals

@test "signals sent to dlock reach the command" {
	local sig
	hold -- "$TOOLS/sigprobe" -u none
	wait_until 5 has_line "$HOLDER_OUT" '^ready'
	for sig in HUP INT QUIT USR1 USR2 WINCH ALRM CONT TERM; do
		kill "-$sig" "$HOLDER"
		wait_until 3 has_line "$HOLDER_OUT" "^$sig\$"
	done
	alive "$COMMAND"
	# Each signal came once, and no other did.
	equal "$(tail -n +2 "$HOLDER_OUT" | tr '\n' ' ')" "HUP INT QUIT USR1 USR2 WINCH ALRM CONT TERM "
	kill -KILL "$COMMAND"
	join "$HOLDER"
	equal "$status" 137
}

@test "nohup protects the command from HUP" {
	start nohup "$DLOCK" run "$LOCK" -- sh -c 'echo ready; sleep 0.3; echo end'
	wait_until 5 has_line "$OUT" '^ready'
	kill -HUP "$PID"
	join "$PID"
	equal "$status" 0
	has_line "$OUT" '^end$'
}

@test "a command that handles TERM ends as it likes" {
	start "$DLOCK" run "$LOCK" -- "$TOOLS/sigprobe" -u TERM
	wait_until 5 has_line "$OUT" '^ready'
	kill -TERM "$PID"
	join "$PID"
	equal "$status" 0
}

@test "as the first process of a PID namespace it obeys TERM and INT, whatever it does" {
	need_root
	local sig args
	export DLOCK_BACKEND=$REDIS
	hold --
	for sig in TERM:143 INT:130; do
		for args in 'status --watch' "wait $LOCK" "acquire $LOCK" "run $LOCK -- true"; do
			# shellcheck disable=SC2086 # words
			start unshare --pid --fork --mount-proc "$DLOCK" $args
			wait_until 5 child "$PID" dlock
			# The process may not be ready for the first signal.
			wait_until 5 eval 'kill "-${sig%:*}" "$CHILD" || :; ended "$CHILD"' 2>/dev/null
			join "$PID" 5
			equal "$status" "${sig#*:}" "status of $args after $sig"
		done
	done
	release
}

# ---- leftovers

@test "background jobs get TERM, then KILL after --kill-after; the status stays" {
	timed "$DLOCK" run -k 300ms "$LOCK" -- sh -c '
		"$TOOLS/witness" -i -l log &
		sleep 300 &
		while ! grep -qs alive log; do sleep 0.01; done
		echo $! >sleeper
		exit 6'
	equal "$status" 6
	took "$MS" 290 3000
	has_line log ' TERM$'
	ended "$(<sleeper)"
	is_free
}

@test "a daemon ends with the command" {
	timed "$DLOCK" run -k 5s "$LOCK" -- sh -c '
		"$TOOLS/daemonize" -c -p daemon "$TOOLS/witness" -l log
		while ! grep -qs alive log; do sleep 0.01; done'
	equal "$status" 0
	ended "$(<daemon)"
	# One TERM was enough.
	took "$MS" 0 3000
}

# gone PID: not even its zombie is there, which is what a process shows whose main thread has ended
gone() {
	[[ ! -e /proc/$1 ]]
}

# bats test_tags=more
@test "a daemon that forks as the command ends is ended with it" {
	local n
	for n in {1..40}; do
		run --separate-stderr "$DLOCK" run -k 2s "$LOCK" -- \
			sh -c '(setsid sh -c "sleep 303 & exec sleep 304" &) & (sleep 305 &) & exit 6'
		equal "$status" 6
		wait_until 2 no_strays_but
	done
}

@test "where the kernel refuses timers, dlock runs nothing, and names the call" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		run --separate-stderr -125 "$TOOLS/refuse" EPERM timer_create \
			"$DLOCK" run -b "$backend" "$LOCK" -- touch ran
		one_line 'timer_create: Operation not permitted'
		[[ ! -e ran ]]
		is_free
	done
}

@test "a script without #! gets 14000 arguments" {
	echo 'exit $(($# == 14000 ? 7 : 8))' >script
	chmod +x script
	# shellcheck disable=SC2046 # words
	run --separate-stderr -7 "$DLOCK" run "$LOCK" -- ./script $(seq 14000)
}

@test "children from before dlock's time are not the command's" {
	start sh -c 'sleep 306 & echo $! >before
		exec "$0" run -t 2s -k 300ms "$1" -- sh -c "echo \$\$ >inside; exec sleep 307"' "$DLOCK" "$LOCK"
	wait_until 5 test -s inside
	guard_of "$PID"
	kill -KILL "$GUARD"
	join "$PID"
	equal "$status" 137
	ended "$(<inside)"
	alive "$(<before)"
	kill -KILL "$(<before)"
}

@test "a process that may not be killed: dlock names it, and sleeps until it ends" {
	local real before
	strangers
	cp "$(type -P setpriv)" as-root
	chmod 4755 as-root
	install -d -o "$ALICE" -m 0700 locks
	install -o "$ALICE" /dev/null "$T/real"
	chmod 711 "$T" "${T%/*}" "${T%/*/*}" "$BATS_SUITE_TMPDIR"
	DLOCK_BACKEND=file://$OPEN/locks
	start setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups ./dlock run -k 200ms "$LOCK" -- \
		sh -c './as-root --reuid 0 --clear-groups sleep 308 & echo $! >"$0" && sleep 0.2' "$T/real"
	guard_of "$PID"
	line "$T/real"
	real=$LINE
	wait_until 5 has_line "$ERR" "process $real of user 0 may not be signalled"
	cpu_of "$GUARD"
	before=$CPU
	holds_for 1500 alive "$GUARD"
	cpu_of "$GUARD"
	between $((CPU - before)) 0 30 "ticks of the guard in 1.5 s"
	is_held
	kill -KILL "$real"
	join "$PID"
}

# bats test_tags=more
@test "a process that may not be killed: dlock sleeps without guard and keeper, too" {
	local real
	strangers
	cp "$(type -P setpriv)" as-root
	chmod 4755 as-root
	install -o "$ALICE" /dev/null "$T/real"
	chmod 711 "$T" "${T%/*}" "${T%/*/*}" "$BATS_SUITE_TMPDIR"
	start setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups ./dlock run -b "$REDIS" -k 200ms \
		"$LOCK" -- sh -c './as-root --reuid 0 --clear-groups sleep 309 & echo $! >"$0" && sleep 300' \
		"$T/real"
	guard_of "$PID"
	keeper_of "$PID"
	line "$T/real"
	real=$LINE
	# Before that it is a process of this user's.
	wait_until 5 eval 'proc_stat "$real" && [[ $PROC_COMM == sleep ]]'
	kill -KILL "$GUARD"
	wait_until 5 has_line "$ERR" "process $real of user 0 may not be signalled"
	kill -KILL "$KEEPER"
	idles "$PID"
	kill -KILL "$real"
	join "$PID"
}

# bats test_tags=more
@test "a process whose main thread has ended while another runs on is ended like any other" {
	# The command leaves this process behind, which ignores TERM.
	timed "$DLOCK" run -k 300ms "$LOCK" -- sh -c '
		setsid "$TOOLS/deadmain" -i 60 >pid &
		while ! [ -s pid ]; do sleep 0.01; done
		exit 6'
	equal "$status" 6
	took "$MS" 290 5000
	matches "$stderr" 'left 1 process '
	gone "$(<pid)"
	is_free
	# The guard is dead, so that the supervisor has to end the process.
	hold -- sh -c 'setsid "$TOOLS/deadmain" -i 60 >other & exec sleep 300'
	wait_until 5 test -s other
	guard_of "$HOLDER"
	kill -KILL "$GUARD"
	join "$HOLDER"
	gone "$(<other)"
	is_free
	# Here the process is the command itself.
	start "$DLOCK" run -k 300ms "$LOCK" -- "$TOOLS/deadmain" -i 60
	line "$OUT"
	kill -TERM "$PID"
	# dlock passes a signal on to the command.
	holds_for 500 not gone "$LINE"
	kill -KILL "$LINE"
	join "$PID"
	equal "$status" 137
	gone "$LINE"
}

# ---- usage

# usage_error REGEX ARG...: dlock refuses these arguments in one line that names the thing
usage_error() {
	local regex=$1
	shift
	run --separate-stderr -125 "$DLOCK" "$@"
	equal "$output" "" stdout
	one_line "$regex"
	[[ ! -e ran ]]
}

@test "usage errors: status 125, one line that names the thing, nothing run" {
	local long
	printf -v long '%201s' ''
	# The short help, because nothing has run.
	run --separate-stderr -125 "$DLOCK"
	matches "$stderr" '^usage: dlock COMMAND'
	equal "$output" ''
	usage_error frobnicate frobnicate
	usage_error --frobnicate --frobnicate
	usage_error --frobnicate run --frobnicate "$LOCK" -- touch ran
	usage_error "unknown backend 'consul:': known are file:, redis:, rediss:, redis\+unix:, \
redis\+sentinel:, redis\+cluster:, redlock:, zookeeper:, etcd:, etcds:, mysql:, postgresql:\$" \
		run -b consul://h "$LOCK" -- touch ran
	usage_error Z run -Z "$LOCK" -- touch ran
	usage_error 'did you mean --wait' run --wiat 1s "$LOCK" -- touch ran
	usage_error "option '--pid'" run --pid 1 "$LOCK" -- touch ran
	usage_error "did you mean 'run'" rnu "$LOCK" -- touch ran
	usage_error "dlock run $LOCK -- COMMAND" "$LOCK" -- touch ran
	usage_error "dlock run \[OPTION\]... NAME -- COMMAND" --wait 1s "$LOCK" -- touch ran
	# what users of flock(1) write
	usage_error "-c cannot be combined with a command behind '--'" run -c "$LOCK" -- touch ran
	usage_error exclusive run -x "$LOCK" -- touch ran
	usage_error 'dlock release' run -u "$LOCK" -- touch ran
	usage_error "dlock release" unlock "$LOCK"
	usage_error "dlock run NAME -- COMMAND' or 'dlock acquire NAME" lock "$LOCK" -- touch ran
	usage_error "dlock status" list
	usage_error "dlock status" ls
	usage_error 'no CMD given' run --on-lost-run '' "$LOCK" -- touch ran
	usage_error 'no FILE given' run --metrics '' "$LOCK" -- touch ran
	usage_error 'COMMAND|command' run "$LOCK"
	usage_error 'COMMAND|command' run "$LOCK" --
	usage_error 'COMMAND|command' run
	# what a shell leaves of -b URI?A=1&B=2 NAME -- COMMAND
	usage_error 'no command given; a URI with & needs quotes' run -b "$REDIS?timeout=1s"
	usage_error 'no NAME given; a URI with & needs quotes' acquire -b "$REDIS?timeout=1s"
	usage_error "no command given: put it behind '--'" run -b "$REDIS?timeout=1s" "$LOCK"
	usage_error 'COMMAND|command' run --
	usage_error 'COMMAND|command' run "$LOCK" touch ran
	usage_error ' -w' run -w
	usage_error --wait run --wait
	usage_error nonblock run --nonblock=1 "$LOCK" -- touch ran
	usage_error 'name' run "${long// /x}" -- touch ran
	usage_error 'name' run '' -- touch ran
	usage_error 'name' run $'a\nb' -- touch ran
	usage_error 'name' run $'a\x7fb' -- touch ran
	usage_error 'name' run $'a\xc2\x85b' -- touch ran
	usage_error 'name' run $'a\xffb' -- touch ran
	usage_error 'name' run $'\xed\xa0\x80' -- touch ran
	usage_error nobody help nobody
}

@test "senseless values of options are refused" {
	local value option
	for option in -w -t -k --min-hold; do
		for value in '' x 1x -1 +1 1h-1m 1e3 ' 1' '1 ' 1..2 . s 1h30 9223372036854775807d 99999999999999999999; do
			usage_error "$option|--[a-z]*|duration" run "$option" "$value" "$LOCK" -- touch ran
		done
	done
	for value in 0 999ms 0.5; do
		usage_error 'ttl|TTL' run -t $value "$LOCK" -- touch ran
	done
	for value in '' x -1 256 1.5 0x10 99999999999999999999; do
		usage_error 'conflict|-E' run -E "$value" "$LOCK" -- touch ran
	done
	usage_error maybe run --on-lost maybe "$LOCK" -- touch ran
	usage_error maybe run --if-down maybe "$LOCK" -- touch ran
}

@test "durations of every form are taken" {
	local value
	for value in 2 2s 1.5s 0.5h 1500ms 1m 1h30m 1d2h3m4s5ms; do
		run --separate-stderr -0 "$DLOCK" run -t $value -w $value "$LOCK" -- true
	done
}

@test "no duration is longer than 10 years, wherever it comes from" {
	local value option
	for value in 315360000001ms 3651d 18446744073712552ms 18446744073709551617s; do
		for option in --wait --ttl --kill-after --min-hold; do
			usage_error "$option: .*$value.*10 years" run "$option" "$value" "$LOCK" -- touch ran
		done
		DLOCK_TTL=$value usage_error "DLOCK_TTL: .*10 years" run "$LOCK" -- touch ran
		DLOCK_WAIT=$value usage_error "DLOCK_WAIT: .*10 years" run "$LOCK" -- touch ran
		usage_error 'timeout.*10 years' run -b "file:?timeout=$value" "$LOCK" -- touch ran
		usage_error 'connect-timeout.*10 years' run -b "file:?connect-timeout=$value" "$LOCK" -- touch ran
		echo "ttl = $value" >"$XDG_CONFIG_HOME/dlock.conf"
		usage_error 'dlock.conf:1: .*10 years' run "$LOCK" -- touch ran
		rm "$XDG_CONFIG_HOME/dlock.conf"
	done
	run --separate-stderr -0 "$DLOCK" run -t 3650d -w 3650d -k 1200d \
		-b 'file:?timeout=3650d&connect-timeout=3650d' "$LOCK" -- true
}

@test "senseless URIs are refused" {
	local uri
	while read -r regex uri; do
		usage_error "$regex" run -b "$uri" "$LOCK" -- touch ran
	done <<-'END'
		nosuch nosuch://host
		colon|scheme|backend nosuchname
		host redis://
		host redis:///0
		port redis://127.0.0.1:99999
		port redis://127.0.0.1:0
		port redis://127.0.0.1:x
		% redis://127.0.0.1/%zz
		% redis://us%4er:p%4@127.0.0.1
		frobnicate redis://127.0.0.1?frobnicate=1
		timeout redis://127.0.0.1?timeout=x
		timeout redis://127.0.0.1?timeout=1s&timeout=2s
		host redis://127.0.0.1,127.0.0.2
		db|database redis://127.0.0.1/x
		db|database redis://127.0.0.1/-1
		db|database redis+unix:///tmp/s?db=x
		path redis+unix://
		\] redis://[::1
		password-file|none redis://127.0.0.1?password-file=/none
		host file://host/dir
		frobnicate file:///tmp?frobnicate=1
	END
}

@test "the short and the long form, with = and without, mean the same" {
	hold --
	local form
	for form in '-n -E 9' '-nE9' '-nE 9' '--nonblock --conflict-exit-code=9' \
		'--nonblock --conflict-exit-code 9' '-w0 -E9' '--wait=0 -E9' '-qnE9'; do
		# shellcheck disable=SC2086 # words
		run -9 "$DLOCK" run $form "$LOCK" -- true
	done
	release
}

@test "options of run end at --, and stand also behind NAME" {
	run -0 "$DLOCK" run "$LOCK" -- printf '%s ' -n --wait --
	equal "$output" "-n --wait -- "
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -v -- true
	matches "$stderr" "acquired after"
}

@test "other commands take options anywhere before --" {
	local other=file://$T/other
	mkdir -m 0700 other
	hold -b "$other" --
	run -0 "$DLOCK" status "$LOCK"
	run -1 "$DLOCK" status "$LOCK" -b "$other"
	run -1 env POSIXLY_CORRECT=1 "$DLOCK" status "$LOCK" -b "$other" --json
	matches "$output" '^\{.*"held":true'
	run -1 "$DLOCK" status free -b "$other" "$LOCK"
	equal "${#lines[@]}" 3
	run -124 "$DLOCK" acquire "$LOCK" -n -b "$other"
	# behind -- a word is a name, whatever it looks like
	run --separate-stderr -0 "$DLOCK" status -- -b "$other"
	matches "${lines[1]}" '^-b  '
	usage_error "command behind '--'.*'dlock run'" acquire "$LOCK" -- true
}

@test "help and version go to stdout" {
	local option
	for args in help --help 'help run' 'run --help' 'run -h' version --version; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -0 "$DLOCK" $args
		[[ -n $output ]]
		equal "$stderr" "" "stderr of $args"
	done
	run -0 "$DLOCK" run --help
	for option in --backend --nonblock --wait --ttl --conflict-exit-code --min-hold --close --no-renew \
		--kill-after --on-lost --if-down --help; do
		matches "$output" "$option"
	done
	run -0 "$DLOCK" version
	matches "$output" '^dlock [0-9]+\.[0-9]+'
	# Output that cannot be written is an error.
	run --separate-stderr -125 sh -c '"$DLOCK" --help >/dev/full'
	one_line 'No space left on device$'
	run --separate-stderr -125 sh -c '"$DLOCK" version >&-'
	one_line 'Bad file descriptor$'
}

@test "-q prints less, -v reports each step, on stderr" {
	run --separate-stderr -0 "$DLOCK" run -v "$LOCK" -- echo out
	equal "$output" out
	matches "$stderr" "$LOCK"
	hold --
	run --separate-stderr -124 "$DLOCK" run -q -n "$LOCK" -- true
	equal "$stderr" ""
	release
}

# ---- the name that is derived

# fnv1a: prints the hash of standard input, 16 hex digits
fnv1a() {
	local hash=$((0xcbf29ce484222325)) byte
	for byte in $(od -An -v -tu1); do
		hash=$(((hash ^ byte) * 0x100000001b3))
	done
	printf %016x "$hash"
}

@test "without NAME the name is the command's basename and a hash of its arguments" {
	equal "$(printf foobar | fnv1a)" 85944171f73967e8 "the tests' own FNV-1a"
	run -0 "$DLOCK" run -- printenv DLOCK_NAME
	equal "$output" "printenv-$(printf 'printenv\0DLOCK_NAME' | fnv1a)"
	run -0 "$DLOCK" run -- /usr/bin/env sh -c 'echo "$DLOCK_NAME"' 'a b' ''
	equal "$output" "env-$(printf '%s\0' /usr/bin/env sh -c 'echo "$DLOCK_NAME"' 'a b' | fnv1a)"
}

@test "derived names: the same command excludes itself, another does not" {
	start "$DLOCK" run -- sh -c 'echo in; exec sleep 300' x
	wait_until 5 has_line "$OUT" in
	run -124 "$DLOCK" run -n -- sh -c 'echo in; exec sleep 300' x
	run -0 "$DLOCK" run -n -- sh -c 'echo in; exec sleep 0' x
}

# ---- reentrancy across backends

@test "the same name on another backend is another lock" {
	mkdir -m 0700 other
	start "$DLOCK" run -b "file://$T/other" "$LOCK" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	run -124 "$DLOCK" run "$LOCK" -- "$DLOCK" run -n -b "file://$T/other" "$LOCK" -- true
	run -0 "$DLOCK" run "$LOCK" -- "$DLOCK" run -n -b "$REDIS" "$LOCK" -- true
}

# ---- secrets

@test "a password shows in no argument list and no message" {
	private_redis --requirepass Sesame8
	local uri=redis://:Sesame8@127.0.0.1:$P_PORT form pid
	for form in "-b $uri" "-b$uri" "--backend=$uri" "--backend $uri"; do
		# shellcheck disable=SC2086 # words
		hold -v $form --
		for pid in "$HOLDER" $(tree "$HOLDER"); do
			not grep -aq Sesame8 "/proc/$pid/cmdline"
		done
		tr '\0' ' ' <"/proc/$HOLDER/cmdline" >cmdline
		has_line cmdline "$LOCK"
		# shellcheck disable=SC2086 # words
		run -124 "$DLOCK" run -v -n $form "$LOCK" -- true
		[[ $output != *Sesame8* ]]
		release
		not has_line "$HOLDER_ERR" Sesame8
	done
	run --separate-stderr -122 "$DLOCK" run -b "redis://:Sesame9@127.0.0.1:$P_PORT" "$LOCK" -- true
	[[ $stderr != *Sesame* ]]
	run -125 "$DLOCK" run -b "redis://:Sesame9@127.0.0.1:x" "$LOCK" -- true
	[[ $output != *Sesame* ]]
	run -125 "$DLOCK" run -b "nosuch://:Sesame9@127.0.0.1" "$LOCK" -- true
	[[ $output != *Sesame* ]]
}

@test "a token shows in no argument list and no message" {
	hold -v -b "$REDIS" --
	local pid
	for pid in "$HOLDER" $(tree "$HOLDER"); do
		not grep -aq "$TOKEN" "/proc/$pid/cmdline"
	done
	run -124 "$DLOCK" run -v -n -b "$REDIS" "$LOCK" -- true
	[[ $output != *"$TOKEN"* ]]
	release
	not has_line "$HOLDER_ERR" "$TOKEN"
}

# ---- config file and environment

@test "the command line overrides the environment, which overrides the user's file" {
	local dir
	for dir in line environment user; do
		mkdir -m 0700 "$dir"
	done
	printf 'backend = mine\n[mine]\nuri = file://%s/user\n[env]\nuri = file://%s/environment\n' \
		"$T" "$T" >"$XDG_CONFIG_HOME/dlock.conf"
	env -u DLOCK_BACKEND "$DLOCK" run "$LOCK" -- true
	[[ -e user/$LOCK.lock && ! -e environment/$LOCK.lock ]]
	DLOCK_BACKEND='env' "$DLOCK" run "$LOCK" -- true
	[[ -e environment/$LOCK.lock && ! -e line/$LOCK.lock ]]
	rm -- */"$LOCK.lock"
	DLOCK_BACKEND='env' "$DLOCK" run -b "file://$T/line" "$LOCK" -- true
	equal "$(ls -d -- */"$LOCK.lock")" "line/$LOCK.lock"
}

# private_etc COMMAND...: runs COMMAND with ./etc for /etc, and no backend in the environment
private_etc() {
	env -u DLOCK_BACKEND unshare -m sh -c 'mount --bind etc /etc && exec "$@"' sh "$@"
}

@test "the user's file overrides the system's file" {
	need_root
	local dir
	for dir in user system etc; do
		mkdir -m 0700 "$dir"
	done
	cp -a /etc/passwd /etc/group /etc/nsswitch.conf etc
	chmod 0755 etc
	printf 'backend = file://%s/system\nwait = 0\n' "$T" >etc/dlock.conf
	run -0 private_etc "$DLOCK" run "$LOCK" -- true
	[[ -e system/$LOCK.lock ]]
	printf 'backend = file://%s/user\n' "$T" >"$XDG_CONFIG_HOME/dlock.conf"
	# The user's file does not set wait, so that the system's file says not to wait.
	DLOCK_BACKEND=file://$T/user hold --
	run -124 private_etc "$DLOCK" run "$LOCK" -- true
	[[ -e user/$LOCK.lock ]]
}

@test "without XDG_CONFIG_HOME the user's file is in ~/.config" {
	mkdir "$HOME/.config"
	echo 'ttl = nonsense' >"$HOME/.config/dlock.conf"
	run --separate-stderr -125 env -u XDG_CONFIG_HOME "$DLOCK" run "$LOCK" -- true
	one_line "$HOME/.config/dlock.conf"
}

@test "wait and TTL are taken from the file, the environment and the command line" {
	hold --
	echo 'wait = 1h' >"$XDG_CONFIG_HOME/dlock.conf"
	run -124 env DLOCK_WAIT=0 "$DLOCK" run "$LOCK" -- true
	run -124 env DLOCK_WAIT=1h "$DLOCK" run -w 0 "$LOCK" -- true
	run -124 env DLOCK_WAIT=1h "$DLOCK" run -n "$LOCK" -- true
	echo 'wait = 10ms' >"$XDG_CONFIG_HOME/dlock.conf"
	run -124 "$DLOCK" run "$LOCK" -- true
	release

	local pttl='redis-cli -p "$0" pttl "dlock:$DLOCK_NAME"'
	echo 'ttl = 100s' >"$XDG_CONFIG_HOME/dlock.conf"
	run -0 "$DLOCK" run -b "$REDIS" "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 90000 100000
	run -0 env DLOCK_TTL=50s "$DLOCK" run -b "$REDIS" "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 40000 50000
	run -0 env DLOCK_TTL=50s "$DLOCK" run -t 10s -b "$REDIS" "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 1 10000
	rm "$XDG_CONFIG_HOME/dlock.conf"
	run -0 "$DLOCK" run -b "$REDIS" "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 20000 30000
}

@test "a senseless value in the environment is refused, with the variable's name" {
	DLOCK_TTL=x usage_error DLOCK_TTL run "$LOCK" -- touch ran
	DLOCK_TTL=10ms usage_error 'DLOCK_TTL|TTL|ttl' run "$LOCK" -- touch ran
	DLOCK_WAIT=x usage_error DLOCK_WAIT run "$LOCK" -- touch ran
	DLOCK_BACKEND=nosuch://x usage_error nosuch run "$LOCK" -- touch ran
}

@test "config files that are wrong are refused with path and line" {
	local conf=$XDG_CONFIG_HOME/dlock.conf
	printf 'wait = 1s\nfrobnicate = 1\n' >"$conf"
	usage_error "$conf.*2" run "$LOCK" -- touch ran
	printf '\n\nttl = soon\n' >"$conf"
	usage_error "$conf.*3" run "$LOCK" -- touch ran
	printf '[a]\nurl = x\n' >"$conf"
	usage_error "$conf.*2" run "$LOCK" -- touch ran
	printf 'nonsense\n' >"$conf"
	usage_error "$conf.*1" run "$LOCK" -- touch ran
	rm "$conf"
	mkdir "$conf"
	usage_error "$conf" run "$LOCK" -- touch ran
	rmdir "$conf"
	mkfifo "$conf"
	usage_error "$conf" run "$LOCK" -- touch ran
}

@test "a config file or password file that others may read gets a warning" {
	private_redis --requirepass Sesame8
	local conf=$XDG_CONFIG_HOME/dlock.conf secret=$T/secret
	printf '[r]\nuri = redis://:Sesame8@127.0.0.1:%s\n' "$P_PORT" >"$conf"
	chmod 0600 "$conf"
	run --separate-stderr -0 "$DLOCK" run -b r "$LOCK" -- true
	equal "$stderr" ""
	chmod 0644 "$conf"
	run --separate-stderr -0 "$DLOCK" run -b r "$LOCK" -- true
	one_line "$conf"
	[[ $stderr != *Sesame* ]]
	rm "$conf"
	echo Sesame8 >"$secret"
	chmod 0600 "$secret"
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?password-file=$secret" "$LOCK" -- true
	equal "$stderr" ""
	chmod 0644 "$secret"
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?password-file=$secret" "$LOCK" -- true
	one_line "$secret"
}

# ---- if-down

@test "--if-down run runs the command without the lock, and warns; fail is the default" {
	# Nobody listens there.
	local uri=redis://127.0.0.1:1
	run --separate-stderr -122 "$DLOCK" run -b $uri "$LOCK" -- touch ran
	one_line '127\.0\.0\.1:1'
	run --separate-stderr -122 "$DLOCK" run --if-down fail -b $uri "$LOCK" -- touch ran
	[[ ! -e ran ]]
	run --separate-stderr -9 "$DLOCK" run --if-down run -b $uri "$LOCK" -- sh -c 'touch ran; echo "${DLOCK_TOKEN-none}"; exit 9'
	[[ -e ran ]]
	equal "$output" none
	matches "$stderr" 'dlock: .*127\.0\.0\.1:1'
	matches "$stderr" 'unprotected|without'
}

@test "--if-down wait: a run waits for a server that starts later; without one it ends with 122 after -w" {
	private_redis
	server_stop "$P_DIR"
	start "$DLOCK" run -v --if-down wait -w 60s -b "$P_URI" "$LOCK" -- touch ran
	local waiter=$PID err=$ERR
	timed "$DLOCK" run -q --if-down wait -w 2s -E 0 -b "$P_URI" "$LOCK" -- touch never
	equal "$status" 122
	one_line 'refused$'
	took "$MS" 1900 3200
	wait_until 5 has_line "$err" 'refused; trying again$'
	run -122 "$DLOCK" run -n --if-down wait -b "$P_URI" "$LOCK" -- touch never
	run -125 "$DLOCK" acquire --if-down run -b "$P_URI" "$LOCK"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	join "$waiter" 15
	equal "$status" 0
	has_line "$err" 'the server is reached again'
	not has_line "$err" 'held by'
	[[ -e ran && ! -e never ]]
}

@test "--if-down run and wait: a wrong password is 122" {
	local how
	private_redis --requirepass Sesame8
	for how in run wait; do
		run --separate-stderr -122 "$DLOCK" run --if-down $how -w 60s -b "redis://:no@127.0.0.1:$P_PORT" "$LOCK" -- touch ran
		one_line 'wrong'
	done
	[[ ! -e ran ]]
}

@test "a server that hangs: -w holds, and is followed by 122 with the reason, or by --if-down run" {
	private_redis
	kill -STOP "$P_PID"
	timed "$DLOCK" run -q -w 1s -E 0 -b "$P_URI" "$LOCK" -- touch ran
	equal "$status" 122
	one_line 'no answer'
	took "$MS" 950 1800
	run --separate-stderr -122 "$DLOCK" acquire -w 1s -E 0 -b "$P_URI" "$LOCK"
	timed "$DLOCK" wait -q -w 1s -E 0 -b "$P_URI" "$LOCK"
	equal "$status" 122
	one_line 'no answer'
	took "$MS" 950 1800
	[[ ! -e ran ]]
	run --separate-stderr -9 "$DLOCK" run -w 1s --if-down run -b "$P_URI" "$LOCK" -- sh -c 'exit 9'
	one_line 'running without the lock$'
	kill -CONT "$P_PID"
}

@test "a run inside one without its lock, or without DLOCK_TOKEN, finds the hold around it" {
	export DLOCK
	run --separate-stderr -0 "$DLOCK" run -b "$FILE" "$LOCK" -- \
		"$DLOCK" run --if-down run -b redis://127.0.0.1:1 other -- \
		"$DLOCK" run -n -b "$FILE" "$LOCK" -- echo inside
	equal "$output" inside
	run --separate-stderr -0 "$DLOCK" run -b "$FILE" "$LOCK" -- env -u DLOCK_TOKEN \
		"$DLOCK" run -n -b "$FILE" "$LOCK" -- echo inside
	equal "$output$stderr" inside
}

# bats test_tags=more
@test "--if-down run: dlock sleeps while the command runs" {
	start "$DLOCK" run --if-down run -b redis://127.0.0.1:1 "$LOCK" -- sh -c 'echo ready; exec sleep 300'
	wait_until 5 has_line "$OUT" ready
	idles "$PID"
}

@test "--if-down run still waits for a lock that somebody holds" {
	hold -b "$REDIS" --
	run -124 "$DLOCK" run -n --if-down run -b "$REDIS" "$LOCK" -- touch ran
	[[ ! -e ran ]]
}

# ---- several locks

@test "several locks: with the outer dlock killed, or its lock broken, the command is dead" {
	local backend how
	for backend in "$FILE" "$REDIS"; do
		for how in kill break; do
			rm -f in
			LOCK=$LOCK-x
			start "$DLOCK" run -b "$backend" -t 3s "$LOCK-a" "$LOCK-b" -- sh -c 'echo $$ >in.new; mv in.new in; exec sleep 300'
			wait_until 10 test -s in
			if [[ $how == kill ]]; then
				kill -KILL "$PID"
			else
				"$DLOCK" break --yes -b "$backend" "$LOCK-a"
			fi
			join "$PID" 15
			[[ $how == kill ]] || equal "$status" 123
			wait_until 10 gone "$(<in)"
			wait_until 10 "$DLOCK" run -n -b "$backend" "$LOCK-a" "$LOCK-b" -- true
		done
	done
}

@test "several locks: --max-run counts for the command, and --metrics has what happened" {
	hold -b "$FILE" --
	start "$DLOCK" run --max-run 1s --metrics metrics -b "$FILE" "$LOCK" "$LOCK-b" -- sleep 300
	local run=$PID
	pause 1.2
	release
	join "$run" 30
	equal "$status" 121
	has_line metrics '^dlock_last_exit_status.* 121$'
	run -0 "$DLOCK" run -b "$FILE" "$LOCK-b" -- \
		env -u DLOCK_TOKEN -u DLOCK_OUTER "$DLOCK" run -n -E 0 --metrics metrics -b "$FILE" "$LOCK" "$LOCK-b" -- touch ran
	[[ ! -e ran ]]
	has_line metrics '^dlock_last_busy.* 1$'
}

# ---- --leftovers leave

@test "--leftovers leave: the lock is released when the command ends, and a daemon lives on" {
	local backend mode
	for backend in "$FILE" "$REDIS"; do
		for mode in '' '-s'; do
			# shellcheck disable=SC2086 # perhaps no word
			run --separate-stderr -0 "$DLOCK" run $mode --leftovers leave -b "$backend" "$LOCK" -- \
				sh -c 'setsid sleep 300 >/dev/null 2>&1 3>&- 4>&- & echo $! >daemon'
			equal "$stderr" ""
			run -0 "$DLOCK" run -n -b "$backend" "$LOCK" -- true
			kill "$(<daemon)"
		done
	done
	run --separate-stderr -0 "$DLOCK" run -b "$FILE" "$LOCK" -- sh -c 'sleep 300 >/dev/null 2>&1 3>&- 4>&- &'
	one_line 'ending it \(see --leftovers\)'
	usage_error contain run --contain --leftovers leave "$LOCK" -- touch ran
}

@test "--leftovers leave: what the command has started is ended when the lock is lost" {
	start "$DLOCK" run --leftovers leave -b "$REDIS" "$LOCK" -- \
		sh -c 'setsid sleep 300 & echo $! >in.new; mv in.new in; wait'
	wait_until 10 test -s in
	"$DLOCK" break --yes -b "$REDIS" "$LOCK"
	join "$PID" 30
	equal "$status" 123
	gone "$(<in)"
}
