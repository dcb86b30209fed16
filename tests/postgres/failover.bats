# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Two servers, of which one follows the other, and the one that takes over.

load ../lib/helpers
load postgres

# pair SYNCHRONOUS: starts a primary in $T/one and a standby in $T/two; sets BOTH to the URI of both
pair() {
	local one=$T/one two=$T/two
	PRIVATE+=("$one" "$two")
	postgres_start "$one" -c wal_level=replica -c hot_standby=on
	free_port
	postgres_follow "$two" "$one" "$PORT"
	if [[ $1 == yes ]]; then
		SERVER=$one pg "ALTER SYSTEM SET synchronous_standby_names = 'two'" >"$T/set"
		SERVER=$one pg "SELECT pg_reload_conf()" >reload
	fi
	wait_until 10 postgres_streams "$one"
	BOTH=postgresql://dlock:s3cret@127.0.0.1:$(<"$one/port"),127.0.0.1:$(<"$two/port")/dlock
}

promote() {
	SERVER=$T/two pg "SELECT pg_promote()" >promoted
}

@test "several hosts: the one that takes writes is found, and a standby alone is refused with a reason" {
	local two
	pair no
	two=postgresql://dlock:s3cret@127.0.0.1:$(<"$T/two/port")
	"$DLOCK" run -n -b "$two,127.0.0.1:$(<"$T/one/port")/dlock" "$LOCK" -- true
	refused 'read-only.*primary' "$two/dlock" -n
	"$DLOCK" check -b "$BOTH" >found || [[ $? == 1 ]]
	has_line found '^warning +replication'
}

# fail_over HOW...: a holder and a waiter go on at the standby, which takes over after HOW
fail_over() {
	local fence waiter
	DLOCK_BACKEND="$BOTH?timeout=1s&connect-timeout=2s"
	hold -t 20s -- "$TOOLS/witness" -i -l "$T/log"
	fence=$FENCE
	start "$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE" >next'
	waiter=$PID
	SERVER=$T/one wait_until 5 waiters 1
	"$@"
	promote
	SERVER=$T/two wait_until 15 waiters 1
	SERVER=$T/two wait_until 15 renewed
	alive "$COMMAND"
	kill -KILL "$COMMAND"
	join "$HOLDER"
	join "$waiter" 10
	equal "$status" 0
	(($(<next) > fence)) || fail "fence $(<next) after $fence"
}

# renewed: the holder has come to the new primary, whose entry ends later than 15 s from now
renewed() {
	lock_field "expires > clock_timestamp() + interval '14 s'"
	[[ $VALUE == t ]]
}

@test "synchronous: the primary crashes, and holder and waiter go on with the standby" {
	pair yes
	fail_over postgres_stop "$T/one"
}

# bats test_tags=more
@test "synchronous: the primary hangs, and holder and waiter go on; its thaw lets nobody in" {
	pair yes
	fail_over postgres_freeze "$T/one"
	postgres_thaw "$T/one"
	# It waits for a standby, so it acknowledges nothing.
	refused 'no answer|not known' "postgresql://dlock:s3cret@127.0.0.1:$(<"$T/one/port")/dlock?timeout=1s" -n
}

has_no_receiver() {
	[[ $(SERVER=$T/two pg "SELECT count(*) FROM pg_stat_wal_receiver") == 0 ]]
}

@test "asynchronous: a lock that the standby does not have is lost; its command ends with the next renewal" {
	pair no
	DLOCK_BACKEND="$BOTH?timeout=1s&connect-timeout=2s"
	SERVER=$T/two pg "ALTER SYSTEM SET primary_conninfo = ''" >"$T/set"
	SERVER=$T/two pg "SELECT pg_reload_conf()" >reload
	wait_until 10 has_no_receiver
	hold -t 6s -- sleep 100
	postgres_stop "$T/one"
	promote
	"$DLOCK" run -n "$LOCK" -- true
	join "$HOLDER" 5
	equal "$status" 123
}

# FAILOVERS=20 TEST_SECONDS=900 repeats it more often.
# bats test_tags=more
@test "synchronous, again and again: an acknowledged lock is never forgotten" {
	local n
	for ((n = 0; n < ${FAILOVERS:-5}; n++)); do
		rm -rf "$T/one" "$T/two" log next
		PRIVATE=()
		pair yes
		"$DLOCK" acquire -b "$BOTH" -t 60s "$LOCK" >token
		postgres_stop "$T/one"
		promote
		run --separate-stderr -124 "$DLOCK" run -n -b "$BOTH" "$LOCK" -- touch ran
		"$DLOCK" release -b "$BOTH" "$LOCK" "$(<token)"
		postgres_stop "$T/two"
	done
}
