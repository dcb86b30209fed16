# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The unit tests in C: programs that print TAP.

load ../lib/helpers

@test "unit programs" {
	local source program failed=()
	for source in "$BATS_TEST_DIRNAME"/*.c; do
		program=$BUILD/tests/unit/$(basename "$source" .c)
		if ! "$program" >tap 2>&1 || grep -q '^not ok' tap || ! grep -Eq '^1\.\.[1-9]' tap; then
			failed+=("$(basename "$program")")
			cat tap
		fi
	done
	equal "${failed[*]}" "" "programs that failed"
}
