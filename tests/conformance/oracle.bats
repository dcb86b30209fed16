# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Each backend has the same outcomes and rows as the backend in memory, in random sequences of calls
# (tests/conformance/memory/oracle.c). ORACLE_SEQUENCES is how many for each backend, by default 20,
# and 250 outside of the core of the tests; ORACLE_SEED is the first.

load ../lib/helpers
# shellcheck source=tests/lib/services/memory.bash
source "$TOP/tests/lib/services/memory.bash"
# shellcheck source=tests/lib/services/etcd.bash
source "$TOP/tests/lib/services/etcd.bash"
# shellcheck source=tests/lib/services/mysql.bash
source "$TOP/tests/lib/services/mysql.bash"
# shellcheck source=tests/lib/services/postgres.bash
source "$TOP/tests/lib/services/postgres.bash"
# shellcheck source=tests/redlock/redlock.bash
source "$TOP/tests/redlock/redlock.bash"

setup_file() {
	export ORACLE_SEQUENCES=${ORACLE_SEQUENCES:-$(long_or 250 20)}
	memory_for_file
	export MYSQL_DIR=$BATS_FILE_TMPDIR/mysql
	mysql_start "$MYSQL_DIR"
	export POSTGRES_DIR=$BATS_FILE_TMPDIR/postgres
	postgres_start "$POSTGRES_DIR"
}

teardown_file() {
	server_stop "$MYSQL_DIR"
	postgres_stop "$POSTGRES_DIR"
	memory_file_end
}

prepare() {
	:
}

# agrees [OPTION]... URI: the backend of URI does as that in memory
agrees() {
	run timeout 220 "$BUILD/oracle" "$@" "memory://$MEMORY_SOCKET"
	((status == 0)) || fail "status $status"
	matches "$output" 'sequences from seed [0-9]+: the same$'
	echo "# $output" >&3
}

# finds FAULT CALLS PATTERN: the oracle finds this fault of a second memory (memory.h), and prints
# the shortest sequence that shows it: CALLS calls, whose text has the pattern
finds() {
	memory_start "$T/wrong" "$1"
	SERVICES+=("$(<"$T/wrong.pid")")
	run -1 timeout 120 env -u ORACLE_SEED "$BUILD/oracle" "memory://$T/wrong" "memory://$MEMORY_SOCKET"
	matches "$output" "^seed [0-9]+: memory: and memory differ in $2 calls:"
	matches "$output" "$3"
	matches "$output" 'from seed 1: a difference$'
}

# bats test_tags=more
@test "a release that is forgotten is found in the shortest sequence" {
	finds forget 3 ' waits \([^)]*\): BUSY.* (releases|breaks)'
}

# bats test_tags=more
@test "a waiter that nobody wakes is found" {
	finds deaf 3 ' waits \([^)]*\): BUSY.* (releases|breaks)'
}

@test "a newcomer that passes the queue is found" {
	finds barge '[3-5]' 'BUSY , but memory: HELD'
}

# bats test_tags=deeper
@test "memory agrees with itself" {
	agrees "memory://$MEMORY_SOCKET"
}

# bats test_tags=deeper
@test "file" {
	agrees -u "$FILE"
}

# bats test_tags=deeper
@test "redis" {
	private_redis
	agrees "$P_URI"
}

# bats test_tags=deeper
@test "redis, Redisson's reentrant lock" {
	private_redis
	agrees "$P_URI?dialect=redisson"
}

# bats test_tags=deeper
@test "redlock" {
	# Nodes that have just been started do not vote.
	elder private_redlock 3
	agrees -u "$P_URI"
}

# bats test_tags=deeper
@test "zookeeper" {
	private_zookeeper
	agrees "$P_URI"
}

# bats test_tags=more
@test "zookeeper, one node" {
	private_zookeeper
	agrees -u "$P_URI?strategy=node"
}

# bats test_tags=deeper
@test "etcd" {
	# shellcheck disable=SC2119 # no options
	private_etcd
	agrees -eg "$P_URI"
}

# bats test_tags=deeper
@test "mysql, lease" {
	agrees -gs "$(mysql_uri "$MYSQL_DIR")"
}

# bats test_tags=more
@test "mysql, row" {
	agrees -g "$(mysql_uri "$MYSQL_DIR")?strategy=row"
}

# bats test_tags=more
@test "mysql, advisory" {
	agrees -g "$(mysql_uri "$MYSQL_DIR")?strategy=advisory"
}

# bats test_tags=more
@test "mysql, insert" {
	agrees -g "$(mysql_uri "$MYSQL_DIR")?strategy=insert"
}

# bats test_tags=deeper
@test "postgres, lease" {
	# A sequence takes some times as long as on MySQL.
	local -x ORACLE_SEQUENCES=$((ORACLE_SEQUENCES / 3))
	agrees "$(postgres_uri "$POSTGRES_DIR")"
}

# bats test_tags=more
@test "postgres, advisory" {
	local -x ORACLE_SEQUENCES=$((ORACLE_SEQUENCES / 3))
	agrees -g "$(postgres_uri "$POSTGRES_DIR")?strategy=advisory"
}
