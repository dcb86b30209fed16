# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Oracle's MySQL with a semi-synchronous replica, which takes over when the source is gone.

load ../lib/helpers
load ../mysql/lease
load ../mysql/holders
# shellcheck source=tests/lib/services/group.bash
source "$TOP/tests/lib/services/group.bash"

setup_file() {
	need mysqld
}

teardown_file() {
	:
}

prepare() {
	PAIR=$T/pair
	replica_start "$PAIR"
	SERVICES+=("$(<"$PAIR/1/pid")" "$(<"$PAIR/2/pid")")
	MYSQL_DIR=$PAIR/1
	DLOCK_BACKEND=$(members_uri "$PAIR" 2)
	export DLOCK_BACKEND
	"$DLOCK" setup
}

# promote: the replica takes writes from now on
promote() {
	mysql_at "$PAIR/2" "STOP REPLICA; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF"
	MYSQL_DIR=$PAIR/2
}

# take_over: the source is gone, and the replica takes its place
take_over() {
	wait_until 5 in_step
	kill -KILL "$(<"$PAIR/1/pid")"
	promote
}

# in_step: the replica has what the source had a moment ago, which goes on writing
in_step() {
	local executed
	executed=$(mysql_at "$PAIR/1" "SELECT REPLACE(@@gtid_executed, '\n', '')")
	[[ $(mysql_at "$PAIR/2" "SELECT GTID_SUBSET('$executed', @@gtid_executed)") == 1 ]]
}

@test "a replica in step takes over: the hold goes on, and nobody else is let in" {
	local waiter
	"$DLOCK" check >found || equal $? 1
	has_line found '^warning +replication +the members do not agree on commits'
	hold -t 20s --
	wait_in_line 1 -t 20s -- touch ran
	waiter=$PID
	wait_until 5 in_step
	kill -KILL "$(<"$PAIR/1/pid")"
	# Only the replica is left, and reads only.
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- true
	one_line '; .*read-only'
	promote
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	# A renewal comes each third of a TTL.
	holds_for 8000 alive "$COMMAND"
	[[ ! -e ran ]]
	release
	join "$waiter" 15
	equal "$status" 0
}

@test "a replica in step takes over, on each strategy: leases go on, sessions end, waiters get their locks" {
	hold_all "$PAIR/1" 20s "$DLOCK_BACKEND" "$DLOCK" "$DLOCK"
	take_over
	# A lease is renewed at the new source, before its end.
	pause 8
	touch end
	lost_all 25 'row|advisory|table'
	got_all
}

@test "a source that is stopped loses its holders in time, and takes none of the locks back" {
	# A waiter's lease begins before it has tried the server that is stopped, for up to 5 s.
	hold_all "$PAIR/1" 10s "$DLOCK_BACKEND" "$DLOCK" "$DLOCK"
	kill -STOP "$(<"$PAIR/1/pid")"
	lost_all 16 '.*'
	promote
	got_all
	# The source runs again, and nobody has told it that it is one no more: the manual says read_only.
	"$DLOCK" run -b "mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$(<"$PAIR/2/port")/$MYSQL_DATABASE" \
		-w 10s "$LOCK" -- true
	kill -CONT "$(<"$PAIR/1/pid")"
	mysql_at "$PAIR/1" 'SET GLOBAL super_read_only = ON'
	hold --
	[[ $(entries lease 'fence > 0') == 1 ]]
	release
}

@test "a replica that has missed the hold lets another one in, until the first renews" {
	local first start
	mysql_at "$PAIR/2" "STOP REPLICA"
	hold -t 6s --
	first=$HOLDER
	kill -KILL "$(<"$PAIR/1/pid")"
	promote
	now
	start=$NOW
	run -0 "$DLOCK" run -w 5s "$LOCK" -- true
	join "$first" 8
	now
	equal "$status" 123
	echo "# two commands for $((NOW - start)) ms" >&3
	# The next renewal, a third of the TTL later at most, and a connection.
	took $((NOW - start)) 0 4000
}
