# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The functions that the suites are written with, and the frame of a test. Each test gets its own
# working directory ($T), lock name ($LOCK) and lock directory ($LOCKS). Processes that a test starts
# with `start` are ended after it; a test that leaves any other process behind fails.
#
# No loop variable is called i, because `run` of bats 1.8 overwrites that one.

bats_require_minimum_version 1.5.0

# Whatever the terminal is that the tests run on, those that they make can do what xterm can.
export TERM=xterm
# The system's programs, among them servers in places where a normal user does not look: others of the
# same names, such as a python3 that is a script, take longer to find and to start.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# bash takes a sixth less of the processor where a character is a byte. A test of characters sets it.
export LC_ALL=C

# A server has a machine of its own elsewhere. Here it has precedence, where one may give it.
export AHEAD=
((EUID != 0)) || AHEAD='nice -n -5'

# Programs that are no suites have set top.
TOP=${BATS_TEST_DIRNAME+${BATS_TEST_DIRNAME%/tests/*}}
TOP=${TOP:-$top}
export BUILD=${BUILD:-$TOP/build}
export DLOCK=${DLOCK:-$BUILD/dlock}
export TOOLS=${TOOLS:-$BUILD/tests/lib/tools}
if [[ ! -x $DLOCK || ! -x $TOOLS/witness ]]; then
	echo "$DLOCK or $TOOLS/witness is not there: run make all test-programs" >&2
	exit 1
fi

# shellcheck source=tests/lib/cheap.bash
source "$TOP/tests/lib/cheap.bash"
# shellcheck source=tests/lib/assert.bash
source "$TOP/tests/lib/assert.bash"
# shellcheck source=tests/lib/time.bash
source "$TOP/tests/lib/time.bash"
# shellcheck source=tests/lib/processes.bash
source "$TOP/tests/lib/processes.bash"
# shellcheck source=tests/lib/users.bash
source "$TOP/tests/lib/users.bash"
# shellcheck source=tests/lib/services.bash
source "$TOP/tests/lib/services.bash"
# shellcheck source=tests/lib/dlock.bash
source "$TOP/tests/lib/dlock.bash"
# shellcheck source=tests/lib/services/ports.bash
source "$TOP/tests/lib/services/ports.bash"
# shellcheck source=tests/lib/services/redis.bash
source "$TOP/tests/lib/services/redis.bash"
# shellcheck source=tests/lib/services/zookeeper.bash
source "$TOP/tests/lib/services/zookeeper.bash"

# in_core: whether only the core of the tests runs (PART in tests/check)
in_core() {
	[[ ${PART:-core} == core ]]
}

# long_or LONG SHORT: prints the second one in the core of the tests (PART in tests/check), else the first
long_or() {
	in_core && echo "$2" || echo "$1"
}

# untraced: bats notes before each command of bash where the test is, so as to tell where it failed.
# That takes 0.15 ms a command, most of a test's processor time. bash 5 knows the place when a
# command fails, so that it is enough to note it then.
untraced() {
	trap - DEBUG
	trap note_failure ERR
}

note_failure() {
	bats_error_trap
	bats_capture_stack_trace
}

setup() {
	untraced
	# For bats alone (tests/check): each bash that a test starts would read it.
	unset BASH_ENV
	T=$BATS_TEST_TMPDIR
	cd "$T" || return
	MARK=$BATS_SUITE_TEST_NUMBER.$$
	export DLOCK_TEST_MARK=$MARK
	STARTED=()
	STARTED_COUNT=0
	SERVICES=()
	# Nor what dlock takes from its environment.
	unset DLOCK_BACKEND DLOCK_REQUIRE_BACKEND DLOCK_TTL DLOCK_WAIT DLOCK_NAME DLOCK_TOKEN \
		DLOCK_FENCE DLOCK_OUTER CI NO_COLOR
	# The tests neither read nor change files of the user who runs them.
	export HOME=$T/home XDG_CONFIG_HOME=$T/config
	# Commands under the lock use these, too.
	export LOCK=test-$BATS_SUITE_TEST_NUMBER T
	LOCKS=$T/locks
	FILE=file://$LOCKS
	REDIS=redis://127.0.0.1:${REDIS_PORT-}
	KEY=dlock:$LOCK
	# Witnesses write here about their holds (tools/record.h); judge_histories reads it.
	export WITNESS_HISTORIES=$T/histories
	mkdir -m 0700 "$HOME" "$XDG_CONFIG_HOME" "$LOCKS" "$WITNESS_HISTORIES"
	# for pause
	[[ -p $BATS_FILE_TMPDIR/never ]] || mkfifo "$BATS_FILE_TMPDIR/never"
	# Most tests use this backend; without it a test could use the system's lock directory.
	export DLOCK_BACKEND=$FILE
	if declare -F prepare >/dev/null; then
		prepare
	fi
}

teardown() {
	local pid
	if declare -F tidy >/dev/null; then
		tidy
	fi
	for pid in "${STARTED[@]}"; do
		# The pid of a process that ended may be another process's now.
		if ! not_ours "$pid"; then
			kill -TERM "$pid" || :
			kill -CONT "$pid" || :
		fi
	done
	for pid in "${STARTED[@]}"; do
		wait_until 8 not_ours "$pid" || echo "process $pid does not heed TERM" >&2
	done
	for pid in "${SERVICES[@]}"; do
		if of_this_bats "$pid"; then
			kill -KILL "$pid"
			wait_until 5 ended "$pid"
		fi
	done
	if [[ -n ${OPEN-} ]]; then
		cd /
		rm -rf "$OPEN" "/tmp/dlock-$ALICE" "/tmp/dlock-$BOB" "/run/lock/dlock-$ALICE" \
			"/run/lock/dlock-$BOB"
	fi
	if ! wait_until 2 no_strays; then
		for pid in "${STRAYS[@]}"; do
			printf 'left behind: %s %s\n' "$pid" \
				"$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>&1)" >&2
			kill -KILL "$pid"
		done
		return 1
	fi
	judge_histories
}

# judge_histories: no history that the test's witnesses have written shows two holders at once, or a
# fence that shrank (torture/history.h). A test that expects such a history removes it.
judge_histories() {
	local file files=()
	for file in "$T"/histories/*; do
		[[ ! -f $file ]] || files+=("$file")
	done
	((${#files[@]} == 0)) || "$BUILD/tests/torture/judge" "${files[@]}" >&2
}
