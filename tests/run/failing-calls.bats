# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A call of dlock fails: preload/fail.c lets the Nth one of a kind fail, once or from then on. Then
# dlock ends with a status for it and the reason, or does what it was to do. It never hangs or
# crashes, leaves no lock and no process behind, and runs no command without its lock.

load ../lib/helpers
load ../redis/server

# The command of the runs. It writes to its first argument what another dlock finds,
# which is 124 if the lock is held, and sleeps for as long as the second one says.
UNDER_LOCK='env -i "$DLOCK" run -n -q -b "$DLOCK_BACKEND" "$LOCK" -- true
	echo $? >>"$0"
	exec sleep "$1"'

# Every other call fails, or each fourth in the core of the tests.
STEP=$(long_or 2 4)

# failing CALL N ON ERRNO ARG...: runs dlock while calls fail: see preload/fail.c
failing() {
	local variables=(LD_PRELOAD="$BUILD/tests/preload/fail.so" FAIL_CALL="$1" FAIL_AT="$2"
		FAIL_ERRNO="$4" FAIL_MARK="$T/reached")
	[[ -z $3 ]] || variables+=(FAIL_ON=1)
	shift 4
	timeout -k 1 15 env "${variables[@]}" "$DLOCK" "$@" 2>err
}

# errnos CALL: prints what its failures report, in turn
errnos() {
	case $1 in
	send) echo 109 105 12 ;; # ETOOMANYREFS, ENOBUFS, ENOMEM
	recv) echo 105 0 12 ;;   # 0: a descriptor is left out
	socket | pipe) echo 24 23 12 ;; # EMFILE, ENFILE
	fork | timer) echo 11 12 ;; # EAGAIN
	open) echo 24 13 5 ;;       # EACCES, EIO
	write) echo 28 5 32 ;;      # ENOSPC, EPIPE
	malloc) echo 12 ;;
	esac
}

# each FUNCTION CALL...: calls it in processes of its own, with DLOCK_BACKEND and LOCK set and
# `failing CALL N ON ERRNO` as its arguments, for each N from 1 to 40, or until a run has fewer of
# these calls, in steps of STEP; on a server alone in the core of the tests
each() {
	local backend call n function=$1
	shift
	for backend in $(long_or "$FILE" '') "$REDIS"; do
		for call in "$@"; do
			for ((n = 1; n <= 40; n += 4)); do
				rm -f reached
				four "$function"
				[[ -e reached ]] || break
			done
			((n > 1)) || may_be_absent "$call" || fail "$backend $call: no call has failed"
		done
	done
	[[ ! -s $T/failures ]] || fail "$(<"$T/failures")"
}

# may_be_absent CALL: some runs do without it, and the address sanitizer has a malloc() of its own
may_be_absent() {
	case $1 in
	pipe | timer | write) ;;
	malloc) grep -q __asan_init "$DLOCK" ;;
	*) return 1 ;;
	esac
}

# four FUNCTION: for this N and the next three, in steps of STEP, once and from then on
four() {
	local on jobs=() number errnos
	read -r -a errnos < <(errnos "$call")
	for ((number = n; number < n + 4; number += STEP)); do
		for on in "" on; do
			one "$1" "$call" "$number" "$on" "${errnos[number / STEP % ${#errnos[@]}]}" &
			jobs+=($!)
		done
	done
	wait "${jobs[@]}" || :
}

# one FUNCTION CALL N ON ERRNO: calls it in a directory of its own, and checks what it has left. A
# process without memory ends at once. When this is the keeper, the lease must end.
one() {
	local code=0 dir ttl=20s seconds=2
	if [[ $2 == malloc ]]; then
		ttl=2s seconds=4
	fi
	exec >>"$T/failures" 2>&1 3>&- 4>&-
	export DLOCK_BACKEND=$backend LOCK=$LOCK-$BASHPID
	dir=$(mktemp -d "$T/one.XXXXXX")
	cd "$dir" || return
	"$@" || code=$?
	has_reason "$call" "$code" || echo "${backend%%:*} $*: status $code: $(<err)"
	wait_until "$seconds" is_free ||
		echo "${backend%%:*} $*: the lock is left: $("$DLOCK" status -v "$LOCK" 2>&1)"
	# It is empty if the command was ended in between.
	if [[ -s seen ]] && [[ $(<seen) != 124 ]]; then
		echo "${backend%%:*} $*: the command saw: $(tr '\n' ' ' <seen)"
	fi
}

# has_reason CALL STATUS: is this a status of a run whose CALL has failed, and is the reason in err?
has_reason() {
	case $1.$2 in
	*.0) ;;
	send.125 | recv.125)
		grep -Eq "^dlock: .*: (dlock's processes cannot exchange messages|cannot ask the keeper process of this lock): |cannot share it" err
		;;
	send.* | recv.*) return 1 ;;
	*.122 | *.123 | *.125) grep -q '^dlock: ' err ;;
	*) return 1 ;;
	esac
}

whole_run() {
	failing "$@" run -v -w 5s -t "$ttl" -k 300ms "$LOCK" -- sh -c "$UNDER_LOCK" seen 0.05 || return
	[[ -e seen ]] || echo "$*: status 0 without a command"
}

# bats test_tags=more
@test "run: no message can make it hang, or leave the lock or a process" {
	each whole_run send recv
}

waiting_run() {
	local holder code=0
	"$DLOCK" run "$LOCK" -- sh -c 'touch held; exec sleep 0.2' &
	holder=$!
	wait_until 10 eval '[[ -e held ]]'
	whole_run "$@" || code=$?
	wait "$holder"
	return "$code"
}

# bats test_tags=more
@test "run while it waits: no message can make it hang, or leave the lock or a process" {
	each waiting_run send recv
}

acquires() {
	local token keeper code=0
	token=$(failing "$@" acquire -w 5s -t "$ttl" ${OWNER:+--pid "$OWNER"} "$LOCK") || return
	# A daemon that cannot receive holds until its process or its lease ends.
	"$DLOCK" release "$LOCK" "$token" >/dev/null 2>&1 || code=$?
	if ((code)) && [[ -n $3 ]]; then
		keeper=$(pgrep -of "^$DLOCK acquire .* $LOCK$" || true)
		[[ -z $keeper ]] || kill -TERM "$keeper"
	fi
	wait_until 5 is_free
}

# owned: acquires with --pid. Each run has a process of its own, because a daemon whose hold is lost
# sends TERM to it.
owned() {
	local OWNER code=0
	sleep 300 &
	OWNER=$!
	acquires "$@" || code=$?
	kill "$OWNER" 2>/dev/null || :
	return "$code"
}

# bats test_tags=more
@test "acquire: no message can make it hang, or leave the lock or a process" {
	OWNER=
	each acquires send recv
}

# bats test_tags=more
@test "acquire --pid: no message can make it hang, or leave the lock or a process" {
	each owned send recv
}

# bats test_tags=deeper
@test "run: no other call can make it hang, or leave the lock or a process" {
	each whole_run socket fork pipe timer open write malloc
}

# bats test_tags=more
@test "run while it waits: no other call can make it hang, or leave the lock or a process" {
	each waiting_run socket fork pipe timer open write malloc
}

# bats test_tags=more
@test "acquire: no other call can make it hang, or leave the lock or a process" {
	OWNER=
	each acquires socket fork pipe timer open write malloc
}

# few_descriptors N ARG...: runs dlock, which may have N descriptors and inherits three
few_descriptors() {
	timed timeout 15 bash -c 'for fd in {3..9}; do eval "exec $fd>&-"; done
		ulimit -n "$0"; exec "$DLOCK" "$@"' "$@"
	if ((status)); then
		equal "$status" 125 "$DLOCK_BACKEND $*: status"
		one_line "Too many open files \(RLIMIT_NOFILE, ulimit -n: $1\)$"
	elif [[ $2 == acquire ]]; then
		"$DLOCK" release "$LOCK" "$output"
	fi
	is_free
	no_strays
}

# bats test_tags=deeper
@test "at a low limit on descriptors run and acquire name the limit, with 125, or work" {
	local n
	for DLOCK_BACKEND in "$FILE" "$REDIS"; do
		for n in 4 5 6 8 9 12 13 14 16; do
			few_descriptors "$n" run -w 5s -t 20s "$LOCK" -- true
			few_descriptors "$n" acquire -w 5s -t 20s "$LOCK"
		done
		equal "$status" 0
	done
	few_descriptors 8 run "$LOCK" -- true
	equal "$status" 125
}
