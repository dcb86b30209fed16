# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's strategies on servers that become read-only, behind a balancer, and with several hosts in the
# URI. Nobody gets in while the command still runs, and no stranger's connection is killed.

load ../lib/helpers
load strategies

@test "a server that becomes read-only, as in a failover, holds no locks" {
	private_mysql
	for strategy in "${ROWS[@]}" advisory row; do
		on "$strategy" "$P_URI"
		hold -t 4s -k 500ms --
		pmy "SET GLOBAL read_only = 1"
		lost
		run --separate-stderr -122 "$DLOCK" run -w 2s "$LOCK" -- touch ran
		one_line 'read-only.*primary'
		[[ ! -e ran ]]
		pmy "SET GLOBAL read_only = 0"
		wait_until 8 is_free
	done
}

@test "a server becomes read-only: a lock that lives with a connection counts as lost at the next renewal" {
	private_mysql
	for strategy in advisory row; do
		on "$strategy" "$P_URI"
		hold -t 18s -k 300ms --
		pmy "SET GLOBAL read_only = 1"
		# A third of the lease is 6 s.
		lost 9
		has_line "$HOLDER_ERR" 'read-only now'
		pmy "SET GLOBAL read_only = 0"
		wait_until 20 is_free
	done
}

# bats test_tags=more
@test "an entry that others keep locked for a while: the command runs on, and its end grows later" {
	local stranger before
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		# The answer to the proof comes in time, that to the registration does not.
		DLOCK_BACKEND+="&timeout=700ms"
		hold -t 12s --
		before=$(entry_end)
		start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root "$MYSQL_DATABASE" --execute="
			START TRANSACTION; SELECT 1 FROM dlock_entries WHERE name = '$LOCK' FOR UPDATE; DO SLEEP(5)"
		stranger=$PID
		holds_for 13000 alive "$COMMAND"
		join "$stranger"
		((before + 6000000 < $(entry_end))) || fail "$STRATEGY: the end of the entry did not grow"
		release
		is_free
	done
}

# entry_end: prints until when the command of the holder may be alive, as the server has it
entry_end() {
	at_server "SELECT expires FROM dlock_entries WHERE name = '$LOCK'"
}

# bats test_tags=more
@test "read-only, and an account that may still write: nobody takes or extends a lock" {
	local uri token before after
	private_mysql
	pmy "CREATE USER admin@'127.0.0.1'; GRANT ALL ON *.* TO admin@'127.0.0.1'"
	uri=mysql://admin@127.0.0.1:$P_PORT/dlock
	for strategy in "${ROWS[@]}"; do
		on "$strategy" "$uri"
		hold -t 6s -k 300ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		contend "$COMMAND"
		wait_until 5 queue_or_table 1
		pmy "SET GLOBAL read_only = 1"
		before=$(ends)
		lost 10
		has_line "$HOLDER_ERR" 'read-only.*primary'
		# No renewal came after the switch, so another primary has the same end of the lease.
		after=$(ends)
		((${after:-0} <= before)) || fail "$STRATEGY: extended from $before to $after"
		dead_before "$before"
		alive "$CONTENDER"
		LOCK=new-$LOCK
		run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
		one_line 'read-only.*primary'
		equal "$(ends)" '' "$STRATEGY: rows of a lock that was not taken"
		pmy "SET GLOBAL read_only = 0"
		met_nobody 15
		token=$("$DLOCK" acquire -t 60s "$LOCK")
		pmy "SET GLOBAL read_only = 1"
		before=$(ends)
		run --separate-stderr -122 "$DLOCK" renew -t 90s "$LOCK" "$token"
		one_line 'read-only.*primary'
		if [[ $strategy != shedlock ]]; then
			run --separate-stderr -122 env DLOCK_TOKEN="$token" "$DLOCK" acquire -t 90s "$LOCK"
			one_line 'read-only.*primary'
		fi
		equal "$(ends)" "$before" "$STRATEGY: end of the lease"
		pmy "SET GLOBAL read_only = 0"
		"$DLOCK" renew "$LOCK" "$token"
		"$DLOCK" release "$LOCK" "$token"
	done
	on lease "$uri"
	for mode in -s --slots=2; do
		token=$("$DLOCK" acquire $mode -t 60s "$LOCK")
		pmy "SET GLOBAL read_only = 1"
		before=$(ends)
		run --separate-stderr -122 "$DLOCK" renew -t 90s "$LOCK" "$token"
		run --separate-stderr -122 "$DLOCK" run $mode "$LOCK" -- touch ran
		one_line 'read-only.*primary'
		equal "$(ends)" "$before" "$mode: end of the lease"
		pmy "SET GLOBAL read_only = 0"
		"$DLOCK" release "$LOCK" "$token"
	done
	[[ ! -e ran ]]
}

# ends: prints when the lease of $LOCK ends, in ms since 1970; nothing when there is no row
ends() {
	case $STRATEGY in
	lease | insert) pmy "SELECT expires DIV 1000 FROM dlock_entries WHERE name = '$LOCK' AND fence > 0" ;;
	shedlock) pmy "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000
		FROM shedlock WHERE name = '$LOCK'" ;;
	esac
}

# dead_before MS: the witness gave no sign of life after that time of the wall clock
dead_before() {
	local sign wall boot
	now
	boot=$NOW wall=$((${EPOCHREALTIME/./} / 1000))
	read -r sign _ < <(tail -n 1 "log.$STRATEGY")
	((sign + wall - boot <= $1 + 10)) || fail "$STRATEGY: lived until $((sign + wall - boot)), not $1"
}

# bats test_tags=more
@test "a primary becomes read-only behind a balancer: a holder goes on with the next one" {
	local first second account
	private_mysql
	first=$P_DIR
	private_mysql
	second=$P_DIR
	for P_DIR in "$first" "$second"; do
		pmy "CREATE USER admin@'127.0.0.1'; GRANT ALL ON *.* TO admin@'127.0.0.1'"
	done
	balance "$(<"$first/port")"
	for account in "$MYSQL_USER:$MYSQL_PASSWORD" admin; do
		for strategy in "${ROWS[@]}"; do
			P_DIR=$first
			balance_to "$(<"$first/port")"
			on "$strategy" "mysql://$account@${BALANCED#*@}"
			hold -t 15s --
			pmy "SET GLOBAL read_only = 1"
			# What a replica has when it becomes the primary.
			mariadb-dump --no-defaults --socket="$first/sock" --user=root --hex-blob "$MYSQL_DATABASE" |
				"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$second/sock" --user=root "$MYSQL_DATABASE"
			P_DIR=$second
			balance_to "$(<"$second/port")"
			holds_for 12000 alive "$COMMAND"
			is_held
			release
			is_free
			P_DIR=$first
			pmy "SET GLOBAL read_only = 0"
		done
	done
}

@test "several hosts: the one that takes writes is found, and a holder and a waiter go on with the next one" {
	local first second strategy
	private_mysql
	first=$P_DIR
	private_mysql
	second=$P_DIR
	local uri=$P_URI
	uri=${uri/127.0.0.1:/127.0.0.1:$(<"$first/port"),127.0.0.1:}
	for strategy in "${ROWS[@]}"; do
		P_DIR=$first
		on "$strategy" "$uri"
		pmy "SET GLOBAL read_only = 1"
		hold -t 6s --
		contend "$COMMAND"
		# It is held on the second one.
		P_DIR=$second
		wait_until 5 queue_or_table 1
		pmy "SET GLOBAL read_only = 1"
		run --separate-stderr -122 "$DLOCK" run -n new -- touch ran
		one_line "$(<"$first/port"): read-only; .*$(<"$second/port"): read-only"
		mariadb-dump --no-defaults --socket="$second/sock" --user=root --hex-blob "$MYSQL_DATABASE" |
			"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$first/sock" --user=root "$MYSQL_DATABASE"
		P_DIR=$first
		pmy "SET GLOBAL read_only = 0"
		holds_for 6500 alive "$COMMAND" "$CONTENDER"
		is_held
		run --separate-stderr "$DLOCK" check
		matches "$output" 'warning +replication .*forgotten'
		release
		met_nobody
		is_free
		P_DIR=$second
		pmy "SET GLOBAL read_only = 0"
	done
	[[ ! -e ran ]]
}

@test "several hosts: one that is killed or frozen is passed over, and the error has the reason" {
	local first second
	private_mysql
	first=$P_PORT
	private_mysql
	second=$P_PORT
	on lease "${P_URI/127.0.0.1:/127.0.0.1:1,127.0.0.1:$first,127.0.0.1:}"
	run -0 "$DLOCK" run "$LOCK" -- true
	server_stop "$P_DIR"
	run -0 "$DLOCK" run "$LOCK" -- true
	kill -STOP "$(<"$T/mysql.0/pid")"
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line ":1: cannot connect.*:$first: .*:$second: cannot connect"
	kill -CONT "$(<"$T/mysql.0/pid")"
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "several hosts: those that refuse writes by other errors, or under a backup, are passed over" {
	local first second stranger code
	private_mysql
	first=$P_DIR
	private_mysql
	second=$P_DIR
	private_mysql
	on lease "${P_URI/127.0.0.1:/127.0.0.1:$(<"$first/port"),127.0.0.1:$(<"$second/port"),127.0.0.1:}"
	for P_DIR in "$first" "$second"; do
		"$DLOCK" setup -b "$(mysql_uri "$P_DIR")"
		for code in 1021 1114 1226 1290 1036 1881 1792; do
			pmy "CREATE OR REPLACE TRIGGER refuses BEFORE INSERT ON dlock_names FOR EACH ROW
				SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = $code, MESSAGE_TEXT = 'refused'" --delimiter=//
			run --separate-stderr -0 "$DLOCK" run -n "$LOCK.$code" -- true
		done
	done
	run --separate-stderr -122 "$DLOCK" run -n -b "$(mysql_uri "$first")" "$LOCK" -- true
	one_line 'read-only.*1792: refused'
	P_DIR=$first
	pmy "DROP TRIGGER refuses"
	locks "$first" "FLUSH TABLES WITH READ LOCK; SELECT 1"
	run --separate-stderr -0 "$DLOCK" run -n "$LOCK" -- true
	mysql_at "$first" "KILL $SESSION"
}

@test "a server does not become read-only while a table is locked" {
	private_mysql
	on table "$P_URI"
	hold --
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" --user=root --execute='SET GLOBAL read_only = 1'
	local switch=$PID
	holds_for 1000 alive "$switch"
	release
	join "$switch"
	equal "$(pmy 'SELECT @@GLOBAL.read_only')" 1
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- true
	one_line 'read-only.*primary'
}

# two_servers: starts two servers, sets FIRST and SECOND to their directories, and starts a balancer
# that leads to the first one. The next connection to the first one gets a number that the second
# one has not reached.
two_servers() {
	private_mysql
	SECOND=$P_DIR
	private_mysql
	FIRST=$P_DIR
	for _ in {1..20}; do
		pmy 'DO 0'
	done
	balance "$P_PORT"
}

# stranger N: starts another program, whose connection to the second server has the number N; fails
# if something else has got that number
stranger() {
	local number=0
	while ((number < $1 - 1)); do
		number=$(mysql_at "$SECOND" 'SELECT CONNECTION_ID()')
	done
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --host=127.0.0.1 --port="$(<"$SECOND/port")" --user="$MYSQL_USER" \
		--password="$MYSQL_PASSWORD" --skip-column-names --unbuffered --execute='SELECT CONNECTION_ID(); DO SLEEP(300)'
	STRANGER=$PID
	line "$OUT"
	[[ $LINE == "$1" ]]
}

# start_waiter: starts a waiter at the first server; sets waiter, and number to that of its connection
start_waiter() {
	start "$DLOCK" run "$LOCK" -- touch ran
	waiter=$PID
	wait_until 5 queue 1
	number=$(pmy "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER'
		AND INFO LIKE CONCAT('%/* dl', 'ock %')")
}

# bats test_tags=more
@test "a waiter gives up when the balancer leads elsewhere: it kills no connection of a stranger there" {
	local waiter number
	two_servers
	for strategy in "${SESSIONS[@]}"; do
		P_DIR=$FIRST
		on "$strategy" "$BALANCED"
		balance_to "$(<"$FIRST/port")"
		hold --
		until start_waiter && stranger "$number"; do
			kill -TERM "$STRANGER" "$waiter"
			join "$waiter"
		done
		balance_to "$(<"$SECOND/port")"
		kill -INT "$waiter"
		join "$waiter"
		equal "$status" 130 "$STRATEGY"
		pause 0.3
		alive "$STRANGER" || fail "$STRATEGY: the stranger's connection was killed"
		balance_to "$(<"$FIRST/port")"
		release
		kill -TERM "$STRANGER"
	done
	[[ ! -e ran ]]
}

# start_blocked TABLE: starts a dlock whose request for a row in that table, which is locked, waits at the
# first server; sets waiter and number
start_blocked() {
	start "$DLOCK" run -w 60s "$LOCK" -- touch ran
	waiter=$PID
	wait_until 5 tries "$1"
	number=$(pmy "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%INTO $1 %'
		AND ID <> CONNECTION_ID()")
}

# bats test_tags=more
@test "a server breaks down under a request: no connection of a stranger is killed on the next one" {
	local table number waiter
	for strategy in insert shedlock; do
		two_servers
		on "$strategy" "$BALANCED"
		# The waiter keeps its connection until the server breaks down.
		DLOCK_BACKEND+='&timeout=20s'
		"$DLOCK" run "$LOCK" -- true
		table=dlock_names
		if [[ $strategy == shedlock ]]; then
			table=shedlock
		fi
		locks "$P_DIR" "LOCK TABLES $table READ"
		until start_blocked "$table" && stranger "$number"; do
			kill -TERM "$STRANGER" "$waiter"
			join "$waiter"
		done
		balance_to "$(<"$SECOND/port")"
		kill -KILL "$P_PID"
		join "$waiter"
		equal "$status" 0 "$STRATEGY"
		pause 0.3
		alive "$STRANGER" || fail "$STRATEGY: the stranger's connection was killed"
	done
}
