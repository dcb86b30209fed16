# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL: what all strategies have in common, and what each shares with other users of the
# same server.

load ../lib/helpers
load mysql

STRATEGIES=(strategy=lease strategy=insert strategy=row strategy=advisory strategy=table
	dialect=shedlock)

# with PARAMETER [URI]: sets DLOCK_BACKEND, and LOCK to a table where the strategy wants one
with() {
	export DLOCK_BACKEND="${2:-$MYSQL}?$1"
	LOCK=test-$BATS_SUITE_TEST_NUMBER-${1#*=}
	export LOCK
	if [[ $1 == strategy=table ]]; then
		if [[ -n ${P_DIR-} ]]; then
			pmy "CREATE TABLE IF NOT EXISTS \`$LOCK\` (id INT PRIMARY KEY)"
		else
			my "CREATE TABLE IF NOT EXISTS \`$LOCK\` (id INT PRIMARY KEY)"
		fi
	fi
}

# life: does all that can be done with a lock
life() {
	local token
	"$DLOCK" run "$LOCK" -- true
	hold --
	run -124 "$DLOCK" run -n "$LOCK" -- true
	start "$DLOCK" run -w 30s "$LOCK" -- true
	local waiter=$PID
	wait_until 5 has_waiter
	run -1 "$DLOCK" status "$LOCK"
	release
	join "$waiter"
	equal "$status" 0 waiter
	token=$("$DLOCK" acquire "$LOCK")
	"$DLOCK" renew "$LOCK" "$token"
	"$DLOCK" verify "$LOCK" "$token"
	"$DLOCK" release "$LOCK" "$token"
	hold -t 4s --
	"$DLOCK" break --yes "$LOCK"
	join "$HOLDER"
	equal "$status" 123
	"$DLOCK" status
	"$DLOCK" wait -w 5s "$LOCK"
	"$DLOCK" check || (($? == 1))
	is_free
}

# has_waiter: a second process of dlock has a connection, beside the holder
has_waiter() {
	(($("${P_DIR:+p}my" "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '$MYSQL_DATABASE' AND
		USER <> 'root'") > 1))
}

# ---- statements

# bats test_tags=more
@test "every statement goes through a key: EXPLAIN shows no full scan" {
	need jq
	private_mysql --general-log --log-output=TABLE
	for strategy in "${STRATEGIES[@]}"; do
		with "$strategy" "$P_URI"
		life
		# A shared hold has statements of its own.
		if [[ $strategy == strategy=row ]]; then
			"$DLOCK" run -s "$LOCK" -- true
		fi
		DLOCK_BACKEND="$DLOCK_BACKEND" "$DLOCK" run --min-hold 1ms "$LOCK" -- true
	done
	pmy 'SET GLOBAL general_log = 0'
	pmy "SELECT REPLACE(argument, CHAR(10), ' ') FROM mysql.general_log WHERE command_type = 'Query'
		AND user_host LIKE 'dlock%' ORDER BY event_time" --raw >log
	# These are the other rows, which the statements must not read.
	local table
	pmy "SET SESSION max_recursive_iterations = 100000;
		INSERT IGNORE INTO dlock_rows SELECT CONCAT('other-', seq) FROM seq_1_to_3000;
		INSERT IGNORE INTO dlock_names SELECT 'other', CONCAT('other-', seq), seq FROM seq_1_to_3000;
		INSERT IGNORE INTO dlock_entries SELECT 'other', CONCAT('other-', seq MOD 500), seq, seq, 0, 1, 1, 1, '',
			'' FROM seq_1_to_3000;
		INSERT IGNORE INTO shedlock SELECT CONCAT('other-', seq), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), ''
			FROM seq_1_to_3000;"
	for table in dlock_rows dlock_names dlock_entries shedlock; do
		pmy "ANALYZE TABLE $table" >analyzed
	done
	# Only these can be explained. A statement on none of our tables has no key.
	sed 's/; */;\n/g; s/;$//' log | sed 's/^ *//; s/;* *$//' >statements
	grep -E '^(SELECT|UPDATE|DELETE|INSERT|REPLACE) ' statements | grep -E ' (dlock_|shedlock)' |
		sort -u >explainable
	between "$(wc -l <explainable)" 40 2000 "statements to explain"
	{
		echo 'SET @now = 2000000000000000, @first = 5, @place = 7, @taken = 0, @may = 1, @number = 1, @slots = 0,
			@done = 1, @conn = 1, @home = "x";'
		awk '{ print "SELECT " NR " AS statement; EXPLAIN " $0 ";" }' explainable
	} >explain.sql
	"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" --user=root --batch --force "$MYSQL_DATABASE" \
		<explain.sql >plans 2>problems
	equal "$(wc -l <problems)" 0 "statements that cannot be explained: $(head -c 2000 problems)"
	# id select_type table type ...: ALL and index read all of a table. To list ShedLock's
	# locks means to read them, for it has no other key.
	awk -F'\t' '
		FNR == NR { text[FNR] = $0; next }
		$1 == "statement" { getline; n = $1; next }
		# These are VALUES, the list of processes, and the result of another SELECT.
		$2 == "INSERT" || $3 == "p" || $3 ~ /^</ { next }
		($4 == "ALL" || $4 == "index") && text[n] !~ /^SELECT name FROM shedlock WHERE lock_until >/ {
			print $3, $4, $6, "in:", text[n]
		}' explainable plans >scans
	[[ ! -s scans ]] || fail "read all of a table: $(head -c 3000 scans)"
	between "$(grep -c '^statement$' plans)" 40 2000 "statements explained"
}

@test "dlock works whatever the server's defaults for sessions are" {
	private_mysql --autocommit=0 --transaction-isolation=SERIALIZABLE --default-time-zone=+05:30 \
		--sql-mode=ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH --wait-timeout=1 \
		--idle-transaction-timeout=1 --innodb-lock-wait-timeout=1 --lock-wait-timeout=1 \
		--max-statement-time=1 --completion-type=CHAIN --character-set-server=utf16 \
		--innodb-rollback-on-timeout
	for strategy in "${STRATEGIES[@]}"; do
		with "$strategy" "$P_URI"
		hold -t 9s --
		contend "$COMMAND"
		holds_for 2500 alive "$COMMAND" "$CONTENDER" ||
			fail "$strategy: $(<"$HOLDER_ERR") $(<"$CONTENDER_ERR")"
		release
		met_nobody
	done
}

# ---- privileges

@test "least privilege: each strategy works with what setup --dry-run prints, and reports what is missing" {
	need jq
	local account
	for strategy in "${STRATEGIES[@]}"; do
		account=only_${strategy#*=}
		my "CREATE USER $account@'%' IDENTIFIED BY 'pw'; GRANT USAGE ON *.* TO $account@'%';
			DROP TABLE IF EXISTS dlock_rows, dlock_names, dlock_entries, dlock_probe, shedlock"
		with "$strategy" "${MYSQL/$MYSQL_USER:$MYSQL_PASSWORD/$account:pw}"
		run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
		one_line 'database'
		"$DLOCK" setup --dry-run >setup.sql
		"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root <setup.sql
		life
		# The account may do no more than that.
		equal "$(my "SHOW GRANTS FOR $account@'%'" | grep -c 'ALL PRIVILEGES\|CREATE\|DROP\|SUPER')" 0
	done
	[[ ! -e ran ]]
}

@test "tables are made by setup, or on first use where the account may; else the error says what to do" {
	private_mysql
	pmy "CREATE USER limited@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE ON $MYSQL_DATABASE.* TO limited@'%'"
	local limited=${P_URI/$MYSQL_USER:$MYSQL_PASSWORD/limited:pw}
	for strategy in "${STRATEGIES[@]}"; do
		with "$strategy" "$limited"
		pmy 'DROP TABLE IF EXISTS dlock_names'
		if [[ $strategy == strategy=table ]]; then
			continue
		fi
		run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
		one_line 'setup'
		with "$strategy" "$P_URI"
		"$DLOCK" setup
		run -0 "$DLOCK" run -b "$limited?$strategy" "$LOCK" -- true
	done
	[[ ! -e ran ]]
}

# ---- durations

# bats test_tags=more
@test "the longest of durations: the lock is held, and by nobody else" {
	need jq
	local years=315360000 strategy least
	for strategy in "${STRATEGIES[@]}"; do
		with "$strategy"
		least=$((years - 10))
		# The server ends a connection that is silent for a year.
		if [[ $strategy == strategy=@(row|advisory|table) ]]; then
			least=31536000
		fi
		hold -t "${years}s" --
		is_held
		run --separate-stderr -0 "$DLOCK" verify "$LOCK" "$TOKEN"
		if ((least == 31536000)); then
			equal "$(my "SELECT ROUND((expires - UNIX_TIMESTAMP(NOW(6)) * 1000000) / ${least}000000, 2)
				FROM dlock_entries WHERE name = '$LOCK' AND strategy = '${strategy#*=}'")" \
				1.00 "$strategy: its end"
		else
			between "$("$DLOCK" status --json "$LOCK" | jq '.holders[0].expires_in_ms / 1000 | floor')" \
				"$least" "$years" "$strategy: its end"
		fi
		release
		is_free
		# For a session's hold a process stays.
		if ((least != 31536000)); then
			"$DLOCK" run --min-hold "${years}s" "$LOCK" -- true
			is_held
			"$DLOCK" break -q --yes "$LOCK"
			is_free
		fi
	done
}

# ---- what strategies do not give

@test "a mode that a strategy lacks is refused, and the message names a strategy that has it" {
	with strategy=advisory
	run --separate-stderr -125 "$DLOCK" run -s "$LOCK" -- touch ran
	one_line 'advisory has no --shared.* mysql: .*have it by default'
	for strategy in strategy=insert strategy=row strategy=advisory strategy=table dialect=shedlock; do
		with "$strategy"
		run --separate-stderr -125 "$DLOCK" run --slots 2 "$LOCK" -- touch ran
		one_line 'has no --slots.* mysql: .*have it by default'
	done
	run --separate-stderr -125 "$DLOCK" run -s -b "$MYSQL?strategy=insert" "$LOCK" -- touch ran
	one_line 'has no --shared.* mysql: .*have it by default'
	run --separate-stderr -125 "$DLOCK" run -b "$MYSQL?strategy=none" "$LOCK" -- touch ran
	one_line 'lease, insert, row, advisory, table'
	run --separate-stderr -125 "$DLOCK" run -b "$MYSQL?dialect=none" "$LOCK" -- touch ran
	one_line 'shedlock'
	[[ ! -e ran ]]
}

# ---- beside other users of the server

# stranger SQL: runs SQL in a session of another client, which stays open
stranger() {
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root --batch --skip-column-names \
		--unbuffered "$MYSQL_DATABASE" --execute="$1; SELECT 'ready'; DO SLEEP(300)"
	STRANGER=$PID
	wait_until 5 has_line "$OUT" ready
}

# stranger_ends: ends that session, and the server frees its locks
stranger_ends() {
	kill -TERM "$STRANGER"
	join "$STRANGER"
	my "KILL $(my "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(300)'")" || true
}

@test "advisory excludes GET_LOCK of others, and is excluded by it" {
	with strategy=advisory
	stranger "SELECT GET_LOCK('$LOCK', 0)"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "^dlock: $LOCK: held by another client \(on mysql .*\)$"
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive .*another client$"
	contend
	wait_until 5 at_door advisory
	stranger_ends
	met_nobody
	hold --
	equal "$(my "SELECT GET_LOCK('$LOCK', 0)")" 0
	release
	equal "$(my "SELECT GET_LOCK('$LOCK', 0)")" 1
	[[ ! -e ran ]]
}

# at_door STRATEGY: true when a client waits for another program that has $LOCK
at_door() {
	[[ $(entries "$1" 'conn = 0') == 1 && $(my "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE INFO LIKE CONCAT('%/* dl', 'ock door %')") == 1 ]]
}

@test "advisory distinguishes names that are the same to the server, or that it refuses" {
	# Bash cuts the long name after a whole character.
	local name long names held=() n=0 LC_ALL=C.UTF-8
	with strategy=advisory
	printf -v long '%200s' ''
	names=("$LOCK" "${LOCK^^}" "${LOCK^}" "$LOCK " " $LOCK" "$LOCK-e" "$LOCK-é" "$LOCK-É" "$LOCK-ß" "$LOCK-ss"
		"${long// /a}" "${long// /A}" "${long// /🔒}")
	names[12]=${names[12]:0:50}
	for name in "${names[@]}"; do
		((++n))
		start "$DLOCK" run -n "$name" -- sh -c 'touch "got.$0"; exec sleep 300' "$n"
		held+=("$PID")
		wait_until 5 test -e "got.$n" || fail "$name: $(<"$ERR")"
		run -124 "$DLOCK" run -n "$name" -- true
	done
	kill -TERM "${held[@]}"
	wait_until 10 ended "${held[@]}"
}

@test "row excludes FOR UPDATE of others on its row, and is excluded by it; -s shares" {
	with strategy=row
	"$DLOCK" run "$LOCK" -- true
	stranger "START TRANSACTION; SELECT 1 FROM dlock_rows WHERE name = '$LOCK' FOR UPDATE"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "held by another client"
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	contend
	wait_until 5 at_door row
	stranger_ends
	met_nobody
	hold -s --
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- touch ran
	my "SELECT 1 FROM dlock_rows WHERE name = '$LOCK' LOCK IN SHARE MODE NOWAIT"
	run -1 my "SELECT 1 FROM dlock_rows WHERE name = '$LOCK' FOR UPDATE NOWAIT"
	release
	[[ ! -e ran ]]
}

@test "row: error 3572, with which MySQL refuses NOWAIT, means that the lock is held" {
	tool mysql_nowait.py "$(<"$MYSQL_DIR/port")"
	with strategy=row "mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$TOOL_PORT/$MYSQL_DATABASE"
	"$DLOCK" run "$LOCK" -- true
	stranger "START TRANSACTION; SELECT 1 FROM dlock_rows WHERE name = '$LOCK' FOR UPDATE"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "held by another client"
	run -124 "$DLOCK" run -w 2s "$LOCK" -- touch ran
	stranger_ends
	run -0 "$DLOCK" run -w 9s "$LOCK" -- true
	[[ ! -e ran ]]
}

@test "table: nobody reads the table of an exclusive hold, all read that of a shared one" {
	with strategy=table
	hold --
	run -1 my "SET SESSION lock_wait_timeout = 0; SELECT * FROM \`$LOCK\`"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line "held by $(uname -n) pid $HOLDER"
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive .* $(uname -n) pid $HOLDER"
	release
	hold -s --
	my "SET SESSION lock_wait_timeout = 0; SELECT * FROM \`$LOCK\`"
	run -1 my "SET SESSION lock_wait_timeout = 0; INSERT INTO \`$LOCK\` VALUES (1)"
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- touch ran
	release
	my "INSERT INTO \`$LOCK\` VALUES (1)"
	# Another client locks the table.
	stranger "LOCK TABLES \`$LOCK\` READ"
	run -124 "$DLOCK" run -n "$LOCK" -- touch ran
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	stranger_ends
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "table takes names with all kinds of characters, and refuses a missing table, a view, a long name" {
	local name names=("it's" '"quoted"' 'back`tick' '%s%n' 'dot.ted' 'a b' 'ünï' '{name}' '*')
	with strategy=table
	for name in "${names[@]}"; do
		my "CREATE TABLE \`${name//\`/\`\`}\` (id INT)"
		run --separate-stderr -0 "$DLOCK" run -n "$name" -- sh -c 'printf %s "$DLOCK_NAME"'
		equal "$output" "$name"
	done
	run --separate-stderr -122 "$DLOCK" run "$LOCK-missing" -- touch ran
	one_line 'no table.*strategy=lease'
	printf -v name '%65s' ''
	run --separate-stderr -125 "$DLOCK" run "${name// /x}" -- touch ran
	one_line '64.*strategy=lease'
	[[ ! -e ran ]]
}

server_seconds() {
	pmy "SELECT FLOOR(UNIX_TIMESTAMP())"
}

@test "the server's clock jumps ahead: the lock is lost; back: the hold stands, and fences grow" {
	clocked "$MYSQLD"
	MYSQLD=$T/clocked private_mysql
	DLOCK_BACKEND=$P_URI
	outlives_jumps
}

@test "fences grow also when the server's clock is set back" {
	local last fence
	clocked "$MYSQLD"
	MYSQLD=$T/clocked private_mysql
	for strategy in "${STRATEGIES[@]}"; do
		clock +0
		with "$strategy" "$P_URI"
		last=$("$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
		clock -3600
		between "$(pmy 'SELECT UNIX_TIMESTAMP()')" $((EPOCHSECONDS - 3700)) $((EPOCHSECONDS - 3500)) \
			"the server's clock"
		if [[ $strategy == dialect=shedlock ]]; then
			# ShedLock has only times: it waits until the clock has come there again.
			run -124 "$DLOCK" run -n "$LOCK" -- true
			continue
		fi
		for _ in 1 2 3; do
			fence=$("$DLOCK" run -w 5s "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
			((fence > last)) || fail "$strategy: $fence after $last"
			last=$fence
		done
	done
}

# ---- ways to connect

@test "the error of a server is shown in one line without control characters" {
	# MariaDB itself would write them as numbers.
	start python3 -c 'import os, socket, struct, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
text = struct.pack("<BH", 0xff, 1644) + os.fsencode(sys.argv[1])
while True:
    server.accept()[0].sendall(struct.pack("<I", len(text)) + text)' "$EVIL"
	line "$OUT" 5
	run --separate-stderr -122 "$DLOCK" run -n -b "mysql://u@127.0.0.1:$LINE/d" "$LOCK" -- true
	harmless "$stderr"
	one_line '31m.*dlock: forged'
}

# bats test_tags=more
@test "a database may have all kinds of characters in its name" {
	local name='od`d "name" %20 it'\''s ü'
	my "CREATE DATABASE \`${name//\`/\`\`}\`; GRANT ALL ON \`${name//\`/\`\`}\`.* TO $MYSQL_USER@'127.0.0.1'"
	local encoded='od%60d%20%22name%22%20%2520%20it%27s%20%C3%BC'
	for strategy in "${STRATEGIES[@]}"; do
		if [[ $strategy == strategy=table ]]; then
			continue
		fi
		with "$strategy"
		export DLOCK_BACKEND="${MYSQL%/*}/$encoded?$strategy"
		run -0 "$DLOCK" run "$LOCK" -- true
		"$DLOCK" setup --dry-run | "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root --force >applied 2>&1 || true
	done
	equal "$(my "SELECT COUNT(*) > 3 FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'od%'")" 1
}

@test "the parameters socket, defaults-file, defaults-group and password-file say how to connect" {
	local place="mysql://$MYSQL_USER:$MYSQL_PASSWORD@/$MYSQL_DATABASE?socket=$MYSQL_DIR/sock"
	run --separate-stderr -0 "$DLOCK" run -b "$place" "$LOCK" -- echo ran
	equal "$output$stderr" ran
	install -m 600 /dev/null my.cnf
	cat >my.cnf <<-END
		[client]
		user=nobody
		[ours]
		user=$MYSQL_USER
		password=$MYSQL_PASSWORD
		host=127.0.0.1
		port=$(<"$MYSQL_DIR/port")
		database=$MYSQL_DATABASE
	END
	run --separate-stderr -0 "$DLOCK" run -b "mysql:?defaults-file=$T/my.cnf&defaults-group=ours" "$LOCK" -- echo ran
	equal "$output$stderr" ran
	run --separate-stderr -122 "$DLOCK" run -b "mysql://127.0.0.1:$(<"$MYSQL_DIR/port")/$MYSQL_DATABASE?defaults-file=$T/my.cnf" "$LOCK" -- echo ran
	install -m 600 /dev/null secret
	echo "$MYSQL_PASSWORD" >secret
	run --separate-stderr -0 "$DLOCK" run -b "mysql://$MYSQL_USER@127.0.0.1:$(<"$MYSQL_DIR/port")/$MYSQL_DATABASE?password-file=$T/secret" "$LOCK" -- echo ran
	equal "$output$stderr" ran
	run --separate-stderr -122 "$DLOCK" run -b "mysql://$MYSQL_USER:wr0ng@127.0.0.1:$(<"$MYSQL_DIR/port")/$MYSQL_DATABASE" "$LOCK" -- echo ran
	one_line 'wrong user or password'
	[[ $stderr != *wr0ng* ]]
}

# bats test_tags=more
@test "an option file that asks for reconnects: a connection that is gone is not replaced silently" {
	export HOME=$T
	install -m 600 /dev/null .my.cnf
	cat >.my.cnf <<-END
		[client]
		user=$MYSQL_USER
		password=$MYSQL_PASSWORD
		reconnect=1
	END
	local option
	export DLOCK_BACKEND
	for option in defaults-group=client defaults-file=$T/.my.cnf; do
		DLOCK_BACKEND="mysql://127.0.0.1:$(<"$MYSQL_DIR/port")/$MYSQL_DATABASE?strategy=advisory&$option"
		hold -t 20s --
		my "KILL $(my "SELECT conn FROM dlock_entries WHERE name = '$LOCK'")"
		join "$HOLDER"
		equal "$status" 123 "$option"
		# If dlock asked another session instead, it would see that this does not hold.
		matches "$(<"$HOLDER_ERR")" 'lost: .*closed the connection' "$option"
	done
}

# certificates: makes an authority, a certificate of a server for 127.0.0.1, and one of a client
certificates() {
	local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
	openssl req -x509 "${key[@]}" -days 2 -subj /CN=ca -keyout ca.key -out ca.crt
	openssl req -x509 "${key[@]}" -days 2 -subj /CN=other -keyout other.key -out other.crt
	openssl req "${key[@]}" -subj /CN=127.0.0.1 -keyout server.key -out server.csr
	openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out server.crt \
		-extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1)
	openssl req "${key[@]}" -subj /CN=client -keyout client.key -out client.csr
	openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out client.crt
} 2>certificates.log

@test "TLS: verified, required, with a certificate of our own; a wrong authority is refused" {
	certificates
	private_mysql --ssl-ca="$T/ca.crt" --ssl-cert="$T/server.crt" --ssl-key="$T/server.key"
	pmy "CREATE USER tls@'%' IDENTIFIED BY 'pw' REQUIRE SSL; GRANT ALL ON $MYSQL_DATABASE.* TO tls@'%';
		CREATE USER cert@'%' IDENTIFIED BY 'pw' REQUIRE X509; GRANT ALL ON $MYSQL_DATABASE.* TO cert@'%'"
	local tls=mysql://tls:pw@127.0.0.1:$P_PORT/$MYSQL_DATABASE cert=mysql://cert:pw@127.0.0.1:$P_PORT/$MYSQL_DATABASE
	for strategy in "${STRATEGIES[@]}"; do
		with "$strategy" "$tls"
		export DLOCK_BACKEND="$DLOCK_BACKEND&ssl-ca=$T/ca.crt"
		hold --
		contend "$COMMAND"
		holds_for 300 alive "$CONTENDER"
		release
		met_nobody
	done
	run -0 "$DLOCK" run -b "$tls?ssl-mode=required" "$LOCK" -- true
	run -0 "$DLOCK" run -b "$cert?ssl-ca=$T/ca.crt&ssl-cert=$T/client.crt&ssl-key=$T/client.key" "$LOCK" -- true
	run --separate-stderr -122 "$DLOCK" run -b "$tls?ssl-ca=$T/other.crt" "$LOCK" -- touch ran
	one_line TLS
	run --separate-stderr -122 "$DLOCK" run -b "$cert?ssl-ca=$T/ca.crt" "$LOCK" -- touch ran
	one_line
	run --separate-stderr -122 "$DLOCK" run -b "$tls" "$LOCK" -- touch ran
	one_line
	# A server that has no TLS gets no password.
	private_mysql --skip-ssl
	run --separate-stderr -122 "$DLOCK" run -b "$P_URI?ssl-mode=required" "$LOCK" -- touch ran
	one_line TLS
	[[ ! -e ran ]]
}
