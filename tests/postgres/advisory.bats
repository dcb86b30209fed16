# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The strategy advisory: locks of the server that other programs take, too.

load ../lib/helpers
load postgres

prepare() {
	export DLOCK_BACKEND="$POSTGRES?strategy=advisory"
	PRIVATE=()
}

# stranger SQL: a psql that runs SQL, and stays connected until the test ends it
stranger() {
	start env PGAPPNAME=billing psql -X -q -h "$POSTGRES_DIR" -p "$(<"$POSTGRES_DIR/port")" -U dlock -A -t \
		-c "$1" -c 'SELECT pg_sleep(300)' dlock
	STRANGER=$PID STRANGER_OUT=$OUT
}

# is_locked: another program finds the lock taken
is_locked() {
	[[ $(pg "SELECT pg_try_advisory_xact_lock(hashtextextended('$LOCK', 0))") == f ]]
}

@test "advisory excludes pg_advisory_lock of others, and is excluded by it, which status shows" {
	hold --
	is_locked
	stranger "SELECT pg_advisory_lock(hashtextextended('$LOCK', 0))"
	holds_for 500 alive "$COMMAND"
	release
	wait_until 5 is_locked
	"$DLOCK" status "$LOCK" >shown || [[ $? == 1 ]]
	has_line shown 'billing'
	contend
	holds_for 700 alive "$CONTENDER"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	has_line <(echo "$stderr") 'billing'
	pg "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'billing'" >ended
	met_nobody 5
}

@test "a name of digits is the key; shared locks go together with shared ones of others" {
	LOCK=8675309
	hold --
	equal "$(pg "SELECT pg_try_advisory_xact_lock($LOCK)")" f
	release
	equal "$(pg "SELECT pg_try_advisory_xact_lock($LOCK)")" t
	LOCK=shared
	hold -s --
	equal "$(pg "SELECT pg_try_advisory_xact_lock_shared(hashtextextended('shared', 0))")" t
	is_locked
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	"$DLOCK" run -n -s "$LOCK" -- true
	release
}

@test "the connection of a holder is ended: the command is dead before the next one starts" {
	hold -t 12s -- "$TOOLS/witness" -i -l "$T/log"
	contend "$COMMAND"
	wait_until 5 queue 1
	pg "SELECT pg_terminate_backend(pid) FROM dlock_entries WHERE name = '$LOCK' AND fence > 0" >ended
	lost
	met_nobody
}

@test "the connection of a holder with a minimum hold is ended: the next one need not await the lease" {
	hold -t 30s --min-hold 60s --
	pg "SELECT pg_terminate_backend(pid) FROM dlock_entries WHERE name = '$LOCK' AND fence > 0" >ended
	lost
	run -0 "$DLOCK" run -w 10s "$LOCK" -- true
}

queue() {
	[[ $(entries advisory "$WAITS") == "$1" ]]
}

# bats test_tags=more
@test "all of a holder is stopped: the server lets the next one in when the lease is over" {
	hold_as_job -t 4s -k 500ms -- "$TOOLS/witness" -i -l "$T/log"
	keeper_of "$HOLDER"
	contend "$COMMAND"
	wait_until 5 queue 1
	kill -STOP "$KEEPER"
	lost
	met_nobody
}

# bats test_tags=more
@test "break ends the connection that has the lock, of dlock and of others" {
	hold --
	"$DLOCK" break --yes "$LOCK"
	lost
	wait_until 5 is_free
	stranger "SELECT pg_advisory_lock(hashtextextended('$LOCK', 0))"
	wait_until 5 is_locked
	"$DLOCK" break --yes "$LOCK"
	wait_until 5 is_free
}

@test "a COMMIT that fails leaves no lock in the session" {
	hold -t 30s -- # makes the tables
	release
	pg "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON dlock_entries DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()"
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- touch ran
	[[ ! -e ran ]]
	wait_until 5 not is_locked
	pg "DROP TRIGGER refuse ON dlock_entries; DROP FUNCTION refuse"
}
