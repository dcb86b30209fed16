# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The file backend: what operators see of it and do to it (status, wait, break, check,
# setup), and where keepers listen.

load ../lib/helpers
load ../redis/server

# finding TOPIC: prints the line of $output that has this topic
finding() {
	awk -v topic="$1" '$2 == topic' <<<"$output"
}

# ---- check and setup

@test "check: a directory of our own is fit" {
	run --separate-stderr -0 "$DLOCK" check
	equal "$stderr" ""
	matches "$(finding permissions)" '^ok .*0700'
	matches "$(finding filesystem)" '^ok '
	matches "$(finding probe)" '^ok .* ms'
	equal "$(find "$LOCKS" -mindepth 1 -printf '%P')" dlock-check.lock "what it left"
	run -0 "$DLOCK" check --json
	equal "$(jq -r .verdict <<<"$output")" ok
}

@test "check: a directory where others can remove lock files" {
	local mode
	for mode in 0777 0770 0722; do
		chmod $mode "$LOCKS"
		run -1 "$DLOCK" check
		matches "$(finding permissions)" "^warning .*$mode.*chmod"
		run -1 "$DLOCK" check --json
		equal "$(jq -r .verdict <<<"$output")" warning
	done
	for mode in 1777 0755 0700; do
		chmod $mode "$LOCKS"
		run -0 "$DLOCK" check
		matches "$(finding permissions)" "^ok .*$mode"
	done
}

@test "check: a directory that is missing, or that is a file" {
	run -122 "$DLOCK" check -b "file://$T/none"
	matches "$(finding unusable)" "^error .*$T/none does not exist; 'dlock setup'"
	run --separate-stderr -122 "$DLOCK" run -b "file://$T/none" "$LOCK" -- true
	one_line "directory $T/none does not exist; 'dlock setup'"
	[[ ! -e none ]]
	touch plain
	run -122 "$DLOCK" check -b "file://$T/plain"
	matches "$(finding unusable)" "^error .*$T/plain.*: [A-Z]"
	run -122 "$DLOCK" check --json -b "file://$T/none"
	equal "$(jq -r .verdict <<<"$output")" error
}

# bats test_tags=more
@test "check: full disk, read-only file system" {
	need_root
	run -122 unshare -m sh -c 'mount -t tmpfs -o size=128k none "$0" && cd "$0" || exit 99
		head -c 131072 /dev/zero >full
		exec "$DLOCK" check' "$LOCKS"
	matches "$(finding unusable)" '^error .*[Nn]o space'
	run -122 unshare -m sh -c 'mount -t tmpfs -o ro none "$0" && exec "$DLOCK" check' "$LOCKS"
	matches "$(finding unusable)" '^error .*[Rr]ead-only'
}

@test "setup makes the directory with mode 0700, and leaves one that is there as it is" {
	run --separate-stderr -0 "$DLOCK" setup -b "file://$T/new"
	equal "$output$stderr" ""
	equal "$(stat -c %a new)" 700
	chmod 0755 new
	run -0 "$DLOCK" setup -b "file://$T/new"
	equal "$(stat -c %a new)" 755
	run -0 "$DLOCK" check -b "file://$T/new"
	run --separate-stderr -122 "$DLOCK" setup -b "file://$T/not/there"
	one_line "$T/not/there"
	touch plain
	run --separate-stderr -122 "$DLOCK" setup -b "file://$T/plain"
	one_line "$T/plain"
	equal "$(ls -A new)" dlock-check.lock
}

# bats test_tags=more
@test "setup does not call a directory ready that this user cannot lock in" {
	strangers
	mkdir -m 0700 theirs
	mkdir -m 0755 open
	chown "$BOB" theirs open
	local each
	for each in theirs open; do
		run --separate-stderr -122 as "$ALICE" "$OPEN/dlock" setup -v -b "file://$OPEN/$each"
		one_line "^dlock: file:$OPEN/$each cannot hold locks: .*: Permission denied$"
		run --separate-stderr -0 as "$BOB" "$OPEN/dlock" setup -v -b "file://$OPEN/$each"
		one_line "^dlock: file:$OPEN/$each is ready$"
		equal "$(ls -A "$each")" dlock-check.lock
	done
}

# ---- status, wait and break

@test "status and wait without a directory: nothing is held" {
	run --separate-stderr -0 "$DLOCK" status -b "file://$T/none"
	equal "$output" ""
	one_line "^dlock: no locks are held on file:$T/none$"
	run -0 "$DLOCK" status -b "file://$T/none" "$LOCK"
	run -0 "$DLOCK" wait -b "file://$T/none" "$LOCK"
	[[ ! -e none ]]
}

said_twice() {
	(($(grep -c 'no locks are held' "$1") == 2))
}

# bats test_tags=more
@test "status --watch into a pipe prints only changes" {
	start "$DLOCK" status --watch
	local err=$ERR out=$OUT
	wait_until 5 has_line "$err" 'no locks are held'
	hold --
	wait_until 5 has_line "$out" "^$LOCK "
	release
	wait_until 5 said_twice "$err"
	holds_for 2500 said_twice "$err"
}

@test "what flock(1) holds is shown, waited for, and can be broken" {
	start flock "$LOCKS/$LOCK.lock" sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	run -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive +- +- +- +pid $PID flock"
	"$DLOCK" status --json | grep -F "\"$LOCK\"" >json
	jq -e --argjson pid "$PID" '.held and .holders[0].pid == $pid and .holders[0].fence == null' json
	run -124 "$DLOCK" wait -w 0 "$LOCK"
	start "$DLOCK" wait "$LOCK"
	local waiter=$PID flock=${STARTED[0]}
	holds_for 300 alive "$waiter"
	kill -KILL "$flock" "$(tree "$flock")"
	join "$waiter" 3
	equal "$status" 0
}

@test "status lists only lock files, whatever else is in the directory" {
	start "$DLOCK" run --slots 2 "$LOCK" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	touch "$LOCKS/other" "$LOCKS/.lock" "$LOCKS/%zz.lock" "$LOCKS/free.lock" "$LOCKS"/$'\001.lock'
	mkdir "$LOCKS/directory.lock"
	mkfifo "$LOCKS/fifo.lock"
	ln -s nowhere "$LOCKS/link.lock"
	run --separate-stderr -0 "$DLOCK" status --json
	equal "$(jq -r .name <<<"$output")" "$LOCK"
	equal "$stderr" ""
}

# bats test_tags=more
@test "status: a lock that cannot be read is reported, and the others are shown" {
	local form
	hold --
	mkdir "$LOCKS/$LOCK-bad.lock"
	for form in '' --json --prometheus; do
		# shellcheck disable=SC2086 # nothing or a word
		run --separate-stderr -122 "$DLOCK" status $form "$LOCK-bad" "$LOCK" "$LOCK-free"
		one_line "^dlock: $LOCK-bad: .*directory"
		matches "$output" "${LOCK}[\" ].*"$'\n'".*$LOCK-free"
		not matches "$output" "$LOCK-bad"
	done
	# Nothing is broken where it is not known by whom it is held.
	run --separate-stderr -122 "$DLOCK" break --yes "$LOCK-bad" "$LOCK"
	one_line "^dlock: $LOCK-bad: .*directory"
	alive "$COMMAND"
	release
}

@test "status prints no control characters of a forged record" {
	local token
	token=$("$DLOCK" acquire -t 5s "$LOCK")
	printf 'fence 9 hold 0123456789abcdef0123456789abcdef x 1 host=%%1b[31m&user=%%07&cmd=%%22a%%0a%%22&pid=1&since=1\n' \
		>"$LOCKS/$LOCK.lock"
	run -1 "$DLOCK" status "$LOCK"
	equal "${#lines[@]}" 2 lines
	[[ $output != *$'\e'* && $output != *$'\a'* ]]
	"$DLOCK" status --json "$LOCK" >json || true
	jq -e .held json
	"$DLOCK" release "$LOCK" "$token" || true
	wait_until 8 no_strays
}

# bats test_tags=more
@test "a client that was stopped as it took the lock does not run its command after a break" {
	"$DLOCK" run "$LOCK" -- true
	LD_PRELOAD=$BUILD/tests/preload/stop_in_write.so start "$DLOCK" run "$LOCK" -- touch ran
	local stopped=$PID
	wait_until 5 stopped "$stopped"
	run -0 "$DLOCK" break --yes "$LOCK"
	hold --
	kill -CONT "$stopped"
	holds_for 700 test ! -e ran
	alive "$HOLDER" "$stopped"
	release
	join "$stopped" 5
	equal "$status" 0
	[[ -e ran ]]
}

@test "break leaves no file but the lock's, and the fence grows over it" {
	local token before
	token=$("$DLOCK" acquire -t 2s "$LOCK")
	before=$("$DLOCK" status --json "$LOCK" | jq .fence) || true
	run -0 "$DLOCK" break --yes "$LOCK"
	equal "$(ls -A "$LOCKS")" "$LOCK.lock"
	run -0 "$DLOCK" run -n "$LOCK" -- printenv DLOCK_FENCE
	((output > before)) || fail "$output after $before"
	run -123 "$DLOCK" release "$LOCK" "$token"
	wait_until 5 no_strays
}

# [31]
# bats test_tags=more
@test "break ends the process that keeps the lock for --min-hold, at once; another SIGURG does not" {
	local mode
	for mode in --wait=0 --shared; do
		"$DLOCK" run $mode --min-hold 60s "$LOCK" -- true
		wait_until 5 eval 'KEPT=$(strays) && [[ -n $KEPT ]]'
		proc_stat "$KEPT"
		equal "$PROC_COMM" dlock-min-hold
		kill -URG "$KEPT"
		holds_for 300 alive "$KEPT"
		run -0 "$DLOCK" break --yes "$LOCK"
		wait_until 3 ended "$KEPT"
		is_free
	done
}

@test "break where the directory cannot be written: 122, and nothing is broken" {
	need_root
	start "$DLOCK" run "$LOCK" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	run --separate-stderr -122 unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
		exec "$DLOCK" break --yes "$1"' "$LOCKS" "$LOCK"
	one_line "$LOCK"
	is_held
}

@test "status, wait, break, verify and release in a directory that this user may not enter: 122, and not free" {
	local command
	strangers
	mkdir -m 0700 locks
	start "$DLOCK" run -b "file://$OPEN/locks" "$LOCK" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	for command in status wait 'break --yes' verify release; do
		# shellcheck disable=SC2086 # break has an option
		run --separate-stderr -122 as "$ALICE" env DLOCK_TOKEN=00112233445566778899aabbccddeeff \
			"$OPEN/dlock" $command -b "file://$OPEN/locks" "$LOCK"
		one_line "$OPEN/locks.*Permission denied"
	done
}

# ---- who reaches a keeper

@test "a keeper is reached wherever its files would be, and by nobody else" {
	need_root
	local token
	strangers
	start sleep 300
	token=$("$DLOCK" acquire -b "$REDIS" -t 2s --pid "$PID" "$LOCK")
	run -0 unshare -m sh -c 'mount -t tmpfs none /run && exec "$@"' sh \
		"$DLOCK" renew -v -b "$REDIS" "$LOCK" "$token"
	# Another user is not served, and asks the server, which frees the lock.
	run -0 as "$ALICE" "$OPEN/dlock" release -b "$REDIS" "$LOCK" "$token"
	# The keeper finds out that the lock is lost, and sends TERM to the process.
	wait_until 3 ended "$PID"
	wait_until 3 no_strays
}
