# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Assertions, and what skips a test.

# What a hostile server or file may contain: orders for a terminal (ESC, C1 as a byte and as UTF-8),
# a byte that is not UTF-8, and a line that dlock has not written
EVIL=$'\e]0;x\a\e[31m \x9b31m \xc2\x9b31m \x7f \xff \t \ndlock: forged\r'

# fail MESSAGE...: fails the test, and shows the output of the last `run`
fail() {
	printf '%s\n' "$*" >&2
	if [[ -n ${output-} ]]; then
		printf 'output: %s\n' "$output" >&2
	fi
	if [[ -n ${stderr-} ]]; then
		printf 'stderr: %s\n' "$stderr" >&2
	fi
	return 1
}

# not_here REASON: skips the test, or fails it where skips count as failures
not_here() {
	if [[ ${DLOCK_TESTS_STRICT-} == 1 ]]; then
		fail "cannot run here: $1"
	else
		skip "$1"
	fi
}

# need_root: skips the test for a normal user. This is never a failure, and tests/check counts it apart.
need_root() {
	((EUID == 0)) || skip "needs root"
}

need() {
	local program
	for program; do
		type -P "$program" >/dev/null || not_here "needs $program"
	done
}

# equal ACTUAL EXPECTED [WHAT]
equal() {
	[[ $1 == "$2" ]] || fail "${3:-value}: got '$1', expected '$2'"
}

# matches TEXT REGEX [WHAT]
matches() {
	[[ $1 =~ $2 ]] || fail "${3:-text}: '$1' does not match '$2'"
}

# between VALUE LOW HIGH [WHAT]
between() {
	(($1 >= $2 && $1 <= $3)) || fail "${4:-value}: $1 is not in $2..$3"
}

# harmless TEXT: it is UTF-8 without control characters, but for tabs and newlines
harmless() {
	iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || fail "not UTF-8: $(cat -v <<<"$1")"
	if LC_ALL=C.UTF-8 grep -qP '[^\P{Cc}\t]' <<<"$1"; then
		fail "control characters: $(cat -v <<<"$1")"
	fi
}

# one_line: what `run --separate-stderr` put on stderr is one line that starts with
# "dlock: ", and matches each REGEX given.
one_line() {
	local regex
	equal "${#stderr_lines[@]}" 1 "lines on stderr"
	matches "$stderr" '^dlock: ' stderr
	for regex; do
		matches "$stderr" "$regex" stderr
	done
}
