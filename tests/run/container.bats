# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock in a PID namespace with a /proc of its own, as a container has them; in a container of a
# small image (tests/image); and where a seccomp profile refuses system calls. The suites that run
# in such containers as a whole are a stage of .ci/run.

load ../lib/helpers
load ../redis/server

prepare() {
	need_root
}

# contained COMMAND...: starts COMMAND as process 1 of a namespace. Sets PID, that of unshare.
contained() {
	start unshare --pid --fork --kill-child --mount-proc "$@"
	wait_until 5 child "$PID"
	FIRST=$CHILD
}

zombies() {
	awk '{ sub(/.*\) /, ""); if ($1 == "Z") n++ } END { print n + 0 }' /proc/[0-9]*/stat
}

@test "as process 1, dlock passes status and signals on, and reaps orphans that are not its own" {
	contained "$DLOCK" run "$LOCK" -- sh -c 'echo $$ >inside; trap "exit 9" TERM; while :; do sleep 0.05; done'
	wait_until 5 test -s inside
	# Somebody enters the container, and leaves processes behind there.
	for _ in 1 2 3 4 5; do
		nsenter -t "$FIRST" -p -m sh -c '(sh -c "sleep 0.02" & exec true) & wait'
	done
	wait_until 5 no_zombies_of "$FIRST"
	kill -TERM "$FIRST"
	join "$PID"
	equal "$status" 9
	is_free
}

no_zombies_of() {
	[[ -z $(cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$1" '{
		sub(/.*\) /, ""); if ($1 == "Z" && $2 == parent) print }') ]]
}

@test "as process 1, dlock is killed from outside: nothing is left, and the lock is free" {
	contained "$DLOCK" run "$LOCK" -- sh -c 'echo $$ >inside; setsid sleep 310 & wait'
	wait_until 5 test -s inside
	kill -KILL "$FIRST"
	join "$PID"
	wait_until 5 no_strays_but
	is_free
}

# bats test_tags=more
@test "with the /proc of another PID namespace dlock warns, signals no stranger and waits for leftovers" {
	start sleep 311
	local stranger=$PID
	# Pids in this namespace begin at 1, and /proc shows those of the namespace outside.
	run --separate-stderr -4 unshare --pid --fork --kill-child \
		"$DLOCK" run -k 200ms "$LOCK" -- sh -c '(setsid sleep 1 &) ; exit 4'
	matches "$stderr" '/proc is missing or not that of this PID namespace'
	alive "$stranger"
	is_free
}

# bats test_tags=more
@test "as process 1, and without a /proc of its own, a nested run finds the hold that it runs under" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		DLOCK_BACKEND=$backend run --separate-stderr -0 "$DLOCK" run "$LOCK" -- \
			unshare --pid --fork --kill-child "$DLOCK" run -n "$LOCK" -- echo nested
		equal "$output" nested
	done
}

@test "without a /proc of its own, a run under acquire renews the hold while its command runs" {
	local token
	export DLOCK_BACKEND=$REDIS
	token=$("$DLOCK" acquire -t 2s "$LOCK")
	run -0 env DLOCK_NAME="$LOCK" DLOCK_TOKEN="$token" unshare --pid --fork --kill-child \
		"$DLOCK" run "$LOCK" -- sleep 4
	"$DLOCK" verify "$LOCK" "$token"
	"$DLOCK" release "$LOCK" "$token"
}

@test "without /proc dlock warns, and ends the command's process group" {
	run --separate-stderr -4 unshare --pid --fork --kill-child --mount sh -c 'mount -t tmpfs none /proc &&
		exec "$DLOCK" run -k 200ms "$0" -- sh -c "sleep 312 & exit 4"' "$LOCK"
	matches "$stderr" '/proc is missing or not that of this PID namespace'
	wait_until 3 no_strays_but
	is_free
}

# blind WORDS...: starts a shell as the first process of a PID namespace without /proc, with WORDS as
# its script. Sets FIRST.
blind() {
	start unshare --pid --fork --kill-child --mount sh -c "mount -t tmpfs none /proc && $*" "$LOCK"
	wait_until 5 child "$PID"
	FIRST=$CHILD
}

# blind_tree HOLDER: sets GUARD, COMMAND, and BELOW to the process that the command has started
blind_tree() {
	guard_of "$1"
	wait_until 5 child "$GUARD" sleep
	COMMAND=$CHILD
	wait_until 5 child "$COMMAND" sleep
	BELOW=$CHILD
}

# bats test_tags=more
@test "without /proc, the guard killed: what has left the command's group keeps the lock, or its lease ends" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		export DLOCK_BACKEND=$backend
		blind 'exec "$DLOCK" run -t 4s "$0" -- sh -c "setsid sleep 313 & exec sleep 300"'
		blind_tree "$FIRST"
		kill -KILL "$GUARD"
		wait_until 5 ended "$COMMAND"
		holds_for 1000 is_held
		alive "$BELOW"
		if [[ $backend == "$FILE" ]]; then
			kill -KILL "$BELOW"
		fi
		join "$PID"
		equal "$status" 137
		is_free
	done
}

# ---- as an image has it (tests/image): no root, no user, no capability, nothing to write but /tmp

# image COMMAND...: as process 1 of such a container. What a test finds in $DLOCK and $TOOLS is in
# build/ there.
image() {
	env -u DLOCK_BACKEND "$TOP/tests/image" "$@"
}

# in_image COMMAND...: starts it in the background. Sets PID, and FIRST to process 1.
in_image() {
	start env -u DLOCK_BACKEND "$TOP/tests/image" "$@"
	wait_until 10 first_is_dlock
}

first_is_dlock() {
	child "$PID" dlock && FIRST=$CHILD
}

@test "in an image, as process 1, dlock passes the status on, and reports where its locks are" {
	run --separate-stderr -7 image build/dlock run -v "$LOCK" -- sh -c 'echo "$PPID $(id -u) $HOME"; exit 7'
	matches "$output" '^[0-9]+ 61234 $'
	matches "$stderr" 'on file:/tmp/dlock-61234'
	run --separate-stderr -143 image build/dlock run -b "$REDIS" "$LOCK" -- sh -c 'kill -TERM $$'
	equal "$stderr" ""
	run --separate-stderr -127 image build/dlock run -b "$REDIS" "$LOCK" -- no-such-command
	one_line no-such-command
}

# bats test_tags=more
@test "in an image, as process 1, dlock passes signals on, reaps strangers, and ends daemons" {
	in_image build/dlock run -b "$REDIS" "$LOCK" -- \
		sh -c 'setsid sleep 313 & trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done'
	wait_until 5 has_line "$OUT" ready
	for _ in 1 2 3 4 5; do
		nsenter -t "$FIRST" -p -m sh -c '(sh -c "sleep 0.02" & exec true) & wait'
	done
	wait_until 5 no_zombies_of "$FIRST"
	DLOCK_BACKEND=$REDIS run -1 "$DLOCK" status "$LOCK"
	matches "$output" ' \(61234\) sh$'
	kill -TERM "$FIRST"
	join "$PID"
	equal "$status" 9
	matches "$(<"$ERR")" 'left 1 process'
	wait_until 5 no_strays_but
	DLOCK_BACKEND=$REDIS is_free
}

# bats test_tags=more
@test "in an image, acquire's daemon renews, and release ends it" {
	run --separate-stderr -0 image sh -c '
		PATH=$PWD/build:$PATH
		for backend in "$1" "file:" ; do
			export DLOCK_BACKEND=$backend
			DLOCK_TOKEN=$(dlock acquire -t 3s --pid $$ "$0") || exit
			export DLOCK_TOKEN
			sleep 4
			dlock verify "$0" && dlock release "$0" || exit
			unset DLOCK_TOKEN
			dlock run -n "$0" -- echo free
		done' "$LOCK" "$REDIS"
	equal "$output" $'free\nfree'
	equal "$stderr" ""
}

@test "in an image where nothing can be written, dlock names the directory; a server works" {
	export READ_ONLY=yes
	run --separate-stderr -122 image build/dlock run "$LOCK" -- true
	one_line '/tmp/dlock-61234: Read-only file system' '-b file:///PATH'
	run --separate-stderr -5 image build/dlock run -b "$REDIS" "$LOCK" -- sh -c 'exit 5'
	equal "$stderr" ""
	run --separate-stderr -0 image sh -c '
		export DLOCK_BACKEND=$1
		DLOCK_TOKEN=$(build/dlock acquire -t 1500ms --pid $$ "$0") || exit
		export DLOCK_TOKEN
		sleep 2
		build/dlock verify "$0" && build/dlock release "$0" &&
			env -u DLOCK_TOKEN build/dlock run -n "$0" -- echo free' "$LOCK" "$REDIS"
	equal "$output" free
	equal "$stderr" ""
}

# ---- system calls that a seccomp profile refuses

# does_without CALLS: with these calls refused, run and acquire work, and daemons are ended
does_without() {
	local error backend token
	for error in EPERM ENOSYS; do
		for backend in "$FILE" "$REDIS"; do
			export DLOCK_BACKEND=$backend
			run --separate-stderr -6 "$TOOLS/refuse" "$error" "$1" "$DLOCK" run -k 200ms "$LOCK" -- \
				sh -c 'setsid sleep 314 & exit 6'
			one_line 'left 1 process'
			run --separate-stderr -0 "$TOOLS/refuse" "$error" "$1" "$DLOCK" acquire --pid $$ "$LOCK"
			equal "$stderr" ""
			token=$output
			is_held
			"$DLOCK" release "$LOCK" "$token"
			is_free
		done
	done
}

@test "without close_range a run on a server ends with 125 and the name of the call; others work" {
	local error
	for error in EPERM ENOSYS; do
		run -0 "$TOOLS/refuse" "$error" close_range "$DLOCK" run -b "$FILE" "$LOCK" -- true
		run -0 "$TOOLS/refuse" "$error" pidfd_open "$DLOCK" run -b "$REDIS" "$LOCK" -- true
		run --separate-stderr -125 "$TOOLS/refuse" "$error" close_range \
			"$DLOCK" run -b "$REDIS" "$LOCK" -- touch ran
		one_line "^dlock: $LOCK: close_range: "
		[[ ! -e ran ]]
		DLOCK_BACKEND=$REDIS is_free
	done
}

# bats test_tags=more
@test "without memfd_create, run and acquire work" {
	does_without memfd_create
}

# bats test_tags=more
@test "without timers that have a descriptor, run and acquire work" {
	does_without timerfd_create
}

# bats test_tags=more
@test "where a timer can be made but not set, dlock runs nothing, and names the call" {
	run --separate-stderr -125 "$TOOLS/refuse" EPERM timer_settime "$DLOCK" run "$LOCK" -- touch ran
	one_line 'timer_create: Operation not permitted'
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "where dlock cannot become the parent of orphans, it warns, and the command runs" {
	run --separate-stderr -5 "$TOOLS/refuse" EPERM prctl "$DLOCK" run "$LOCK" -- sh -c 'exit 5'
	one_line 'does not give orphans to dlock \(Operation not permitted\)'
}

@test "without signalfd dlock runs nothing, and names the call" {
	run --separate-stderr -125 "$TOOLS/refuse" EPERM signalfd4 "$DLOCK" run "$LOCK" -- touch ran
	one_line 'signalfd: Operation not permitted'
	[[ ! -e ran ]]
}
