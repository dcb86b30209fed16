# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What bats and the tests do most often without starting a process, because a fork of bash and an exec
# cost more than all else in most tests. bats reads this file, too, because tests/check sets BASH_ENV.

# The package bash-builtins has them. This mkdir gives no more rights than the umask, whatever -m says.
for builtin in mkdir mkfifo rm rmdir; do
	enable -f "/usr/lib/bash/$builtin" "$builtin" 2>/dev/null || :
done

# date, as bats asks for the time
date() {
	if [[ $* == +%s%N ]]; then
		echo "${EPOCHREALTIME/[.,]/}000"
	else
		command date "$@"
	fi
}

# take_lines NAME TEXT: sets the array NAME to the lines of TEXT that are not empty
take_lines() {
	IFS=$'\n' read -rd '' -a "$1" <<<"$2" || :
}

# run [!|-STATUS] [--separate-stderr] COMMAND...: as that of bats, with files where that has pipes and a
# process for each of its steps. It does not wait for processes that COMMAND leaves behind.
run() {
	local expected='' out=$BATS_FILE_TMPDIR/run.$BASHPID err=
	while [[ $1 == -* || $1 == ! ]]; do
		case $1 in
		'!') expected=! ;;
		--separate-stderr) err=$out.err ;;
		-[0-9]*) expected=${1#-} ;;
		*) fail "run: $1?" || return ;;
		esac
		shift
	done
	status=0
	if [[ -n $err ]]; then
		("$@") >"$out" 2>"$err" || status=$?
		stderr=$(<"$err")
		take_lines stderr_lines "$stderr"
	else
		("$@") >"$out" 2>&1 || status=$?
	fi
	output=$(<"$out")
	take_lines lines "$output"
	if [[ $expected == ! ]]; then
		((status != 0)) || fail "status 0, a failure was expected: $*"
	elif [[ -n $expected ]]; then
		((status == expected)) || fail "status $status instead of $expected: $*"
	fi
}
