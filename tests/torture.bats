# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Some seconds of random faults on each backend (torture/run), and the judge of histories on its
# own. Thousands of rounds are for `make torture`.

load helpers

# torment BACKEND ROUNDS: begins them within a few seconds; a slow machine does fewer
torment() {
	local status=0
	BACKENDS=$1 ROUNDS=${DLOCK_TESTS_ROUNDS:-$2} LIMIT=8 LANES=${LANES:-40} TMPDIR=$T "$BATS_TEST_DIRNAME/torture/run" \
		>out 2>&1 3>&- 4>&- || status=$?
	cat out
	equal "$status" 0 "status of torture/run"
	has_line out '^[1-9][0-9]* passed, 0 failed$'
}

@test "file" {
	torment file 300
}

@test "redis" {
	torment redis 300
}

@test "zookeeper" {
	torment zookeeper 100
}

@test "zookeeper, one node" {
	torment zookeeper-node 100
}

@test "mysql" {
	torment mysql 100
}

@test "mysql insert" {
	torment mysql-insert 100
}

@test "mysql row" {
	torment mysql-row 100
}

@test "mysql advisory" {
	torment mysql-advisory 100
}

@test "mysql table" {
	torment mysql-table 100
}

@test "mysql shedlock" {
	torment mysql-shedlock 100
}

# what finds nothing because it cannot find anything would pass all of the above
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
		run -1 "$BATS_TEST_DIRNAME/torture/run" 3>&- 4>&-
	matches "$output" 'FINDING: overlap: hold c'
	matches "$output" 'FINDING: holds c[0-9] and [a-z0-9]* have the same fence'
	matches "${lines[-1]}" '^0 passed, 4 failed$'
}
