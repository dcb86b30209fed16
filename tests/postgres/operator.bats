# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What operators see of locks on PostgreSQL and do to them: ways to connect, errors, TLS, passwords,
# servers that mean no good, privileges, setup and check.

load ../lib/helpers
load postgres

@test "error: nobody listens, a host without a name, a server of another protocol, silence" {
	refused '127\.0\.0\.1:1: .*refused' postgresql://u:p@127.0.0.1:1/db
	refused "$T/none" "postgresql:///db?host=$T/none"
	refused 'no-such-host\.invalid' postgresql://no-such-host.invalid/db
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "postgresql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT: no answer" "postgresql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	took "$MS" 990 4000
}

@test "error: wrong password, no such user, no such database, no privilege, no table" {
	local port
	port=$(<"$POSTGRES_DIR/port")
	refused 'wrong user or password' "postgresql://dlock:wrong@127.0.0.1:$port/dlock"
	not grep -q wrong@ <<<"$stderr"
	refused 'wrong user or password' "postgresql://nobody:x@127.0.0.1:$port/dlock"
	refused 'no such database' "postgresql://dlock:s3cret@127.0.0.1:$port/nowhere"
	pg "CREATE ROLE weak LOGIN PASSWORD 'pw'"
	"$DLOCK" setup
	refused "privilege.*'dlock setup --dry-run'" "postgresql://weak:pw@127.0.0.1:$port/dlock"
}

@test "error: what is wrong with the URI" {
	local uri
	for uri in postgresql: postgresql://h 'postgresql://h/db?strategy=no' 'postgres://h/db?dialect=no' \
		'postgresql://h/db?strategy=lease&dialect=shedlock' 'postgresql://h/db?x=1' \
		'postgresql://h/db?host=/s' 'postgresql://h:99999/db'; do
		run --separate-stderr -125 "$DLOCK" run -b "$uri" "$LOCK" -- true
		one_line
	done
	run --separate-stderr -125 "$DLOCK" run -n --slots 2 -b "$POSTGRES?strategy=advisory" "$LOCK" -- true
	one_line 'no --slots.*postgresql:'
}

# bats test_tags=more
@test "the server is named by a socket, a service or PGHOST; the password by a file, ~/.pgpass or PGPASSWORD" {
	local port
	port=$(<"$POSTGRES_DIR/port")
	pg "ALTER ROLE dlock PASSWORD 's3cret'"
	printf 's3cret\n' >pw
	chmod 600 pw
	"$DLOCK" run -n -b "postgresql://dlock@127.0.0.1:$port/dlock?password-file=pw" "$LOCK" -- true
	printf '127.0.0.1:%s:dlock:dlock:s3cret\n' "$port" >.pgpass
	chmod 600 .pgpass
	HOME=$T "$DLOCK" run -n -b "postgresql://dlock@127.0.0.1:$port/dlock" "$LOCK" -- true
	"$DLOCK" run -n -b "postgresql://dlock@127.0.0.1:$port/dlock?passfile=.pgpass" "$LOCK" -- true
	PGPASSWORD=s3cret "$DLOCK" run -n -b "postgres://dlock@127.0.0.1:$port/dlock" "$LOCK" -- true
	PGPORT=$port "$DLOCK" run -n -b "postgresql://dlock@/dlock?host=$POSTGRES_DIR" "$LOCK" -- true
	PGHOST=$POSTGRES_DIR PGPORT=$port "$DLOCK" run -n -b postgresql://dlock@/dlock "$LOCK" -- true
	printf '[jobs]\nhost=127.0.0.1\nport=%s\ndbname=dlock\nuser=dlock\npassword=s3cret\n' "$port" >services
	PGSERVICEFILE=$T/services "$DLOCK" run -n -b 'postgresql:?service=jobs' "$LOCK" -- true
	refused 'wrong user or password|no password' "postgresql://dlock@127.0.0.1:$port/dlock"
}

# tls_connections N: so many clients use TLS at the private server
tls_connections() {
	[[ $(SERVER=$P_DIR pg 'SELECT count(*) FROM pg_stat_ssl WHERE ssl') == "$1" ]]
}

@test "TLS: encrypted, the authority and the host verified, client certificates, md5 and SCRAM" {
	local uri ca=$T/tls/ca.pem
	redis_certificates "$T/tls"
	private_postgres
	postgres_stop "$P_DIR"
	cp "$T/tls/server.pem" "$T/tls/server.key" "$T/tls/ca.pem" "$P_DIR/data/"
	cat >"$P_DIR/data/pg_hba.conf" <<-END
		local all all trust
		hostssl all certain all scram-sha-256 clientcert=verify-ca
		hostssl all clear all password
		hostssl all all all md5
	END
	postgres_own "$P_DIR"
	chmod 600 "$P_DIR/data/server.key"
	postgres_launch "$P_DIR" "$P_PORT" -c ssl=on -c ssl_cert_file=server.pem -c ssl_key_file=server.key \
		-c ssl_ca_file=ca.pem
	SERVER=$P_DIR pg "CREATE ROLE certain LOGIN SUPERUSER PASSWORD 'pw'; CREATE ROLE clear LOGIN SUPERUSER PASSWORD 'pw';
		SET password_encryption = 'md5'; CREATE ROLE old LOGIN SUPERUSER PASSWORD 'pw'"
	refused 'TLS' "$P_URI"
	run --separate-stderr -0 "$DLOCK" run -n -b "$P_URI?sslrootcert=$ca" "$LOCK" -- true
	run --separate-stderr -0 "$DLOCK" run -n -b "$P_URI?sslmode=require" "$LOCK" -- true
	refused 'certificate' "$P_URI?sslrootcert=$T/tls/other.pem"
	refused 'certificate|none' "$P_URI?sslrootcert=$T/none"
	uri=postgresql://old:pw@127.0.0.1:$P_PORT/dlock
	run --separate-stderr -0 "$DLOCK" run -n -b "$uri?sslmode=verify-full&sslrootcert=$ca" "$LOCK" -- true
	uri=postgresql://clear:pw@127.0.0.1:$P_PORT/dlock
	run --separate-stderr -0 "$DLOCK" run -n -b "$uri?sslrootcert=$ca" "$LOCK" -- true
	uri=postgresql://certain:pw@127.0.0.1:$P_PORT/dlock
	refused 'certificate' "$uri?sslrootcert=$ca"
	run --separate-stderr -0 "$DLOCK" run -n -b "$uri?sslrootcert=$ca&sslcert=$T/tls/client.pem&sslkey=$T/tls/client.key" "$LOCK" -- true
	"$DLOCK" check -b "$P_URI?sslrootcert=$ca" >found || [[ $? == 1 ]]
	has_line found '^ok +transport +encrypted'
	# It waits, renews and is woken as without TLS, and with another certificate once it connects again.
	cp "$ca" mine.pem
	DLOCK_BACKEND="$P_URI?sslrootcert=$T/mine.pem"
	hold -t 2s --
	contend "$COMMAND"
	wait_until 5 tls_connections 2
	cp tls/other.pem mine.pem
	certificate "$T/tls" server other IP:127.0.0.1
	cp tls/server.pem tls/server.key "$P_DIR/data/"
	SERVER=$P_DIR pg "SELECT pg_reload_conf(); SELECT pg_sleep(0.3);
		SELECT pg_terminate_backend(pid) FROM pg_stat_ssl WHERE ssl" >ended
	holds_for 2500 alive "$COMMAND"
	release
	met_nobody
}

@test "no server gets the password in clear text, unless TLS is verified" {
	tool hostile_postgres.py record clear
	refused 'clear text.*sslmode=verify-full' "postgresql://u:S3cretWord@127.0.0.1:$TOOL_PORT/db?connect-timeout=2s"
	run -1 grep -a S3cretWord record
}

@test "a server whose answer never ends: every command ends in time, and takes little memory" {
	local how uri
	for how in drip $(long_or notices '') errors results $(floods rows "$(long_or columns '')"); do
		tool hostile_postgres.py record "$how"
		uri="postgresql://u:p@127.0.0.1:$TOOL_PORT/db?timeout=500ms&connect-timeout=1s"
		hostile run -b "$uri" -n "$LOCK" -- touch ran
		one_line "127\\.0\\.0\\.1:$TOOL_PORT"
		[[ ! -e ran ]]
	done
	hostile status -b "$uri" "$LOCK"
	one_line "127\\.0\\.0\\.1:$TOOL_PORT"
	if ! in_core; then
		hostile acquire -b "$uri" -n "$LOCK"
		hostile check -b "$uri"
	fi
}

@test "a server that answers without rows, or with rows of nonsense: nobody holds" {
	local how
	for how in empty nonsense; do
		tool hostile_postgres.py record "$how"
		timed "$DLOCK" run -b "postgresql://u:p@127.0.0.1:$TOOL_PORT/db?timeout=1s" -n "$LOCK" -- touch ran
		matches "$status" '^(122|124)$'
		[[ ! -e ran ]]
	done
}

@test "setup --dry-run prints what an administrator can run, and the least that is needed" {
	local port strategy
	port=$(<"$POSTGRES_DIR/port")
	pg "CREATE DATABASE least"
	pg "CREATE ROLE least LOGIN PASSWORD 'pw'"
	for strategy in strategy=lease strategy=advisory dialect=shedlock; do
		DLOCK_BACKEND="postgresql://least:pw@127.0.0.1:$port/least?$strategy"
		refused "privilege.*dlock setup" "$DLOCK_BACKEND"
		"$DLOCK" setup --dry-run >plan
		psql -X -q -v ON_ERROR_STOP=1 -h "$POSTGRES_DIR" -p "$port" -U postgres -f plan least
		"$DLOCK" setup
		hold -t 20s --
		contend "$COMMAND"
		holds_for 300 alive "$CONTENDER"
		"$DLOCK" status >/dev/null
		release
		met_nobody
		psql -X -q -h "$POSTGRES_DIR" -p "$port" -U postgres -c \
			'DROP TABLE IF EXISTS dlock_names, dlock_entries, shedlock' least 2>/dev/null
	done
}

# bats test_tags=more
@test "tables are made once, by many clients at once" {
	local n all=()
	private_postgres
	for n in {1..8}; do
		start "$DLOCK" run -b "$P_URI" "lock$n" -- true
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
}

# bats test_tags=more
@test "check finds what makes a server unfit, and what makes it less fit" {
	local word
	private_postgres -c synchronous_commit=off
	"$DLOCK" check -b "$P_URI" >found || [[ $? == 1 ]]
	for word in '^ok +version +PostgreSQL' '^warning +durability'; do
		has_line found "$word"
	done
	SERVER=$P_DIR pg "ALTER ROLE dlock SET default_transaction_read_only = on"
	"$DLOCK" check -b "$P_URI" >found || :
	has_line found '^error +unusable .*primary'
}

# bats test_tags=more
@test "a database of another encoding takes the names that it can write, and refuses others with a reason" {
	pg "CREATE DATABASE latin OWNER dlock TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'"
	local uri
	uri=postgresql://dlock:s3cret@127.0.0.1:$(<"$POSTGRES_DIR/port")/latin
	"$DLOCK" run -b "$uri" 'Grüße' -- true
	run --separate-stderr -122 "$DLOCK" run -b "$uri" '錠' -- touch ran
	one_line 'encoding'
	[[ ! -e ran ]]
}
