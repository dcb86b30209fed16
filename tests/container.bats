# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock in a PID namespace with a /proc of its own, as a container has them; the suites that run
# in one as a whole are a stage of .ci/run.

load helpers
load redis-server

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

@test "with the /proc of another PID namespace dlock says so, signals no stranger and waits for leftovers" {
	start sleep 311
	local stranger=$PID
	# Pids in this namespace begin at 1, and /proc shows those of the namespace outside.
	run --separate-stderr -4 unshare --pid --fork --kill-child \
		"$DLOCK" run -k 200ms "$LOCK" -- sh -c '(setsid sleep 1 &) ; exit 4'
	matches "$stderr" '/proc is missing or not that of this PID namespace'
	alive "$stranger"
	is_free
}

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

@test "without /proc dlock says so, and ends the command's process group all the same" {
	run --separate-stderr -4 unshare --pid --fork --kill-child --mount sh -c 'mount -t tmpfs none /proc &&
		exec "$DLOCK" run -k 200ms "$0" -- sh -c "sleep 312 & exit 4"' "$LOCK"
	matches "$stderr" '/proc is missing or not that of this PID namespace'
	wait_until 3 no_strays_but
	is_free
}
