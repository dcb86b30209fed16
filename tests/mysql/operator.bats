# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: what operators see of it and do to it: ways to connect, errors, odd names,
# privileges, statements and their keys, check and setup.

load ../lib/helpers
load lease

# ---- errors

@test "error: nobody listens" {
	refused '127\.0\.0\.1:1.*(refused|connect)' mysql://u:p@127.0.0.1:1/db
	refused "$T/none" "mysql:///db?socket=$T/none"
	touch plain
	refused "$T/plain" "mysql:///db?socket=$T/plain"
}

@test "error: a host that does not resolve" {
	refused 'no-such-host\.invalid' mysql://no-such-host.invalid/db
}

@test "error: a host that swallows everything, or never answers, within connect-timeout" {
	tool listener
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "mysql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	took "$MS" 990 4000
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "mysql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	took "$MS" 990 4000
}

# bats test_tags=more
@test "error: a server that hangs after the connection, within timeout" {
	private_mysql
	via_proxy "$P_PORT"
	"$DLOCK" run -b "$PROXY" "$LOCK" -- true
	hold -b "$PROXY?timeout=1s" -t 4s --
	proxy drop
	timed "$DLOCK" verify -b "$P_URI?timeout=1s" "$LOCK" "$TOKEN"
	equal "$status" 0
	lost
}

@test "error: a server that speaks another protocol" {
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "mysql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	tool listener $'SSH-2.0-OpenSSH_9.2\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "mysql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
	tool listener $'\x4a\x00\x00\x00\xff\x10\x04Too many connections'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "mysql://127.0.0.1:$TOOL_PORT/db?connect-timeout=1s"
}

@test "no server gets the password in clear text, unless TLS is verified" {
	local plugin how
	for plugin in mysql_clear_password dialog mysql_old_password; do
		for how in '' switch old; do
			: >record
			# shellcheck disable=SC2086 # there may be none
			tool hostile_mysql.py record "$plugin" $how
			refused 'mysql_clear_password|dialog|mysql_old_password' \
				"mysql://u:S3cretWord@127.0.0.1:$TOOL_PORT/db?connect-timeout=2s"
			run -1 grep -a S3cretWord record
		done
	done
}

# bats test_tags=deeper
@test "a server whose answer never ends: every command ends in time, and takes little memory" {
	local how uri
	for how in results $(long_or "drip giant" '') $(floods rows "$(long_or columns '')"); do
		tool hostile_mysql.py record ok "$how"
		uri="mysql://u:p@127.0.0.1:$TOOL_PORT/db?timeout=500ms&connect-timeout=1s"
		hostile run -b "$uri" -n "$LOCK" -- touch ran
		one_line "127\\.0\\.0\\.1:$TOOL_PORT"
		[[ ! -e ran ]]
	done
	hostile status -b "$uri" "$LOCK"
	one_line "127\\.0\\.0\\.1:$TOOL_PORT"
	# acquire uses the connection as run does, and check as status does.
	if ! in_core; then
		hostile acquire -b "$uri" -n "$LOCK"
		hostile check -b "$uri"
	fi
}

# bats test_tags=more
@test "a server that answers without rows: every command reports it" {
	local command uri words
	tool hostile_mysql.py record ok empty
	for uri in "127.0.0.1:$TOOL_PORT/db" "127.0.0.1:$TOOL_PORT,127.0.0.1:$TOOL_PORT/db"; do
		for command in "run -n $LOCK -- touch ran" "acquire -n $LOCK" "status $LOCK" status; do
			read -ra words <<<"$command"
			hostile "${words[0]}" -b "mysql://u:p@$uri" "${words[@]:1}"
			one_line 'unexpected reply'
		done
	done
	[[ ! -e ran ]]
}

@test "error: wrong password, no such user, no such database, no privilege" {
	local port
	port=$(<"$MYSQL_DIR/port")
	refused 'wrong user or password' "mysql://dlock:wrong@127.0.0.1:$port/dlock"
	not grep -q wrong@ <<<"$stderr"
	refused 'wrong user or password' "mysql://nobody:x@127.0.0.1:$port/dlock"
	refused 'wrong user or password' "mysql://dlock@127.0.0.1:$port/dlock"
	ask "CREATE USER IF NOT EXISTS weak@'127.0.0.1' IDENTIFIED BY 'pw';
		CREATE DATABASE IF NOT EXISTS other; GRANT SELECT ON other.* TO weak@'127.0.0.1'"
	refused 'database|privilege' "mysql://weak:pw@127.0.0.1:$port/dlock"
	refused 'dlock setup' "mysql://weak:pw@127.0.0.1:$port/other"
	ask "CREATE USER anywhere@'127.0.0.1'; GRANT ALL ON *.* TO anywhere@'127.0.0.1'"
	refused 'no such database' "mysql://anywhere@127.0.0.1:$port/nowhere"
}

@test "error: what is wrong with the URI" {
	local uri
	for uri in mysql:///db mysql://h mysql:dlock 'mysql://h/db?strategy=no' \
		'mysql://h/db?dialect=no' 'mysql://h/db?strategy=lease&dialect=shedlock' 'mysql://h/db?x=1' \
		'mysql://h/db?ssl-mode=maybe' 'mysql://h/db?ssl-mode=disabled&ssl-ca=/ca' \
		'mysql://h/db?socket=/s' 'mysql://h/db?ssl-ca=' 'mysql://h:99999/db'; do
		run --separate-stderr -125 "$DLOCK" run -b "$uri" "$LOCK" -- true
		one_line
	done
}

# bats test_tags=more
@test "server unreachable: every command reports it in one line, with 122" {
	local args
	for args in "acquire $LOCK" "acquire --pid $$ $LOCK" "acquire -n $LOCK" \
		"renew $LOCK 0123456789abcdef0123456789abcdef" \
		"verify $LOCK 0123456789abcdef0123456789abcdef" \
		"release $LOCK 0123456789abcdef0123456789abcdef" \
		"status $LOCK" status "wait $LOCK" "break --yes $LOCK" setup; do
		# Nobody listens there.
		# shellcheck disable=SC2086 # words
		run --separate-stderr -122 env DLOCK_BACKEND=mysql://127.0.0.1:1/db timeout 20 "$DLOCK" $args
		one_line '127\.0\.0\.1:1'
		equal "$output" "" "stdout of $args"
	done
}

# ---- ways to connect

@test "the server can be named by a socket, an option file or a group in it, the password by a file" {
	local socket=$MYSQL_DIR/sock port
	port=$(<"$MYSQL_DIR/port")
	is_free
	run -0 "$DLOCK" run -b "mysql://dlock:$MYSQL_PASSWORD@/dlock?socket=$socket" "$LOCK" -- true
	# It is one lock, however the server is named.
	hold --
	run -124 "$DLOCK" run -n -b "mysql://dlock:$MYSQL_PASSWORD@/dlock?socket=$socket" "$LOCK" -- true
	printf '[client]\nhost=127.0.0.1\nprotocol=tcp\nport=%s\nuser=dlock\npassword=%s\n[jobs]\nsocket=%s\nuser=dlock\npassword=%s\ndatabase=dlock\n' \
		"$port" "$MYSQL_PASSWORD" "$socket" "$MYSQL_PASSWORD" >"$HOME/.my.cnf"
	chmod 600 "$HOME/.my.cnf"
	run --separate-stderr -124 "$DLOCK" run -n -b 'mysql:///dlock?defaults-file=~/.my.cnf' "$LOCK" -- true
	run --separate-stderr -124 "$DLOCK" run -n -b "mysql:///?defaults-file=$HOME/.my.cnf&defaults-group=jobs" "$LOCK" -- true
	(umask 077 && echo "$MYSQL_PASSWORD" >password)
	run --separate-stderr -124 "$DLOCK" run -n -b "mysql://dlock@127.0.0.1:$port/dlock?password-file=$T/password" "$LOCK" -- true
	release
	# "reconnect" in an option file is ignored: see the killed connections in
	# mysql/faults.bats
	printf '[client]\nreconnect\n' >>"$HOME/.my.cnf"
	run -0 "$DLOCK" run -b 'mysql:///dlock?defaults-file=~/.my.cnf' "$LOCK" -- true
	run --separate-stderr -122 "$DLOCK" run -b "mysql:///dlock?defaults-file=$T/none" "$LOCK" -- true
	one_line
}

# certificates IP: makes an authority, and a certificate for localhost and IP, in ./tls
certificates() {
	local new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
	need openssl
	mkdir tls
	cd tls || return
	# shellcheck disable=SC2086 # words
	openssl req -x509 $new -days 2 -subj /CN=ca -keyout ca.key -out ca.crt
	# shellcheck disable=SC2086
	openssl req $new -subj /CN=localhost -keyout server.key -out server.csr
	openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
		-out server.crt -extfile <(echo "subjectAltName=DNS:localhost,IP:$1")
	# shellcheck disable=SC2086
	openssl req $new -subj /CN=client -keyout client.key -out client.csr
	openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out client.crt
	# shellcheck disable=SC2086
	openssl req -x509 $new -days 2 -subj /CN=ca -keyout other.key -out other.crt
	cd "$T" || return
} 2>openssl.log

# tls_mysql [OPTION]...: private_mysql with the certificate of ./tls at 127.0.0.2. Connector/C 3.4
# does not compare the name of a server that it reaches at 127.0.0.1.
tls_mysql() {
	private_mysql --ssl-ca="$T/tls/ca.crt" --ssl-cert="$T/tls/server.crt" --ssl-key="$T/tls/server.key" \
		--bind-address=127.0.0.2 "$@"
	P_URI=${P_URI/127.0.0.1/127.0.0.2}
	SERVER=$P_DIR
}

@test "TLS: encrypted, the authority and the host verified, client certificates" {
	certificates 127.0.0.2
	tls_mysql
	ask "ALTER USER dlock@'127.0.0.1' REQUIRE SSL;
		CREATE USER nopass@'127.0.0.1'; GRANT ALL ON dlock.* TO nopass@'127.0.0.1';
		CREATE USER cert@'127.0.0.1' REQUIRE X509; GRANT ALL ON dlock.* TO cert@'127.0.0.1'"
	# Without a certificate the client is refused.
	refused 'wrong user or password|TLS' "$P_URI"
	local ca=$T/tls/ca.crt
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?ssl-ca=$ca" "$LOCK" -- true
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?ssl-ca=$ca&ssl-mode=verify-identity" "$LOCK" -- true
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?ssl-mode=required" "$LOCK" -- true
	# These are another authority, one that is not known, and a file that is not there.
	refused 'TLS' "$P_URI?ssl-ca=$T/tls/other.crt"
	# A password would do for Connector/C 3.4 in the place of the authority.
	run --separate-stderr -0 "$DLOCK" run -b "mysql://nopass@127.0.0.2:$P_PORT/dlock?ssl-mode=required" "$LOCK" -- true
	refused 'TLS' "mysql://nopass@127.0.0.2:$P_PORT/dlock?ssl-mode=verify-identity"
	refused 'TLS|ca' "$P_URI?ssl-ca=$T/none"
	# This is with and without a certificate of the client.
	local uri=mysql://cert@127.0.0.2:$P_PORT/dlock
	refused 'wrong user or password' "$uri?ssl-ca=$ca"
	run --separate-stderr -0 "$DLOCK" run -b "$uri?ssl-ca=$ca&ssl-cert=$T/tls/client.crt&ssl-key=$T/tls/client.key" "$LOCK" -- true
	"$DLOCK" check -b "$P_URI?ssl-ca=$ca" >found || [[ $? == 1 ]]
	has_line found '^ok +transport +encrypted'
	"$DLOCK" check -b "$P_URI?ssl-mode=required" >found || [[ $? == 1 ]]
	has_line found '^ok +transport +does not leave'
}

# bats test_tags=more
@test "TLS: certificates change, in their files and the server: a holder connects with the new ones" {
	certificates 127.0.0.2
	tls_mysql
	cp tls/ca.crt mine.crt
	hold -t 4s -b "$P_URI?ssl-ca=$T/mine.crt" --
	openssl x509 -req -in tls/server.csr -CA tls/other.crt -CAkey tls/other.key -CAcreateserial -days 2 \
		-out tls/server.crt -extfile <(echo subjectAltName=IP:127.0.0.2) 2>log
	cp tls/other.crt mine.crt
	cp tls/other.crt tls/ca.crt
	pmy 'FLUSH SSL'
	pmy "$(pmy "SELECT CONCAT('KILL ', ID) FROM information_schema.PROCESSLIST WHERE USER = 'dlock'")"
	holds_for 4500 alive "$COMMAND"
	release
}

# bats test_tags=more
@test "TLS: waiting, renewing, frozen servers" {
	certificates 127.0.0.2
	tls_mysql --require-secure-transport=1
	DLOCK_BACKEND="$P_URI?ssl-ca=$T/tls/ca.crt"
	hold -t 2s --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	holds_for 3000 is_held
	release
	for n in "${waiter[@]}"; do
		join "$n" 8
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	hold -t 2s --
	kill -STOP "$P_PID"
	lost
	kill -CONT "$P_PID"
}

@test "TLS: a certificate for another host is refused" {
	certificates 127.0.0.3
	tls_mysql
	refused 'TLS' "$P_URI?ssl-ca=$T/tls/ca.crt"
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?ssl-mode=required&ssl-ca=$T/tls/ca.crt" "$LOCK" -- true
}

# ---- names

# bats test_tags=more
@test "names are compared byte by byte" {
	# Bash cuts the long names after a whole character.
	local name held=() long LC_ALL=C.UTF-8
	printf -v long '%200s' ''
	long=${long// /é}
	# shellcheck disable=SC1003 # a backslash, and that is all
	for name in job JOB Job ' job' 'job ' 'job  ' jöb joeb jób 'job%' 'job_' "job'" 'job"' 'job\' 'job`' \
		'%s%d%n' '🔒' '🔓' '{name}' "' OR 1=1; DROP TABLE dlock_names; -- " '\0' "${long:0:100}" "${long:0:99}"; do
		TOKEN=$("$DLOCK" acquire -- "$name" || "$DLOCK" acquire "$name")
		held+=("$name" "$TOKEN")
	done
	local n
	for ((n = 0; n < ${#held[@]}; n += 2)); do
		"$DLOCK" verify "${held[n]}" "${held[n + 1]}"
		equal "$("$DLOCK" status --json "${held[n]}" | jq -r .name)" "${held[n]}"
		"$DLOCK" release "${held[n]}" "${held[n + 1]}"
	done
	equal "$(ask "SELECT COUNT(*) FROM dlock_names WHERE name = 'job '")" 1
}

# bats test_tags=more
@test "a database and a user may have odd names" {
	private_mysql
	SERVER=$P_DIR
	local odd='we`ird "%s'\'' 🔒'
	ask 'CREATE DATABASE `we``ird "%s'\'' x`' 2>&1 || true
	ask "CREATE USER 'o''brien %x'@'127.0.0.1' IDENTIFIED BY 'p@:/?#[]%\"'; GRANT ALL ON *.* TO 'o''brien %x'@'127.0.0.1'"
	local uri='mysql://o%27brien%20%25x:p%40%3A%2F%3F%23%5B%5D%25%22@127.0.0.1:'$P_PORT'/we%60ird%20%22%25s%27%20x'
	hold -b "$uri" --
	DLOCK_BACKEND=$uri run -124 "$DLOCK" run -n "$LOCK" -- true
	release
	"$DLOCK" setup --dry-run -b "$uri" >plan
	has_line plan '^USE `we``ird "%s'\'' x`;$'
	has_line plan "TO .o'brien %x.@'%';\$"
	sed -i "s/@'%'/@'127.0.0.1'/" plan
	"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" -u root <plan
	[[ $(ask "SHOW GRANTS FOR 'o''brien %x'@'127.0.0.1'") == *dlock_entries* ]]
}

# ---- privileges

@test "setup --dry-run prints what an administrator can run, and the least that is needed" {
	private_mysql
	SERVER=$P_DIR
	local uri=mysql://least:pw@127.0.0.1:$P_PORT/dlock verb
	"$DLOCK" setup --dry-run -b "$uri" >plan
	ask "CREATE USER least@'%' IDENTIFIED BY 'pw'"
	"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" -u root <plan
	[[ $(ask "SHOW GRANTS FOR least@'%'") == *INSERT*dlock_entries* ]]
	# The account may do nothing else.
	[[ $(ask 'SHOW GRANTS FOR least') != *ALL* ]]
	export DLOCK_BACKEND=$uri
	run -0 "$DLOCK" setup
	hold -t 2s --
	wait_in_line 1 -- true
	local behind=$PID
	holds_for 1500 is_held
	"$DLOCK" status "$LOCK" >shown || equal $? 1
	has_line shown 'waiter 1'
	release
	join "$behind" 5
	equal "$status" 0
	TOKEN=$("$DLOCK" acquire --slots 2 "$LOCK")
	for verb in verify renew release; do
		"$DLOCK" $verb "$LOCK" "$TOKEN"
	done
	TOKEN=$("$DLOCK" acquire -s "$LOCK")
	start "$DLOCK" run "$LOCK" -- true
	wait_until 5 waiters 1
	"$DLOCK" break --yes "$LOCK"
	join "$PID" 5
	equal "$status" 0
	"$DLOCK" check >found || equal $? 1
	not has_line found '^error'
}

# bats test_tags=more
@test "tables are made on first use where the account may, and where it may not the error says so" {
	private_mysql
	SERVER=$P_DIR
	run -0 "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	ask "SHOW CREATE TABLE dlock_entries" | grep -q InnoDB
	ask "DROP TABLE dlock_names, dlock_entries; CREATE USER uses@'127.0.0.1';
		GRANT SELECT, INSERT, UPDATE, DELETE ON dlock.* TO uses@'127.0.0.1'"
	refused 'dlock setup --dry-run' "mysql://uses@127.0.0.1:$P_PORT/dlock"
	"$DLOCK" check -b "mysql://uses@127.0.0.1:$P_PORT/dlock" >found || equal $? 122
	has_line found '^error .*dlock setup'
	run -0 "$DLOCK" setup -b "$P_URI"
	run -0 "$DLOCK" run -b "mysql://uses@127.0.0.1:$P_PORT/dlock" "$LOCK" -- true
}

@test "a table of an older version, with two more columns, serves as it is" {
	private_mysql
	export SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	"$DLOCK" setup
	ask "ALTER TABLE dlock_entries ADD replaces TINYINT NOT NULL AFTER home,
		ADD newer VARBINARY(800) NOT NULL AFTER replaces"
	"$DLOCK" setup
	hold --
	wait_in_line 1 -- touch ran
	release
	join "$PID"
	[[ $status == 0 && -e ran ]]
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
}

# ---- check

@test "check finds what makes a server unfit, and what makes it less fit" {
	private_mysql
	"$DLOCK" check -b "$P_URI" >found || equal $? 1
	has_line found '^ok +version +MariaDB [0-9.]+'
	has_line found '^ok +clock '
	has_line found '^ok +transport +does not leave'
	has_line found '^ok +waiter +got the lock [0-9]+ ms'
	# The servers of the tests do not write to the disk at once, of which check warns.
	has_line found '^warning +durability .*innodb_flush_log_at_trx_commit'
	pmy 'SET GLOBAL read_only = 1'
	local code=0
	"$DLOCK" check -b "$P_URI" >found || code=$?
	equal "$code" 122
	has_line found '^error +unusable .*read-only'
	pmy 'SET GLOBAL read_only = 0'
	code=0
	"$DLOCK" check -b mysql://127.0.0.1:1/db >found || code=$?
	equal "$code" 122
}

# ---- statements and their keys

@test "every statement of the lease goes through a primary or unique key" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	"$DLOCK" setup
	# EXPLAIN says nothing about an empty table.
	ask "INSERT INTO dlock_names SELECT 'other', CONCAT('n', seq), 1 FROM seq_1_to_3000;
		INSERT INTO dlock_entries SELECT 'other', CONCAT('n', seq MOD 500), seq, seq, 0, 1, 1, 1, '', ''
			FROM seq_1_to_3000;
		ANALYZE TABLE dlock_names, dlock_entries" >analyzed
	ask "SET GLOBAL log_output = 'FILE', general_log_file = '$P_DIR/requests', general_log = 1"
	# These are all operations, so that the log has all statements.
	hold -t 1s --
	wait_in_line 1 -- true
	local behind=$PID
	start "$DLOCK" run -s "$LOCK" -- true
	start "$DLOCK" run --slots 3 "$LOCK" -- true
	holds_for 700 alive "$COMMAND"
	"$DLOCK" status "$LOCK" >shown || equal $? 1
	"$DLOCK" status >shown || equal $? 1
	"$DLOCK" wait -w 0 "$LOCK" 2>shown || equal $? 124
	release
	join "$behind"
	local mode token
	for mode in '' -s '--slots 2'; do
		# shellcheck disable=SC2086 # words
		token=$("$DLOCK" acquire $mode "$LOCK")
		# shellcheck disable=SC2086
		DLOCK_NAME=$LOCK DLOCK_TOKEN=$token "$DLOCK" acquire $mode "$LOCK" >shown
		"$DLOCK" renew "$LOCK" "$token"
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" release "$LOCK" "$token+1"
		"$DLOCK" release "$LOCK" "$token"
	done
	"$DLOCK" acquire "$LOCK" >shown
	start "$DLOCK" run "$LOCK" -- true
	behind=$PID
	wait_until 5 waiters 1
	"$DLOCK" break --yes "$LOCK"
	join "$behind"
	"$DLOCK" check >shown || equal $? 1
	ask 'SET GLOBAL general_log = 0'
	explain_all "$P_DIR/requests" >plans
	# The fourth column of EXPLAIN is the type: no statement reads a whole table or index.
	between "$(wc -l <plans)" 20 10000 'rows of plans'
	awk -F '\t' '$3 != "p" && $3 !~ /^</ && ($4 == "ALL" || $4 == "index")' plans >scans
	equal "$(<scans)" "" 'statements that read a whole table'
	equal "$(ask "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE NON_UNIQUE AND TABLE_SCHEMA = DATABASE()
		AND TABLE_NAME IN ('dlock_names', 'dlock_entries')")" 0 'keys that are neither primary nor unique'
	for mode in 'UPDATE dlock_entries' 'DELETE FROM dlock_entries' 'FROM dlock_entries WHERE' 'FROM dlock_names n'; do
		grep -qF "$mode" explained || fail "not seen: $mode"
	done
}

# explain_all LOG: the plans of all statements on dlock's tables in a general log, each
# once; the statements go to ./explained. Variables of the session are what they were
# before: none.
explain_all() {
	python3 - "$1" >statements <<-'END'
		import re, sys
		text = open(sys.argv[1], errors="replace").read()
		text = re.sub(r"\n[^\n]*\t\s*\d+ (Query|Connect|Quit|Init DB|Prepare|Execute)\t", ";\n", text)
		seen = set()
		for s in text.split(";"):
		    s = " ".join(s.split())
		    if not re.match(r"(SELECT|UPDATE|DELETE)\b", s) or "dlock_" not in s:
		        continue
		    # values apart it is one statement
		    key = re.sub(r"X'[0-9a-f]*'|\d+", "?", s)
		    if key not in seen:
		        seen.add(key)
		        print(re.sub(r" INTO (@\w+(, )?)+", " ", s))
	END
	cp statements explained
	sed 's/^/EXPLAIN /; s/$/;/' statements >explain.sql
	{
		echo "SET @now = 1, @place = 10, @first = 7, @taken = 0, @may = 1, @number = 1, @slots = 0,
			@done = 1, @conn = 1, @home = 'x';"
		cat explain.sql
	} | "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" --user=root -BN dlock
}

@test "a waiter whose host vanished is no ghost for long" {
	private_mysql
	SERVER=$P_DIR
	via_proxy "$P_PORT"
	hold -b "$P_URI" --
	wait_in_line 1 -b "$PROXY" -t 5s -- true
	local vanished=("$PID")
	# shellcheck disable=SC2207 # words
	vanished+=($(tree "$PID"))
	# The server gets no packet any more, not even the end of the connection.
	proxy blackhole
	kill -KILL "${vanished[@]}"
	wait_until 60 waiters 0
	release
	run -0 "$DLOCK" run -b "$P_URI" -w 3s "$LOCK" -- true
	wait_until 3 only_fences
}

# ---- the TTL of a hold, in the row of its holder

# left TABLE COLUMN: prints the seconds until the hold ends
left() {
	my "SELECT ($2 - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) DIV 1000000
		FROM $1 WHERE name = '$LOCK'"
}

# bats test_tags=more
@test "a hold whose row has no TTL is never renewed to less than is left, also by a nested acquire" {
	local token strategy table
	for strategy in lease insert; do
		table=dlock_entries
		export DLOCK_BACKEND="$MYSQL?strategy=$strategy"
		token=$("$DLOCK" acquire -t 100s "$LOCK")
		matches "$(my "SELECT owner FROM $table WHERE name = '$LOCK'")" '^ttl=100000&pid='
		my "UPDATE $table SET owner = SUBSTRING(owner, 12) WHERE name = '$LOCK'"
		matches "$(my "SELECT owner FROM $table WHERE name = '$LOCK'")" '^pid='
		DLOCK_TOKEN=$token "$DLOCK" acquire "$LOCK" >nested
		between "$(left $table expires)" 80 100
		my "UPDATE $table SET owner = SUBSTRING(owner, LOCATE('&', owner) + 1) WHERE name = '$LOCK'"
		"$DLOCK" renew "$LOCK" "$token"
		between "$(left $table expires)" 80 100
		my "UPDATE $table SET owner = SUBSTRING(owner, LOCATE('&', owner) + 1),
			expires = expires - 90000000 WHERE name = '$LOCK'"
		"$DLOCK" renew "$LOCK" "$token"
		between "$(left $table expires)" 20 30
		"$DLOCK" release "$LOCK" "$token"
	done
}

@test "an alarm from before the exec ends a command that waits" {
	hold --
	run --separate-stderr -142 perl -e 'alarm 2; exec @ARGV' "$DLOCK" wait -w 30s "$LOCK"
	release
}
