# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What run.bats and acquire.bats share. CONFORMANCE says which backend is tested, one of those in
# the file `list`, and backends/NAME.bash says what differs between backends:
#
#	FIFO, LEASES		not empty: waiters in order; a TTL that the server ends
#	SESSION			not empty: a lock lives with a session, so that a keeper stays
#				behind `acquire`, and only that one can renew
#	TRANSACTION_FENCES	not empty: fences count transactions of the server, not time
#	DEAD_WAITS		not empty: a waiter whose keeper was killed is in the queue until
#				its lease ends
#	LACKS			what the backend does not offer: shared slots names kept, and
#				waiters in status
#				(kept: that status tells of a lock that --min-hold keeps)
#	LONGEST_HOURS		the longest TTL, if that is not 10 years
#	backend_prepare		sets URI
#	backend_nothing_left	true if nothing of $LOCK is there but its fence
#	backend_waiters		prints how many wait for $LOCK
#	backend_wipe		all data of the backend is lost

BACKEND=${CONFORMANCE:-file}
BATS_TEST_NAME_PREFIX="$BACKEND: "
# shellcheck source=tests/conformance/backends/redis.bash
source "$BATS_TEST_DIRNAME/backends/$BACKEND.bash"

prepare() {
	need jq
	backend_prepare
	export DLOCK_BACKEND=$URI
}

waiters() {
	equal "$(backend_waiters)" "$1" waiters 2>/dev/null
}

nothing_left() {
	wait_until 2 backend_nothing_left
}

# offers WHAT: whether the backend has what LACKS may name, or the mode that is asked for with
# WHAT: -s, --slots N, or nothing for an exclusive hold
offers() {
	local what=$1
	case $what in
	'') return 0 ;;
	-s) what=shared ;;
	--slots*) what=slots ;;
	esac
	[[ " ${LACKS-} " != *" $what "* ]]
}

# refuses WHAT: dlock refuses a request for WHAT, which this backend does not offer, says so in one
# line, and holds nothing because of it. This is what a test of WHAT asserts for such a backend.
refuses() {
	local long
	echo "# $BACKEND does not offer: $1" >&3
	case $1 in
	shared | -s)
		run --separate-stderr -125 "$DLOCK" run -n -s "$LOCK" -- touch refused
		one_line 'no (shared holds|--shared)'
		;;
	slots | --slots*)
		run --separate-stderr -125 "$DLOCK" run -n --slots 2 "$LOCK" -- touch refused
		one_line 'no --slots'
		;;
	names)
		printf -v long '%65s' ''
		run --separate-stderr -125 "$DLOCK" run -n "${long// /x}" -- touch refused
		one_line '64 characters'
		;;
	*) fail "refuses: $1 is not known" ;;
	esac
	equal "$output" ""
	[[ ! -e refused ]]
	is_free
}
