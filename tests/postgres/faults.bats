# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# PostgreSQL's lease: the guarantees of a holder and a waiter under faults.

load ../lib/helpers
load postgres

# witness [OPTION]...: holds $LOCK with a command that ignores TERM and logs signs of life
witness() {
	hold "$@" -- "$TOOLS/witness" -i -l "$T/log"
}

# dead_in_time: the witness is dead, and gave no sign of life after the end of the lease that the server
# has noted. Its clock is the one of the tests' machine; the witness counts since boot.
dead_in_time() {
	local sign wall boot
	ended "$COMMAND"
	lock_field "(extract(epoch FROM expires) * 1000)::bigint"
	now
	boot=$NOW wall=$((${EPOCHREALTIME/./} / 1000))
	read -r sign _ < <(tail -n 1 log)
	[[ -z $VALUE ]] || ((sign + wall - boot <= VALUE + 10)) ||
		fail "lived until $((sign + wall - boot)), the lease ended at $VALUE"
}

@test "server frozen: the tree is dead before the lease ends" {
	private_postgres
	SERVER=$P_DIR
	witness -b "$P_URI" -t 4s -k 500ms
	postgres_freeze "$P_DIR"
	lost
	postgres_thaw "$P_DIR"
	dead_in_time
	DLOCK_BACKEND=$P_URI wait_until 6 is_free
}

server_seconds() {
	pg "SELECT extract(epoch FROM clock_timestamp())::bigint"
}

@test "the server's clock jumps ahead: the lock is lost; back: the hold stands, and fences grow" {
	mkdir bin
	clocked "$POSTGRES_BIN/postgres"
	mv clocked bin/postgres
	POSTGRES_BIN=$T/bin private_postgres
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	outlives_jumps
}

@test "server crashes and comes back: the lease stands, a waiter keeps its place and is woken" {
	private_postgres
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold -t 24s --
	local fence=$FENCE waiter expires
	wait_in_line 1 -- true
	waiter=$PID
	restart_postgres
	holds_for 500 alive "$COMMAND"
	lock_field "fence, expires > clock_timestamp()"
	equal "$VALUE" "$fence|t"
	# Both have connected again.
	lock_field expires
	expires=$VALUE
	wait_until 12 later_than "$expires"
	wait_until 12 waiters 1
	release
	join "$waiter" 3
	equal "$status" 0
	wait_until 2 only_fences
}

later_than() {
	lock_field "expires > '$1'"
	[[ $VALUE == t ]]
}

# bats test_tags=more
@test "connections ended by the server, again and again: the lease stands, the waiter gets the lock" {
	hold -t 6s --
	wait_in_line 1 -- true
	local n waiter=$PID
	for n in {1..8}; do
		cut_connections
		holds_for 300 is_held
	done
	wait_until 5 waiters 1
	release
	join "$waiter" 3
	equal "$status" 0
	wait_until 2 only_fences
}

# bats test_tags=more
@test "row taken by another client, or gone: the command ends at once, and a renewal takes nothing" {
	hold -t 3s --
	pg "UPDATE dlock_entries SET token = 'x' WHERE name = '$LOCK'"
	lost 5
	lock_field token
	equal "$VALUE" x
	pg "DELETE FROM dlock_entries WHERE name = '$LOCK'"
	hold -t 3s --
	pg "DELETE FROM dlock_entries WHERE name = '$LOCK'"
	lost 5
	lock_field 'count(*)'
	equal "$VALUE" 0
}

@test "reply lost at every request of a run: it runs once, or reports why not, and nothing stays" {
	via_proxy
	"$DLOCK" setup
	# The login takes 4 of them, with SCRAM.
	loses_replies 1 3 4 5 6 7
}

@test "reply to a waiter that enters, or takes its turn, lost: one place, and a hold that ends in time" {
	via_proxy
	"$DLOCK" setup
	local waiter
	hold --
	proxy "cut-on INSERT INTO dlock_entries AS"
	start "$DLOCK" run -t 3s -b "$PROXY" "$LOCK" -- "$TOOLS/witness" -i -l "$T/log"
	waiter=$PID
	wait_until 10 waiters 1
	equal "$(entries lease 'fence = 0')" 1 places
	proxy_stat cut
	equal "$VALUE" 1 "answers lost"
	proxy "cut-on INSERT INTO dlock_entries AS"
	release
	wait_until 5 has_line log ' pid '
	COMMAND=$(sed -n 's/^[0-9]* pid //p' log)
	proxy_stat cut
	equal "$VALUE" 2 "answers lost"
	# The waiter counts from the lease that the server has: it renews, or is dead in time.
	proxy refuse
	proxy cut
	join "$waiter" 8
	equal "$status" 123
	dead_in_time
}

@test "reply to a release lost: the next one gets the lock at once, and the holder reports no loss" {
	via_proxy
	hold -b "$PROXY" -t 60s --
	proxy "cut-on DELETE FROM dlock_entries"
	contend "$COMMAND"
	wait_until 5 waiters 1
	release
	met_nobody 5
	equal "$(<"$HOLDER_ERR")" ""
}

# bats test_tags=more
@test "network black hole: the tree is dead before the lease ends" {
	via_proxy
	witness -b "$PROXY" -t 4s
	proxy blackhole
	lost
	dead_in_time
	wait_until 6 is_free
}

# bats test_tags=more
@test "the server becomes read-only: a holder is dead in time, and 122 says why" {
	private_postgres
	DLOCK_BACKEND=$P_URI
	hold -t 4s -k 500ms --
	SERVER=$P_DIR pg "ALTER SYSTEM SET default_transaction_read_only = on"
	SERVER=$P_DIR pg "SELECT pg_reload_conf()"
	lost
	has_line "$HOLDER_ERR" 'read-only.*primary'
	refused 'read-only.*primary' "$P_URI" -n
}

# bats test_tags=more
@test "too many connections: a client tries until connect-timeout, and a waiter goes on" {
	local waiter
	private_postgres -c max_connections=12
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	wait_in_line 1 -- true
	waiter=$PID
	local n strangers=()
	for n in {1..12}; do
		stranger
	done
	wait_until 10 is_full
	refused 'too many connections' "$P_URI?connect-timeout=4s" -n
	took "$MS" 3000 9000
	start "$DLOCK" run -b "$P_URI?connect-timeout=20s" other -- true
	kill "${strangers[@]}"
	pg "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%sleep(60)'" >ended
	join "$PID" 20
	equal "$status" 0
	release
	join "$waiter" 10
	equal "$status" 0
}

stranger_sleeps() {
	[[ $(pg "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1 ]]
}

none_waits() {
	[[ $(pg "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 0 ]]
}

# bats test_tags=more
@test "a client that gives up while a stranger has the row leaves nothing waiting for it in the server" {
	private_postgres
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	"$DLOCK" run "$LOCK" -- true
	start env PGPASSWORD=s3cret psql -X -q -h 127.0.0.1 -p "$P_PORT" -U dlock \
		-c 'BEGIN; SELECT FROM dlock_names FOR UPDATE; SELECT pg_sleep(60)' dlock
	local stranger=$PID
	wait_until 10 stranger_sleeps
	start "$DLOCK" run -n -b "$P_URI?timeout=1s" "$LOCK" -- true
	wait_until 5 not none_waits
	join "$PID" 10
	equal "$status" 122
	wait_until 3 none_waits
	kill "$stranger"
	pg "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%sleep(60)'" >ended
}

# stranger: starts a client that has a connection for a minute
stranger() {
	start env PGPASSWORD=s3cret psql -X -q -h 127.0.0.1 -p "$P_PORT" -U dlock -c 'SELECT pg_sleep(60)' dlock
	strangers+=("$PID")
}

# is_full: no stranger is about to connect, or to be refused, and nobody else can connect. Else another
# one comes, because one that is refused has for a moment what others are then refused for.
is_full() {
	local stranger alive=0
	for stranger in "${strangers[@]}"; do
		! alive "$stranger" || ((++alive))
	done
	[[ $(pg "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(60)'
		AND pid <> pg_backend_pid()") == "$alive" ]] || return
	PGPASSWORD=s3cret psql -X -q -h 127.0.0.1 -p "$P_PORT" -U dlock -c 'SELECT 1' dlock >full 2>&1 || return 0
	stranger
	return 1
}

# awaits_standby: a COMMIT waits for a standby. The server's checkpointer puts this in force.
awaits_standby() {
	pg "CREATE TABLE probe_$RANDOM ()" >probe 2>&1 3>&- 4>&- &
	pause 0.2
	[[ $(pg "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == t ]]
}

@test "a COMMIT that no standby has is no lock, whatever limit of time the role has" {
	private_postgres -c wal_level=replica
	"$DLOCK" setup -b "$P_URI"
	SERVER=$P_DIR
	pg "ALTER ROLE dlock SET statement_timeout = '300ms'; ALTER ROLE dlock SET client_min_messages = error"
	pg "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
	pg "SELECT pg_reload_conf()" >reload
	wait_until 10 awaits_standby
	refused 'no answer' "$P_URI?timeout=1s" -n
	# An administrator who cancels the wait for a standby makes a warning of it.
	start "$DLOCK" run -b "$P_URI?timeout=20s" -n "$LOCK" -- touch ran
	wait_until 25 cancel_waits "$PID"
	join "$PID"
	equal "$status" 122
	has_line "$ERR" 'not known whether another server has this'
	[[ ! -e ran ]]
}

# cancel_waits PID: no process waits for a standby any longer, nor does PID run
cancel_waits() {
	pg "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'" >cancelled
	ended "$1"
}

# bats test_tags=more
@test "strange defaults of a role: limits of time, SERIALIZABLE, a search path" {
	private_postgres
	SERVER=$P_DIR pg "ALTER ROLE dlock SET statement_timeout = '1s'; ALTER ROLE dlock SET lock_timeout = '1s';
		ALTER ROLE dlock SET idle_in_transaction_session_timeout = '1s';
		ALTER ROLE dlock SET default_transaction_isolation = 'serializable';
		ALTER ROLE dlock SET default_transaction_deferrable = on; ALTER ROLE dlock SET datestyle = 'German';
		ALTER ROLE dlock SET standard_conforming_strings = off; ALTER ROLE dlock SET timezone = 'Asia/Kolkata';
		CREATE SCHEMA locks AUTHORIZATION dlock; ALTER ROLE dlock SET search_path = locks"
	export DLOCK_BACKEND=$P_URI
	LOCK="it's \\ a {name}"
	hold -t 3s --
	contend "$COMMAND"
	holds_for 3500 alive "$COMMAND"
	release
	met_nobody
	equal "$(SERVER=$P_DIR pg "SELECT count(*) FROM locks.dlock_names")" 1
}

@test "the token is in no table, no statement and no log of the server" {
	private_postgres -c log_statement=all
	SERVER=$P_DIR
	hold -b "$P_URI" --
	pg "SELECT e, query FROM dlock_entries e, pg_stat_activity" >seen
	cat "$P_DIR/log" >>seen
	run -1 grep -F "${TOKEN:0:16}" seen
	release
}

