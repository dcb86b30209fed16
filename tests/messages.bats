# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A message between dlock's processes cannot be sent or received: torture/failsend.c lets the Nth one
# fail, once or from then on. Then dlock ends with 125 and the name of the call, or does what it was
# to do. It never hangs, and leaves no lock and no process behind.

load helpers
load redis-server

# The command of the runs. It writes to its first argument what another dlock finds,
# which is 124 if the lock is held, and sleeps for as long as the second one says.
UNDER_LOCK='env -i "$DLOCK" run -n -q -b "$DLOCK_BACKEND" "$LOCK" -- true
	echo $? >>"$0"
	exec sleep "$1"'

# failing CALL N ON ERRNO ARG...: runs dlock while messages fail: see torture/failsend.c
failing() {
	local variables=(LD_PRELOAD="$BUILD/tests/torture/failsend.so" FAIL_CALL="$1" FAIL_AT="$2" FAIL_ERRNO="$4"
		FAIL_MARK="$T/reached")
	[[ -z $3 ]] || variables+=(FAIL_ON=1)
	shift 4
	timeout -k 1 15 env "${variables[@]}" "$DLOCK" "$@" 2>err
}

# each FUNCTION: calls it in processes of its own, with DLOCK_BACKEND and LOCK set and `failing CALL N ON
# ERRNO` as its arguments, for each N from 1 until so many messages are not sent or received any more
each() {
	local backend call n
	for backend in "$FILE" "$REDIS"; do
		for call in send recv; do
			for ((n = 1; n <= 40; n += 4)); do
				rm -f reached
				four "$1"
				[[ -e reached ]] || break
			done
			((n > 1)) || fail "$backend $call: no message has failed"
		done
	done
	[[ ! -s $T/failures ]] || fail "$(<"$T/failures")"
}

# four FUNCTION: for this N and the next three, once and from then on
four() {
	local on jobs=() number
	# ETOOMANYREFS, ENOBUFS and ENOMEM; and a descriptor that is left out
	local errnos=(109 105 12)
	[[ $call == send ]] || errnos=(105 0 12)
	for ((number = n; number < n + 4; number++)); do
		for on in "" on; do
			one "$1" "$call" "$number" "$on" "${errnos[number % 3]}" &
			jobs+=($!)
		done
	done
	wait "${jobs[@]}" || :
}

# one FUNCTION ARG...: calls it in a directory of its own, and checks what it has left
one() {
	local code=0 dir
	exec >>"$T/failures" 2>&1 3>&- 4>&-
	export DLOCK_BACKEND=$backend LOCK=$LOCK-$BASHPID
	dir=$(mktemp -d "$T/one.XXXXXX")
	cd "$dir" || return
	"$@" || code=$?
	case $code in
	0) ;;
	125)
		grep -Eq "^dlock: .*: between dlock's processes: (sendmsg|recvmsg): |cannot share it" err ||
			code="$code without its reason"
		;;
	*) code="$code is not expected" ;;
	esac
	[[ $code == 0 || $code == 125 ]] || echo "${backend%%:*} $*: status $code: $(<err)"
	is_free || echo "${backend%%:*} $*: the lock is left"
	if [[ -e seen ]] && [[ $(<seen) != 124 ]]; then
		echo "${backend%%:*} $*: the command saw: $(tr '\n' ' ' <seen)"
	fi
}

whole_run() {
	failing "$@" run -v -w 5s -t 20s -k 300ms "$LOCK" -- sh -c "$UNDER_LOCK" seen 0.05 || return
	[[ -e seen ]] || echo "$*: status 0 without a command"
}

@test "run: no message can make it hang, or leave the lock or a process" {
	each whole_run
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

@test "run while it waits: no message can make it hang, or leave the lock or a process" {
	each waiting_run
}

acquires() {
	local token keeper code=0
	# A daemon whose hold is lost sends TERM to the process.
	if [[ -n $OWNER ]] && ! kill -0 "$OWNER" 2>/dev/null; then
		start sleep 300
		OWNER=$PID
	fi
	token=$(failing "$@" acquire -w 5s -t 20s ${OWNER:+--pid "$OWNER"} "$LOCK") || return
	# A daemon that cannot receive holds until its process or its lease ends.
	"$DLOCK" release "$LOCK" "$token" >/dev/null 2>&1 || code=$?
	if ((code)) && [[ -n $3 ]]; then
		keeper=$(pgrep -of "^$DLOCK acquire .* $LOCK$" || true)
		[[ -z $keeper ]] || kill -TERM "$keeper"
	fi
	wait_until 5 is_free
}

@test "acquire: no message can make it hang, or leave the lock or a process" {
	OWNER=
	each acquires
}

@test "acquire --pid: no message can make it hang, or leave the lock or a process" {
	start sleep 300
	OWNER=$PID
	each acquires
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

@test "at a low limit on descriptors run and acquire say so, with the limit and 125, or work" {
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
