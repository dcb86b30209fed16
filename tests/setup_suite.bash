# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What all suites share: the program under test and the tools. Each suite starts the servers
# that it needs itself, in setup_file.

setup_suite() {
	local top tool
	# Servers are there, where a normal user does not look.
	export PATH=$PATH:/usr/sbin:/sbin
	top=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	export BUILD=${BUILD:-$top/build}
	export DLOCK=${DLOCK:-$BUILD/dlock}
	export TOOLS=${TOOLS:-$BUILD/tests/tools}
	# shellcheck source=tests/helpers.bash
	source "$top/tests/helpers.bash"

	[[ -x $DLOCK ]] || fail "$DLOCK is not there: run make"
	for tool in "$top"/tests/tools/*.c; do
		tool=$TOOLS/$(basename "$tool" .c)
		[[ -x $tool ]] || fail "$tool is not there: run make check"
	done
}
