# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# pgbouncer between dlock and the server.

load ../lib/helpers
load postgres

# pooler MODE: starts pgbouncer in that mode of pooling; sets POOLED to its URI
pooler() {
	local dir=$T/pooler.$1 as=()
	mkdir "$dir"
	free_port
	cat >"$dir/ini" <<-END
		[databases]
		dlock = host=127.0.0.1 port=$(<"$POSTGRES_DIR/port") user=dlock password=s3cret
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $PORT
		unix_socket_dir =
		auth_type = any
		pool_mode = $1
		default_pool_size = 20
	END
	postgres_own "$T"
	if ((EUID == 0)); then
		as=("${POSTGRES_AS[@]}")
	fi
	"${as[@]}" setpriv --pdeathsig KILL pgbouncer "$dir/ini" </dev/null >"$dir/log" 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	POOLED=postgresql://dlock@127.0.0.1:$PORT/dlock
	wait_until 10 grep -q 'process up' "$dir/log"
}

@test "pgbouncer, a connection for a transaction: a lease works, and so does waiting" {
	pooler transaction
	DLOCK_BACKEND=$POOLED
	hold -t 3s --
	contend "$COMMAND"
	holds_for 3500 alive "$COMMAND" # renewed
	release
	met_nobody 5
	"$DLOCK" check >found || [[ $? == 1 ]]
	has_line found '^warning +pooler'
	wait_until 2 only_fences
	# What dlock sets is not left for others in the connections of the pool.
	equal "$(psql -X -q -A -t -c 'SHOW statement_timeout' "$POOLED")" 0
	pg "ALTER ROLE dlock RESET ALL"
}

# bats test_tags=more
@test "pgbouncer, a connection for a session: a lease works, and the waiter is woken" {
	pooler session
	DLOCK_BACKEND=$POOLED
	hold -t 3s --
	contend "$COMMAND"
	holds_for 3500 alive "$COMMAND"
	release
	met_nobody 5
}

@test "pgbouncer: advisory is refused with a reason, and leaves no lock" {
	pooler transaction
	run --separate-stderr -122 "$DLOCK" run -n -b "$POOLED?strategy=advisory" "$LOCK" -- touch ran
	one_line 'pooler.*advisory'
	[[ ! -e ran ]]
	equal "$(pg "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")" 0
}
