# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The dialect shedlock: a table that Java's ShedLock uses as well. The statements are those of its
# JdbcTemplateLockProvider with usingDbTime() on PostgreSQL.

load ../lib/helpers
load postgres

prepare() {
	export DLOCK_BACKEND="$POSTGRES?dialect=shedlock"
	PRIVATE=()
	"$DLOCK" setup
}

NOW_UTC="timezone('utc', CURRENT_TIMESTAMP)"

# java_lock SECONDS: as ShedLock takes the lock; prints how many rows were written
java_lock() {
	pg "WITH written AS (INSERT INTO shedlock(name, lock_until, locked_at, locked_by)
		VALUES ('$LOCK', $NOW_UTC + cast('$1 second' as interval), $NOW_UTC, 'java-host')
		ON CONFLICT (name) DO UPDATE SET lock_until = $NOW_UTC + cast('$1 second' as interval),
		locked_at = $NOW_UTC, locked_by = 'java-host' WHERE shedlock.lock_until <= $NOW_UTC RETURNING 1)
		SELECT count(*) FROM written"
}

# java_unlock: as ShedLock releases it
java_unlock() {
	pg "UPDATE shedlock SET lock_until = $NOW_UTC WHERE name = '$LOCK' AND locked_by = 'java-host'"
}

@test "dlock and ShedLock exclude each other, and each takes what the other has released" {
	equal "$(java_lock 60)" 1
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	has_line <(echo "$stderr") 'java-host'
	start "$DLOCK" run -w 20s "$LOCK" -- true
	holds_for 500 alive "$PID"
	java_unlock
	join "$PID" 5
	equal "$status" 0
	hold --
	equal "$(java_lock 60)" 0
	release
	equal "$(java_lock 60)" 1
}

# bats test_tags=more
@test "fences grow, the lease ends by the clock of the server in UTC, and is renewed" {
	local before
	pg "ALTER ROLE dlock SET timezone = 'Asia/Kolkata'"
	before=$("$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
	hold -t 3s --
	((FENCE > before))
	holds_for 3500 alive "$COMMAND"
	equal "$(java_lock 60)" 0
	equal "$(pg "SELECT lock_until <= $NOW_UTC + interval '3 s' FROM shedlock WHERE name = '$LOCK'")" t
	pg "UPDATE shedlock SET lock_until = $NOW_UTC, locked_by = 'java-host' WHERE name = '$LOCK'"
	lost 5
	pg "ALTER ROLE dlock RESET timezone"
}

@test "a name that does not fit, and a mode that the table lacks, are refused" {
	local long
	printf -v long '%65s' ''
	run --separate-stderr -125 "$DLOCK" run -n "${long// /x}" -- true
	one_line '64 characters'
	run --separate-stderr -125 "$DLOCK" run -n -s "$LOCK" -- true
	one_line 'no --shared'
}
