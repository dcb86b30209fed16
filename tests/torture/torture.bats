# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The judge of histories, and the harness of `make torture`: do they find what is wrong? Random
# faults on each backend are a stage of .ci/run, for they would disturb the other suites.

load ../lib/helpers

# what finds nothing because it cannot find anything would pass everything
@test "the judge finds what happens without a lock" {
	local judge=$BUILD/tests/torture/judge
	"$TOOLS/witness" -H history -n one -f 200
	"$TOOLS/witness" -H history -n other -f 1
	"$judge" history
	start "$TOOLS/witness" -H history -n third -f 1000
	wait_until 5 has_line history ' beat third '
	"$TOOLS/witness" -H history -n fourth -f 1
	join "$PID"
	run -1 "$judge" history
	matches "$output" 'overlap: hold third .* hold fourth'
}

# bats test_tags=more
@test "the judge finds a daemon that outlives its command" {
	"$TOOLS/witness" -H history -d -n one -f 50
	"$TOOLS/witness" -H history -n other -f 300
	strays | while read -r pid; do
		kill -KILL "$pid"
	done
	wait_until 5 no_strays
	run -1 "$BUILD/tests/torture/judge" history
	matches "$output" 'overlap: hold one .* hold other'
}

@test "the harness finds a dlock that does not lock" {
	cat >lax <<-'END'
		#!/bin/sh
		while [ "$1" != -- ]; do
			shift
		done
		shift
		export DLOCK_FENCE=1
		exec "$@"
	END
	chmod +x lax
	BACKENDS=file ROUNDS=4 SEED=1 FAULTS=clock DLOCK=$T/lax TMPDIR=$T \
		run -1 "$TOP/tests/torture/run" 3>&- 4>&-
	matches "$output" 'FINDING: overlap: hold c'
	matches "$output" 'FINDING: holds c[0-9] and [a-z0-9]* have the same fence'
	matches "${lines[-1]}" '^0 passed, 4 failed$'
}

# at_work: a harness has contenders
at_work() {
	pgrep -f "witness .*$T/dlock-torture" >pids
}

at_rest() {
	! pgrep -f "$T/dlock-torture" >pids
}

# bats test_tags=more
@test "TERM ends the harnesses with their contenders" {
	start env BACKENDS=file ROUNDS=1000 LANES=4 TMPDIR="$T" "$TOP/tests/torture/run"
	wait_until 20 at_work
	kill -TERM "$PID"
	join "$PID"
	equal "$status" 143
	wait_until 10 at_rest
}
