# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The file backend: flock(1), hostile directories, full disks, defaults.
#
# A number in brackets above a test of this backend, of records or of URIs names what a rewrite may
# forget. tests/redis/redis.bash has the numbers below these.
#
#	27	the file is opened without following a link, is regular, has one name, and is still
#		the one in the directory when it is locked
#	28	the lock ends although another process has a copy of the descriptor, the slot before
#		the record changes; a signal ends a wait
#	29	a process that is stopped while it writes the record holds nobody up
#	30	a shell's > empties the record of a living hold; a full disk; a fence that cannot grow
#	31	pids of other containers; SIGURG for a wrong pid; break keeps mode, owner and group
#	32	the note is last in a record and may be cut; records of others; one of a released hold
#	33	a password is not shown where it was not encoded; two of them, and a file that others
#		read; an alias of a scheme is the same place

load ../lib/helpers

prepare() {
	LOCK_FILE=$LOCKS/$LOCK.lock
}

# refused REGEX [DIR]: run fails with status 122 and one line that names the thing, and runs nothing
refused() {
	run --separate-stderr -122 timeout 10 "$DLOCK" run -n -b "file://${2-$LOCKS}" "$LOCK" -- touch "$T/ran"
	equal "$output" ""
	one_line "$1"
	[[ ! -e $T/ran ]]
}

# ---- flock(1)

@test "flock(1) excludes dlock, exclusive and shared" {
	local kind
	for kind in -x -s; do
		start flock $kind "$LOCK_FILE" sh -c 'echo in; exec sleep 300'
		wait_until 5 has_line "$OUT" in
		run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
		one_line "^dlock: $LOCK: held by"
		run --separate-stderr -124 "$DLOCK" run -w 200ms "$LOCK" -- true
		# flock(1) waits for a child that keeps the descriptor open.
		kill -TERM "$PID" "$(child "$PID" && echo "$CHILD")"
		wait_until 5 is_free
	done
}

@test "dlock excludes flock(1)" {
	hold --
	run -1 flock -n "$LOCK_FILE" true
	run -1 flock -n -s "$LOCK_FILE" true
	release
	run -0 flock -n "$LOCK_FILE" true
}

# [28]
@test "dlock and flock(1) hand over to each other" {
	start flock "$LOCK_FILE" "$TOOLS/witness" -f 500
	wait_until 5 has_line "$OUT" alive
	timed "$DLOCK" run -w 10s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 100 3000
	hold -- "$TOOLS/witness" -f 500
	timed flock -w 10 "$LOCK_FILE" true
	equal "$status" 0
	took "$MS" 100 3000
	join "$HOLDER"
	equal "$status" 0
}

# has_lock_file PID
has_lock_file() {
	local fd
	for fd in "/proc/$1/fd/"*; do
		if [[ $(readlink "$fd") == "$LOCK_FILE" ]]; then
			return
		fi
	done
	return 1
}

# [28]
@test "the command inherits the lock, as with flock(1), and not with -o" {
	local option
	hold --
	has_lock_file "$COMMAND"
	release
	for option in -o --close; do
		hold $option --
		not has_lock_file "$COMMAND"
		release
	done
	# What the command leaves behind is ended, and does not keep the lock.
	run -0 "$DLOCK" run "$LOCK" -- sh -c 'sleep 300 & :'
	is_free
}

# kill_two [OPTION]...: kills supervisor and guard at once. The command dies with the guard, and a
# child of the command is left. Sets LEFT
kill_two() {
	local guard
	rm -f left
	hold "$@" -- sh -c 'sleep 300 & echo $! >left; wait'
	wait_until 5 test -s left
	LEFT=$(<left)
	wait_until 5 child "$HOLDER" dlock-guard
	guard=$CHILD
	# The supervisor is not to notice that the guard dies first.
	kill -STOP "$HOLDER"
	kill -KILL "$guard" "$HOLDER"
	join "$HOLDER"
	wait_until 5 ended "$COMMAND"
}

@test "supervisor and guard killed at once: what is left of the command holds the lock" {
	local mode
	for mode in --kill-after=5s -s '--slots 3'; do
		# shellcheck disable=SC2086 # words
		kill_two $mode
		run -124 "$DLOCK" run -n "$LOCK" -- true
		run -1 "$DLOCK" status "$LOCK"
		matches "$output" " pid $HOLDER "
		kill -KILL "$LEFT"
		wait_until 5 is_free
	done
	kill_two -o
	alive "$LEFT"
	is_free
	kill -KILL "$LEFT"
}

# ---- the file

@test "the lock file has the mode that umask says, stays, and has fence and holder in it" {
	(umask 077 && "$DLOCK" run "$LOCK" -- true)
	equal "$(stat -c '%a %h %F' "$LOCK_FILE")" "600 1 regular file"
	rm "$LOCK_FILE"
	(umask 027 && "$DLOCK" run "$LOCK" -- true)
	equal "$(stat -c '%a %h %F' "$LOCK_FILE")" "640 1 regular file"
	hold --
	has_line "$LOCK_FILE" "$FENCE"
	has_line "$LOCK_FILE" "$(uname -n)"
	not has_line "$LOCK_FILE" "$TOKEN"
	release
	has_line "$LOCK_FILE" "$FENCE"
}

@test "the next fence is higher than one from the future" {
	hold --
	local future=$((FENCE + 3600 * 1000000))
	release
	sed -i "s/$FENCE/$future/g" "$LOCK_FILE"
	has_line "$LOCK_FILE" "$future"
	run -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE
	equal "$output" "$((future + 1))"
}

# [30]
@test "a forged fence, which no later one could exceed, is refused with its number" {
	local fence
	for fence in 9007199254740991 9007199254740992 9223372036854775807 99999999999999999999; do
		echo "fence $fence" >"$LOCK_FILE"
		run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
		one_line 'the fence would be 9[0-9]*, which no clock gives'
		run --separate-stderr -122 "$DLOCK" acquire "$LOCK"
		one_line 'somebody has written the last fence'
		run -0 "$DLOCK" status "$LOCK"
	done
	echo "fence 9007199254740990" >"$LOCK_FILE"
	run -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE
	equal "$output" 9007199254740991
	run -122 "$DLOCK" run "$LOCK" -- touch ran
	rm "$LOCK_FILE"
	"$DLOCK" run "$LOCK" -- true
	[[ ! -e ran ]]
}

@test "a lock file full of rubbish: the lock can be taken, and status prints no control characters" {
	local kind rubbish
	printf 'x\e[31m\e]0;x\a\n\n\xff\xfe%%1b' >rubbish
	head -c 100000 /dev/urandom >>rubbish
	for kind in rubbish /dev/null; do
		cat "$kind" >"$LOCK_FILE"
		chmod 0600 "$LOCK_FILE"
		start flock "$LOCK_FILE" sh -c 'echo in; exec sleep 300'
		wait_until 5 has_line "$OUT" in
		run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
		one_line "^dlock: $LOCK: held by"
		harmless "$stderr"
		kill -TERM "$(child "$PID" && echo "$CHILD")"
		join "$PID"
		run -0 "$DLOCK" run -n "$LOCK" -- printenv DLOCK_FENCE
		between "$output" $((${EPOCHREALTIME/./} - 60000000)) "${EPOCHREALTIME/./}" fence
	done
}

@test "a holder that has ended is not reported as the present one" {
	"$DLOCK" run "$LOCK" -- sh -c true
	start flock "$LOCK_FILE" sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by"
	[[ $stderr != *": sh" ]]
	kill -TERM "$(child "$PID" && echo "$CHILD")"
}

# is_dlock PID: the process has become dlock
is_dlock() {
	proc_stat "$1" && [[ $PROC_COMM == dlock ]]
}

# [28]
# bats test_tags=more
@test "where the kernel refuses to watch files, a waiter for a slot sleeps, and gets the slot" {
	hold --slots 1 --
	start "$TOOLS/refuse" EPERM inotify_init1 "$DLOCK" run --slots 1 "$LOCK" -- true
	wait_until 5 is_dlock "$PID"
	pause 0.3
	idles "$PID"
	release
	join "$PID"
	equal "$status" 0
}

# [27]
# bats test_tags=more
@test "a waiter does not lock a file that was removed while it waited" {
	hold --
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 eval 'grep -q -- "->.*:$(stat -c %i "$LOCK_FILE") " /proc/locks'
	rm "$LOCK_FILE"
	# Somebody else makes a new lock file, and locks it.
	start flock "$LOCK_FILE" sh -c 'echo in; exec sleep 300'
	local other=$PID
	wait_until 5 has_line "$OUT" in
	kill -TERM "$COMMAND"
	join "$HOLDER"
	# The command ran beside that.
	equal "$status" 123 "status of the holder"
	has_line "$HOLDER_ERR" 'lock lost: its file in .* was removed or replaced; that was before the command ended'
	holds_for 700 test ! -e ran
	alive "$waiter"
	kill -TERM "$(child "$other" && echo "$CHILD")"
	join "$waiter" 5
	equal "$status" 0
	[[ -e ran ]]
}

# flock(1) opens its file so in the page that describes it. The holder's next renewal writes again.
# [30]
@test "a shell that empties the file with > for flock(1) does not end the hold" {
	local token
	start sleep 300
	token=$("$DLOCK" acquire -t 2s --slots 2 --pid "$PID" "$LOCK")
	(exec 9>"$LOCK_FILE" && not flock -n 9)
	[[ ! -s $LOCK_FILE ]]
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
	"$DLOCK" verify "$LOCK" "$token"
	DLOCK_TOKEN=$token run -0 "$DLOCK" run --slots 2 "$LOCK" -- true
	wait_until 3 test -s "$LOCK_FILE"
	run -125 "$DLOCK" run -n --slots 3 "$LOCK" -- true
	"$DLOCK" release "$LOCK" "$token"
	is_free
}

@test "release and renew of a hold in another directory, or of another user, name its holder" {
	local token
	start sleep 300
	token=$("$DLOCK" acquire -b "$FILE/" --pid "$PID" "$LOCK")
	"$DLOCK" verify "$LOCK" "$token"
	"$DLOCK" renew "$LOCK" "$token"
	ln -s "$LOCKS" elsewhere
	for what in release renew; do
		run -122 "$DLOCK" "$what" -b "file://$T/elsewhere" "$LOCK" "$token"
		matches "$output" ": it is held for $(uname -n) pid [0-9]+ .* by a process that could not be asked"
	done
	"$DLOCK" release -b "$FILE//" "$LOCK" "$token"
	is_free
}

@test "check finds a directory that takes no locks" {
	run -122 "$TOOLS/refuse" EPERM flock "$DLOCK" check
	matches "$output" 'cannot lock in'
}

# [31]
# bats test_tags=more
@test "break keeps the owner and the mode of the lock file" {
	need_root
	local mode owner
	hold --
	chown 4711:4712 "$LOCK_FILE"
	chmod 664 "$LOCK_FILE"
	(umask 077; "$DLOCK" break --yes "$LOCK")
	equal "$(stat -c '%u:%g %a' "$LOCK_FILE")" '4711:4712 664'
	join "$HOLDER"
	equal "$status" 123
}

# ---- attacks in a shared directory

# [27]
@test "a symlink in the place of the file is not followed" {
	echo precious >target
	ln -s "$T/target" "$LOCK_FILE"
	refused "$LOCK_FILE"
	equal "$(<target)" precious
	rm "$LOCK_FILE"
	ln -s "$T/not-there" "$LOCK_FILE"
	refused "$LOCK_FILE"
	[[ ! -e not-there ]]
}

# [27]
@test "a FIFO, a directory, a socket or a device in the place of the file is refused, at once" {
	mkfifo "$LOCK_FILE"
	refused "$LOCK_FILE"
	rm "$LOCK_FILE"
	mkdir "$LOCK_FILE"
	refused "$LOCK_FILE"
	rmdir "$LOCK_FILE"
	start socat "UNIX-LISTEN:$LOCK_FILE" STDOUT
	wait_until 5 test -S "$LOCK_FILE"
	refused "$LOCK_FILE"
	rm "$LOCK_FILE"
	if ((EUID == 0)); then
		mknod "$LOCK_FILE" c 1 3
		refused "$LOCK_FILE"
	fi
}

# [27]
@test "a hard link to somebody's file is not written to" {
	echo precious >target
	chmod 0600 target
	ln target "$LOCK_FILE"
	refused "$LOCK_FILE"
	equal "$(<target)" precious
}

@test "a file of another user that others may not write is refused in a shared directory" {
	strangers
	mkdir shared
	chmod 1777 shared
	# Root must neither wait for nor write to a file that a stranger has planted.
	as "$ALICE" sh -c 'umask 0; echo planted >"$0"' "shared/$LOCK.lock"
	chmod 0644 "shared/$LOCK.lock"
	run --separate-stderr -122 as "$BOB" "$OPEN/dlock" run -n -b "file://$OPEN/shared" "$LOCK" -- true
	one_line "shared/$LOCK.lock"
	equal "$(<"shared/$LOCK.lock")" planted
}

@test "two users exclude each other in a directory that they share" {
	strangers
	mkdir team
	chmod 0770 team
	chgrp "$ALICE" team
	chmod g+s team
	(umask 002 && as "$ALICE" "$OPEN/dlock" run -b "file://$OPEN/team" "$LOCK" -- true)
	start setpriv --reuid="$BOB" --regid="$ALICE" --clear-groups \
		"$OPEN/dlock" run -b "file://$OPEN/team" "$LOCK" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	run -124 as "$ALICE" "$OPEN/dlock" run -n -b "file://$OPEN/team" "$LOCK" -- true
}

# ---- directories

# minimal SCRIPT [ARG]...: runs SCRIPT where /run and /tmp are empty, dlock is /mnt/dlock, and no
# backend is named. ARG is $1 and so on.
minimal() {
	local script=$1
	shift
	env -u DLOCK_BACKEND unshare -m sh -c 'mount -t tmpfs none /mnt && cp "$DLOCK" /mnt/dlock &&
		mount -t tmpfs none /run && mount -t tmpfs none /tmp && cd /mnt || exit 99
		PATH=/mnt:$PATH
		user() { setpriv --reuid=12345 --regid=12345 --clear-groups "$@"; }
		'"$script" sh "$@"
}

@test "without -b a user's directory is in /run/lock, with XDG_RUNTIME_DIR and without" {
	need_root
	run --separate-stderr -0 minimal 'mkdir -m 1777 /run/lock && mkdir -m 0700 runtime && chown 12345 runtime
		user env XDG_RUNTIME_DIR=/mnt/runtime dlock run "$LOCK" -- \
			env -i /mnt/dlock run -n -E 9 "$LOCK" -- echo both
		echo $?
		stat -c "%a %u %n" /run/lock/* && ls /run/lock/*/ && ls -A runtime && find /tmp -name "dlock-*"'
	equal "$stderr" "dlock: $LOCK: held by $(hostname) pid ${stderr#* pid }"
	equal "$output" "9
700 12345 /run/lock/dlock-12345
$LOCK.lock"
}

@test "where /run/lock is not open to all and sticky, a user's directory is in /tmp" {
	need_root
	local make
	for make in : 'mkdir -m 0777 /run/lock' 'mkdir -m 1755 /run/lock' 'touch /run/lock' \
		'mkdir -m 1777 /run/lock && mount -o remount,ro /run'; do
		run --separate-stderr -0 minimal "$make"'
			user dlock run "$LOCK" -- true && stat -c "%a %u" /tmp/dlock-12345 && ls /tmp/dlock-12345'
		equal "$stderr" "" "after $make"
		equal "${lines[*]}" "700 12345 $LOCK.lock" "after $make"
	done
}

@test "a user's directory with another owner or mode, or a symlink, is refused, and not replaced" {
	need_root
	local dir make
	for dir in /run/lock/dlock-12345 /tmp/dlock-12345; do
		for make in 'mkdir -m 0700 "$1"; chown 12346 "$1"' 'mkdir -m 0777 "$1"; chown 12345 "$1"' \
			'mkdir -m 0750 "$1"; chown 12345 "$1"' 'touch "$1"; chown 12345 "$1"' \
			'mkdir -m 0700 d; chown 12345 d; ln -s /mnt/d "$1"'; do
			run --separate-stderr -122 minimal '[ "${1#/tmp}" != "$1" ] || mkdir -m 1777 /run/lock
				'"$make"'
				user dlock run "$LOCK" -- echo ran
				status=$?
				find /run /tmp /mnt -name "*.lock"
				exit $status' "$dir"
			one_line "$dir"
			equal "$output" ""
		done
	done
}

@test "without -b, root uses /run/dlock, whatever another user has made in /run/lock" {
	need_root
	run --separate-stderr -0 minimal 'umask 077
		mkdir -m 1777 /run/lock && user mkdir /run/lock/dlock /run/lock/dlock-0 /tmp/dlock-0 || exit 98
		dlock run "$LOCK" -- true && stat -c "%a %u" /run/dlock && ls -A /run/dlock'
	equal "$stderr" ""
	equal "${lines[*]}" "700 0 $LOCK.lock"
	# A full disk is no reason to use another directory, because a later process may find space.
	run --separate-stderr -122 minimal 'umount /run && mount -t tmpfs -o nr_inodes=1 none /run &&
		exec dlock run "$LOCK" -- true'
	one_line 'directory /run/dlock: .*-b file:///'
}

# bats test_tags=more
@test "where /run cannot be written, root locks and looks in /tmp/dlock-0" {
	need_root
	local make
	run --separate-stderr -0 minimal 'mount -o remount,ro /run
		dlock run "$LOCK" -- sh -c "dlock run -n \"\$LOCK\" -- true; dlock status --json" &&
		stat -c "%a %u" /tmp/dlock-0 && ls /tmp/dlock-0'
	equal "$stderr" ""
	equal "$(jq -r .name <<<"${lines[0]}")" "$LOCK"
	equal "${lines[*]:1}" "700 0 $LOCK.lock"
	for make in 'mkdir -m 0755 /tmp/dlock-0' 'mkdir -m 0700 /tmp/dlock-0; chown 12345 /tmp/dlock-0' \
		'mkdir -m 0700 /tmp/d; ln -s d /tmp/dlock-0' 'touch /tmp/dlock-0'; do
		run --separate-stderr -122 minimal 'mount -o remount,ro /run
			'"$make"'
			exec dlock run "$LOCK" -- true'
		one_line '^dlock: .*/tmp/dlock-0'
	done
	run --separate-stderr -122 minimal 'mount -o remount,ro /run && mount -o remount,ro /tmp
		exec dlock run "$LOCK" -- true'
	one_line '^dlock: .*/tmp/dlock-0: .*-b file:///'
}

# nested_as_another: inside a run by root on the default directory, in minimal, another user's own
# default is another directory
nested_as_another='
	as="setpriv --reuid=54321 --regid=54321 --clear-groups"
	for user in "" "$as"; do
		$user dlock run -v "$LOCK" -- true 2>&1 | sed -n "s/.* on file://p"
	done
	mkdir -m 1777 /tmp/seen
	dlock run "$LOCK" -- $as sh -c "$1"'

# bats test_tags=more
@test "a run under su has another default directory: it names both, and starts nothing" {
	need_root
	local outer inner command
	for command in 'dlock run -n "$LOCK" -- touch /tmp/seen/ran' 'dlock acquire -n "$LOCK"' \
		'dlock verify "$LOCK"' 'DLOCK_BACKEND=file: dlock run -n "$LOCK" -- touch /tmp/seen/ran'; do
		run --separate-stderr minimal "$nested_as_another"'; echo $?; ls /tmp/seen' "$command"
		outer=${lines[0]} inner=${lines[1]}
		[[ $outer == /* && $inner == /* && $outer != "$inner" ]]
		equal "${lines[*]:2}" 122
		one_line "^dlock: $LOCK: .* in $outer, .* not in $inner, .*-b file:///"
	done
	# The directory that both name, and one that only the inner run names.
	run --separate-stderr -0 minimal 'mkdir -m 1777 /tmp/both /tmp/own
		as="setpriv --reuid=54321 --regid=54321 --clear-groups"
		umask 0
		dlock run -b file:///tmp/both "$LOCK" -- $as dlock run -n "$LOCK" -- echo nested
		dlock run "$LOCK" -- $as dlock run -n -b file:///tmp/own "$LOCK" -- echo own'
	equal "$output$stderr" $'nested\nown'
}

@test "a directory that is missing ends a run at once, and is not made" {
	run --separate-stderr -122 timeout 20 "$DLOCK" run -b "file://$T/none" "$LOCK" -- true
	one_line "$T/none does not exist; 'dlock setup'"
	[[ ! -e none ]]
}

@test "a directory that cannot be written is refused by name" {
	if ((EUID == 0)); then
		run --separate-stderr -122 unshare -m sh -c 'mount -t tmpfs -o ro none "$0" &&
			exec "$DLOCK" run "$1" -- true' "$LOCKS" "$LOCK"
		one_line "$LOCKS"
		strangers
		mkdir -m 0755 locks
		run --separate-stderr -122 as "$ALICE" "$OPEN/dlock" run -b "file://$OPEN/locks" "$LOCK" -- true
		one_line "$OPEN/locks"
	else
		chmod 0500 "$LOCKS"
		refused "$LOCKS"
	fi
}

@test "a file in the place of the directory is refused by name" {
	touch plain
	refused "$T/plain" "$T/plain"
	refused "$T/plain/sub" "$T/plain/sub"
}

# [30]
@test "on a full disk the lock is refused, and no lock is left" {
	need_root
	run --separate-stderr -122 unshare -m sh -c 'mount -t tmpfs -o size=4k none "$0" && cd "$0" || exit 99
		head -c 4096 /dev/zero >full
		"$DLOCK" run "$1" -- touch ran
		code=$?
		[ ! -e ran ] || exit 98
		rm full
		# Whatever the first try has left, the next one succeeds.
		"$DLOCK" run -n "$1" -- true || exit 97
		exit $code' "$LOCKS" "$LOCK"
	one_line "$LOCKS"
}

# bats test_tags=more
@test "on a file system without free inodes the lock is refused" {
	need_root
	run --separate-stderr -122 unshare -m sh -c 'mount -t tmpfs -o nr_inodes=1 none "$0" &&
		exec "$DLOCK" run "$1" -- true' "$LOCKS" "$LOCK"
	one_line "$LOCKS"
}

@test "the path of the URI may be percent-encoded" {
	mkdir -m 0700 "$T/a b%"
	run -0 "$DLOCK" run -b "file://$T/a%20b%25" "$LOCK" -- true
	[[ -e $T/a\ b%/$LOCK.lock ]]
}

# ---- crashes

@test "kill -9 of everything leaves nothing to clean" {
	hold --
	# shellcheck disable=SC2046 # words
	kill -KILL "$HOLDER" $(tree "$HOLDER")
	wait_until 3 is_free
	run -0 "$DLOCK" run -n "$LOCK" -- printenv DLOCK_FENCE
	((output > FENCE))
}

@test "lock files of all names stay inside the directory, and their names are not too long" {
	local name
	for name in ../escape /etc/passwd a/b .. . .hidden; do
		"$DLOCK" run "$name" -- true
	done
	equal "$(find "$LOCKS" -mindepth 1 ! -type f)" ""
	equal "$(find "$LOCKS" -type f | wc -l)" 6
	[[ ! -e escape.lock && ! -e ../escape.lock ]]
}

@test "SIGALRM ends a waiter, also by an alarm from before its exec" {
	hold --
	start "$DLOCK" run -w 60s "$LOCK" -- touch ran
	sleep 1
	kill -ALRM "$PID"
	join "$PID"
	equal "$status" 142
	run --separate-stderr -142 perl -e 'alarm 2; exec @ARGV' "$DLOCK" run -w 30s "$LOCK" -- touch ran
	[[ ! -e ran ]]
}

# in_section: starts a process that only locks the section of the free lock
in_section() {
	"$DLOCK" run "$LOCK" -- true
	start python3 -c 'import fcntl, sys, time
file = open(sys.argv[1], "rb")
fcntl.lockf(file, fcntl.LOCK_SH, 1, 1 << 40)
print("in", flush=True)
time.sleep(300)' "$LOCK_FILE"
	wait_until 10 has_line "$OUT" in
}

@test "who only locks the section of a free lock is no holder: 122 with the reason" {
	in_section
	run --separate-stderr -122 "$DLOCK" run -n --if-down run -b "$FILE?timeout=1s" "$LOCK" -- touch ran
	one_line 'another process keeps byte'
	[[ ! -e ran ]]
	run --separate-stderr -122 "$DLOCK" run -w 2s -b "$FILE?timeout=1s" "$LOCK" -- touch ran
	matches "$stderr" 'another process keeps byte.*trying again.*another process keeps byte'
	[[ ! -e ran ]]
}

@test "a waiter goes on while a process is stopped in the section, reports it once, and then runs" {
	local mode keeper
	for mode in '' -s; do
		in_section
		keeper=$PID
		# shellcheck disable=SC2086 # no word or one
		start "$DLOCK" run -b "$FILE?timeout=200ms" $mode "$LOCK" -- echo ran
		wait_until 10 has_line "$ERR" 'trying again$'
		sleep 1
		alive "$PID"
		kill -KILL "$keeper"
		join "$PID"
		equal "$status" 0
		has_line "$OUT" ran
		equal "$(wc -l <"$ERR")" 1
	done
}

@test "one command makes a directory for a group, and a file of root is the directory's owner's" {
	strangers
	mkdir jobs
	chmod 3770 jobs
	chgrp "$ALICE" jobs
	(umask 077 && "$DLOCK" run -b "file://$OPEN/jobs" "$LOCK" -- true)
	run -0 setpriv --reuid="$BOB" --regid="$BOB" --groups="$ALICE" \
		"$OPEN/dlock" run -n -b "file://$OPEN/jobs" "$LOCK" -- true
	mkdir -m 700 own
	chown "$BOB" own
	"$DLOCK" run -b "file://$OPEN/own" "$LOCK" -- true
	run -0 as "$BOB" "$OPEN/dlock" run -n -b "file://$OPEN/own" "$LOCK" -- true
	run --separate-stderr -122 as "$ALICE" "$OPEN/dlock" run -n -b "file://$OPEN/own" "$LOCK" -- true
	one_line 'SEVERAL USERS in dlock-file\(7\)'
}

@test "status and wait make neither a directory nor a file, and wait takes patterns" {
	run -0 minimal 'dlock status -q; dlock status "$LOCK"; dlock wait "$LOCK"; ls -A /run /tmp'
	# The build may be in /tmp/dlock.X.
	not has_line <(printf '%s\n' "$output") '^dlock(-|$)'
	hold --
	run --separate-stderr -124 "$DLOCK" wait -w 0 "${LOCK%?}?"
	one_line ': held by '
	run -0 "$DLOCK" wait -w 0 'none-*'
}
