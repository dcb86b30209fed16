# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock run --contain: the command in a PID namespace of its own.

load ../lib/helpers
load ../redis/server

# This daemon has another session, an empty environment and no descriptor of dlock's.
escape() {
	hold "$@" --contain -k 300ms -- "$TOOLS/daemonize" -c -w -p "$T/daemon" \
		sh -c 'while :; do echo >>"$0"; sleep 0.02; done' "$T/beats"
	wait_until 5 test -s beats
	# Pids of the namespace are not those of this test.
	guard_of "$HOLDER"
	child "$GUARD" dlock-init
	INIT=$CHILD
}

beats() {
	BEATS=$(stat -c %s "$T/beats")
}

# Waits until no process of the namespace writes any more.
is_silent() {
	local before
	beats
	before=$BEATS
	pause 0.2
	beats
	((BEATS == before))
}

@test "status, environment, output and descriptors are as without --contain" {
	local code
	for code in 0 1 42 125; do
		run --separate-stderr "-$code" "$DLOCK" run --contain "$LOCK" -- sh -c 'exit "$0"' $code
		equal "$stderr" ""
	done
	run --separate-stderr -143 "$DLOCK" run --contain "$LOCK" -- sh -c 'kill -TERM $$'
	run --separate-stderr -127 "$DLOCK" run --contain "$LOCK" -- ./none
	one_line '\./none'
	run -0 "$DLOCK" run --contain "$LOCK" -- sh -c 'echo "$DLOCK_NAME $DLOCK_TOKEN $DLOCK_FENCE"'
	matches "$output" "^$LOCK [0-9a-f]{32} [0-9]{16,}\$"
	run -0 "$DLOCK" run "$LOCK" -- sh -c 'cd /proc/self/fd && echo *'
	local without=$output
	run -0 "$DLOCK" run --contain "$LOCK" -- sh -c 'cd /proc/self/fd && echo *'
	equal "$output" "$without"
	run -0 "$DLOCK" run --contain "$LOCK" -- sh -c 'echo $$'
	equal "$output" 2
	run -0 "$DLOCK" run --contain "$LOCK" -- sh -c 'cat /proc/$$/comm'
	equal "$output" sh
}

# bats test_tags=more
@test "-v reports that the command runs before its first output" {
	run -0 "$DLOCK" run --contain -v "$LOCK" -- echo OUT
	matches "$output" "acquired.*running echo"$'\n'"OUT"$'\n'
}

@test "signals sent to dlock reach the command" {
	local sig
	start "$DLOCK" run --contain "$LOCK" -- "$TOOLS/sigprobe"
	wait_until 5 has_line "$OUT" ready
	for sig in USR1 USR2 WINCH HUP; do
		kill "-$sig" "$PID"
		wait_until 5 has_line "$OUT" "$sig"
	done
	guard_of "$PID"
	wait_until 5 child "$GUARD" dlock-init
	wait_until 5 child "$CHILD" sigprobe
	kill -STOP "$CHILD"
	wait_until 5 stopped "$CHILD"
	kill -CONT "$CHILD"
	kill -KILL "$CHILD"
	join "$PID"
	equal "$status" 137
}

# bats test_tags=more
@test "an init that is stopped each time that it is continued: the guard ends the command in time" {
	export RESTOP=$T/restop
	LD_PRELOAD=$BUILD/tests/preload/restop.so escape --max-run 2s
	touch restop
	kill -STOP "$INIT"
	join "$HOLDER" 10
	equal "$status" 121
	is_silent
	is_free
}

@test "a nested run finds the hold that it runs under" {
	run -0 "$DLOCK" run --contain "$LOCK" -- "$DLOCK" run -n "$LOCK" -- echo inside
	equal "$output" inside
	run -0 "$DLOCK" run --contain "$LOCK" -- "$DLOCK" run -n --contain "$LOCK" -- echo deeper
	equal "$output" deeper
}

@test "what the command leaves behind is ended, and dlock reports it" {
	run --separate-stderr -3 "$DLOCK" run --contain "$LOCK" -- sh -c 'setsid sleep 309 & exit 3'
	one_line 'left 1 process'
	run -0 "$DLOCK" run --contain "$LOCK" -- sh -c '(sleep 0.05 &) ; sleep 0.3'
	is_free
}

@test "all of dlock is killed at once: the kernel ends the command and its daemons" {
	escape
	contend
	kill -KILL "$HOLDER" "$GUARD"
	met_nobody
	is_silent
	not alive "$INIT"
}

@test "the init of the namespace is killed: the command ends with the status of KILL, the lock is free" {
	escape
	kill -KILL "$INIT"
	join "$HOLDER"
	equal "$status" 137
	is_silent
	is_free
}

# bats test_tags=more
@test "the init of the namespace is stopped: it is continued" {
	escape
	kill -STOP "$INIT"
	wait_until 5 not stopped "$INIT"
	kill -TERM "$HOLDER"
	join "$HOLDER"
	is_silent
}

# bats test_tags=more
@test "all of dlock and the keeper are killed at once: the lease lapses after the command is dead" {
	export DLOCK_BACKEND=$REDIS
	escape -t 4s
	keeper_of "$HOLDER"
	start "$DLOCK" run -w 30s "$LOCK" -- stat -c %s "$T/beats"
	kill -KILL "$HOLDER" "$GUARD" "$KEEPER"
	join "$PID"
	equal "$status" 0
	is_silent
	equal "$BEATS" "$(<"$OUT")" "beats when another got the lock, and now"
}

@test "all of dlock is stopped at once: the command is dead before another client holds the lock" {
	export DLOCK_BACKEND=$REDIS
	escape -t 4s
	keeper_of "$HOLDER"
	start "$DLOCK" run -w 30s "$LOCK" -- stat -c %s "$T/beats"
	kill -STOP "$HOLDER" "$GUARD" "$KEEPER" "$INIT"
	join "$PID"
	equal "$status" 0
	beats
	equal "$BEATS" "$(<"$OUT")" "beats when another got the lock, and now"
	kill -CONT "$HOLDER" "$GUARD" "$KEEPER" 2>/dev/null || :
	join "$HOLDER"
	matches "$status" '^(123|137)$'
}

@test "all of dlock is stopped, again when it is continued, while leftovers are ended: they are dead in time" {
	export DLOCK_BACKEND=$REDIS RESTOP=$T/restop
	LD_PRELOAD=$BUILD/tests/preload/restop.so start "$DLOCK" run -t 6s -k 2s --contain "$LOCK" -- \
		env -u LD_PRELOAD sh -c 'trap "" TERM; exec "$@"' sh "$TOOLS/daemonize" -p "$T/daemon" \
		sh -c 'while :; do echo >>"$0"; sleep 0.02; done' "$T/beats"
	HOLDER=$PID
	wait_until 5 test -s beats
	guard_of "$HOLDER"
	keeper_of "$HOLDER"
	touch restop
	kill -STOP "$HOLDER" "$KEEPER"
	start "$DLOCK" run -w 30s "$LOCK" -- stat -c %s "$T/beats"
	join "$PID"
	equal "$status" 0
	beats
	equal "$BEATS" "$(<"$OUT")" "beats when another got the lock, and now"
	kill -CONT "$HOLDER" "$KEEPER" 2>/dev/null || :
	join "$HOLDER"
	matches "$status" '^(123|137)$'
}

# bats test_tags=more
@test "a user without the right to make namespaces gets a user namespace, or status 125" {
	need_root
	strangers
	install -d -o "$ALICE" -m 0700 theirs
	run --separate-stderr setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups \
		./dlock run -b "file://$OPEN/theirs" --contain "$LOCK" -- id -u
	if ((status == 0)); then
		equal "$output" "$ALICE"
	else
		equal "$status" 125
		one_line 'contain'
	fi
}

@test "where no namespace can be had, the status is 125 with the reason, nothing runs, the lock is free" {
	run --separate-stderr -125 "$TOOLS/refuse" EPERM clone:0x20000000 "$DLOCK" run --contain --min-hold 10s "$LOCK" -- touch ran
	one_line 'contain' 'Operation not permitted'
	[[ ! -e ran ]]
	is_free
}

@test "contain = yes in the configuration file is heeded, and --no-contain overrides it" {
	echo 'contain = yes' >"$XDG_CONFIG_HOME/dlock.conf"
	run -0 "$DLOCK" run "$LOCK" -- sh -c 'echo $$'
	equal "$output" 2
	run -0 "$DLOCK" run --no-contain "$LOCK" -- sh -c 'echo $$'
	not equal "$output" 2
	echo 'contain = maybe' >"$XDG_CONFIG_HOME/dlock.conf"
	run --separate-stderr -125 "$DLOCK" run "$LOCK" -- true
	one_line 'dlock.conf:1' 'yes or no'
}

# bats test_tags=more
@test "a process that somebody else put into the namespace, and does not reap: the guard sleeps" {
	local inside outside
	need_root
	need nsenter
	hold --contain -t 1m -k 20s --
	guard_of "$HOLDER"
	wait_until 5 child "$GUARD" dlock-init
	start nsenter -t "$CHILD" -p sleep 300
	outside=$PID
	wait_until 5 child "$outside" sleep
	inside=$CHILD
	kill -STOP "$outside"
	wait_until 5 stopped "$outside"
	kill -TERM "$HOLDER"
	wait_until 5 not alive "$inside"
	idles "$GUARD"
	alive "$HOLDER"
	kill -CONT "$outside"
	join "$outside"
	join "$HOLDER"
	is_free
}
