# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL: what becomes of a hold and of a waiter when something breaks. Who judges is a
# contender that waits for the same lock: it never gets in while the command still runs.

load ../lib/helpers
load mysql

# The strategies whose locks live with a connection; those whose locks are rows with an end; all.
SESSIONS=(advisory row table)
ROWS=(lease insert shedlock)
ALL=("${ROWS[@]}" "${SESSIONS[@]}")

# on NAME [URI]: sets DLOCK_BACKEND to that strategy, and LOCK to a lock of its own
on() {
	STRATEGY=$1
	LOCK=test-$BATS_SUITE_TEST_NUMBER-$STRATEGY
	export LOCK
	if [[ $STRATEGY == shedlock ]]; then
		export DLOCK_BACKEND="${2:-$MYSQL}?dialect=shedlock"
	else
		export DLOCK_BACKEND="${2:-$MYSQL}?strategy=$STRATEGY"
	fi
	if [[ $STRATEGY == table ]]; then
		at_server "CREATE TABLE IF NOT EXISTS \`$LOCK\` (id INT PRIMARY KEY)"
	fi
}

# at_server SQL: runs SQL at the server of this test, or at that of the suite
at_server() {
	if [[ -n ${P_DIR-} ]]; then
		pmy "$@"
	else
		my "$@"
	fi
}

# connection_of_holder: sets CONNECTION to the number of the holder's connection
connection_of_holder() {
	CONNECTION=$(at_server "SELECT conn FROM dlock_entries WHERE name = '$LOCK' AND fence > 0")
	matches "$CONNECTION" '^[0-9]+$' "connection of the holder"
}

# lost [SECONDS]: dlock ends with 123 and says once that the lock was lost
lost() {
	join "$HOLDER" "${1:-8}"
	equal "$status" 123 "$STRATEGY: status ($(<"$HOLDER_ERR"))"
	equal "$(grep -c "^dlock: $LOCK: .*lost" "$HOLDER_ERR")" 1 \
		"$STRATEGY: lines about the loss: $(<"$HOLDER_ERR")"
	ended "$COMMAND"
}

# ---- processes of dlock

@test "kill -9 of the keeper: nobody gets in while the command runs, which is dead in time" {
	for strategy in "${ALL[@]}"; do
		on "$strategy"
		hold -t 3s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		keeper_of "$HOLDER"
		contend "$COMMAND"
		kill -KILL "$KEEPER"
		# The command ends because the lease ends, not because the keeper did.
		holds_for 700 alive "$COMMAND"
		lost
		met_nobody
	done
}

@test "kill -9 of the keeper: the connection that is the lock lives on, and ends with the command" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold -t 30s --
		connection_of_holder
		keeper_of "$HOLDER"
		kill -KILL "$KEEPER"
		wait_until 5 ended "$KEEPER"
		contend "$COMMAND"
		holds_for 1500 there "$CONNECTION"
		alive "$COMMAND"
		release
		met_nobody 3
		wait_until 3 not there "$CONNECTION"
	done
}

# there ID: true when the server has that connection
there() {
	[[ $(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = $1") == 1 ]]
}

@test "kill -9 of keeper, dlock and guard, all at once: the command is dead before the lock is free" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold -t 3s -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		keeper_of "$HOLDER"
		guard_of "$HOLDER"
		contend "$COMMAND"
		kill -KILL "$KEEPER" "$HOLDER" "$GUARD"
		met_nobody
	done
}

@test "keeper stopped: the command is dead before the server lets another one in" {
	for strategy in "${ALL[@]}"; do
		on "$strategy"
		hold -t 2s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		keeper_of "$HOLDER"
		contend "$COMMAND"
		kill -STOP "$KEEPER"
		lost
		met_nobody
	done
}

@test "dlock stopped, guard stopped: the lock stays held, or the command is dead in time" {
	for strategy in "${SESSIONS[@]}"; do
		for role in HOLDER GUARD; do
			on "$strategy"
			hold -t 3s -k 300ms --
			guard_of "$HOLDER"
			contend "$COMMAND"
			kill -STOP "${!role}"
			holds_for 4000 alive "$CONTENDER"
			kill -CONT "${!role}"
			if alive "$COMMAND"; then
				kill -TERM "$COMMAND"
			fi
			join "$HOLDER"
			met_nobody
		done
	done
}

# ---- waiters

@test "a waiter that hangs when its turn comes delays the next one by less than 6 s" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold --
		start "$DLOCK" run -t 10s "$LOCK" -- true
		local hung=$PID
		keeper_of "$hung"
		wait_until 5 queue 1
		contend "$COMMAND"
		wait_until 5 queue 2
		kill -STOP "$KEEPER"
		release
		met_nobody 6
		kill -CONT "$KEEPER"
		join "$hung"
		equal "$status" 0 "$STRATEGY: the one that hung"
	done
}

# queue N: true when N clients wait for $LOCK
queue() {
	[[ $(at_server "SELECT COUNT(*) FROM dlock_entries q WHERE name = '$LOCK' AND $WAITS") == "$1" ]]
}

@test "a waiter whose connection is killed gets back in line, and the lock" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold --
		contend "$COMMAND"
		wait_until 5 queue 1
		my "KILL $(my "SELECT conn FROM dlock_entries q WHERE name = '$LOCK' AND $WAITS")"
		wait_until 5 queue 1
		release
		met_nobody
	done
}

@test "a waiter waits through a restart of the server" {
	private_mysql
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy" "$P_URI"
		hold -t 10s --
		contend "$COMMAND"
		wait_until 5 queue 1
		mysql_stop "$P_DIR"
		mysql_launch "$P_DIR" "$P_PORT"
		SERVICES+=("$(<"$P_DIR/pid")")
		join "$HOLDER"
		equal "$status" 123 "$STRATEGY: the holder"
		met_nobody
	done
}

# ---- the connection and the server

@test "KILL of the holder's connection ends the command at once" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold -t 30s -k 300ms --
		connection_of_holder
		my "KILL $CONNECTION"
		lost 3
		is_free
	done
}

@test "KILL QUERY and an idle server's wait_timeout take no lock away" {
	my "SET GLOBAL wait_timeout = 1, GLOBAL idle_transaction_timeout = 1"
	for strategy in "${ALL[@]}"; do
		on "$strategy"
		hold -t 12s --
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			connection_of_holder
			my "KILL QUERY $CONNECTION" || true
		fi
		holds_for 2500 alive "$COMMAND"
		is_held
		release
		is_free
	done
	my "SET GLOBAL wait_timeout = 28800, GLOBAL idle_transaction_timeout = 0"
}

@test "server frozen: the command is dead in time, and nobody was let in before" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		hold -t 2s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		contend "$COMMAND"
		wait_until 5 queue_or_table 1
		kill -STOP "$P_PID"
		lost
		kill -CONT "$P_PID"
		met_nobody
	done
}

# There is a table of waiters. Those for ShedLock's table are connections beside that of the holder.
queue_or_table() {
	case $STRATEGY in
	shedlock) [[ $(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER <> 'root' AND
		DB = '$MYSQL_DATABASE'") == $(($1 + 1)) ]] ;;
	*) queue "$1" ;;
	esac
}

@test "server frozen for a moment: the command runs on" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		export DLOCK_BACKEND="$DLOCK_BACKEND&timeout=300ms"
		hold -t 6s --
		kill -STOP "$P_PID"
		holds_for 1900 alive "$COMMAND"
		kill -CONT "$P_PID"
		holds_for 4500 alive "$COMMAND"
		is_held
		release
		is_free
	done
}

@test "server restarted: sessions have lost the lock and say so, rows have not" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		# A lease of rows is longer than a server may take to start.
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			hold -t 5s --
		else
			hold -t 60s --
		fi
		mysql_stop "$P_DIR"
		mysql_launch "$P_DIR" "$P_PORT"
		P_PID=$(<"$P_DIR/pid")
		SERVICES+=("$P_PID")
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			lost 4
		else
			holds_for 2500 alive "$COMMAND"
			is_held
			release
		fi
		wait_until 5 is_free
	done
}

@test "server gone for good: dead in time" {
	for strategy in "${ALL[@]}"; do
		private_mysql
		on "$strategy" "$P_URI"
		hold -t 1500ms -k 300ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		mysql_stop "$P_DIR"
		lost
	done
}

@test "a server that becomes read-only, as in a failover, holds no locks" {
	private_mysql
	for strategy in "${ROWS[@]}" advisory row; do
		on "$strategy" "$P_URI"
		hold -t 2s -k 300ms --
		pmy "SET GLOBAL read_only = 1"
		lost
		run --separate-stderr -122 "$DLOCK" run -w 2s "$LOCK" -- touch ran
		one_line 'read-only.*primary'
		[[ ! -e ran ]]
		pmy "SET GLOBAL read_only = 0"
		wait_until 5 is_free
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

@test "an entry that others keep locked for a while: the command runs on, and its end grows later" {
	local stranger before
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		# The answer to the proof comes in time, that to the registration does not.
		DLOCK_BACKEND+="&timeout=700ms"
		hold -t 12s --
		before=$(entry_end)
		start mariadb --no-defaults --socket="$MYSQL_DIR/sock" --user=root "$MYSQL_DATABASE" --execute="
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

@test "read-only, and an account that may write all the same: nobody takes or extends a lock" {
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
		join "$CONTENDER" 15
		equal "$status" 122 "$STRATEGY: the waiter"
		has_line "$CONTENDER_ERR" 'read-only.*primary'
		LOCK=new-$LOCK
		run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
		one_line 'read-only.*primary'
		equal "$(ends)" '' "$STRATEGY: rows of a lock that was not taken"
		pmy "SET GLOBAL read_only = 0"
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
			hold -t 6s --
			pmy "SET GLOBAL read_only = 1"
			# What a replica has when it becomes the primary.
			mariadb-dump --no-defaults --socket="$first/sock" --user=root --hex-blob "$MYSQL_DATABASE" |
				mariadb --no-defaults --socket="$second/sock" --user=root "$MYSQL_DATABASE"
			P_DIR=$second
			balance_to "$(<"$second/port")"
			holds_for 6500 alive "$COMMAND"
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
			mariadb --no-defaults --socket="$first/sock" --user=root "$MYSQL_DATABASE"
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

@test "several hosts: one that is killed or frozen is passed over, and the reason is told" {
	local first second
	private_mysql
	first=$P_PORT
	private_mysql
	second=$P_PORT
	on lease "${P_URI/127.0.0.1:/127.0.0.1:1,127.0.0.1:$first,127.0.0.1:}"
	run -0 "$DLOCK" run "$LOCK" -- true
	mysql_stop "$P_DIR"
	run -0 "$DLOCK" run "$LOCK" -- true
	kill -STOP "$(<"$T/mysql.0/pid")"
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- touch ran
	one_line ":1: cannot connect.*:$first: .*:$second: cannot connect"
	kill -CONT "$(<"$T/mysql.0/pid")"
	[[ ! -e ran ]]
}

@test "a server does not become read-only while a table is locked" {
	private_mysql
	on table "$P_URI"
	hold --
	start mariadb --no-defaults --socket="$P_DIR/sock" --user=root --execute='SET GLOBAL read_only = 1'
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
	start mariadb --no-defaults --host=127.0.0.1 --port="$(<"$SECOND/port")" --user="$MYSQL_USER" \
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

@test "a server breaks down under a request: no connection of a stranger is killed on the next one" {
	local table number waiter
	for strategy in insert shedlock; do
		two_servers
		on "$strategy" "$BALANCED"
		"$DLOCK" run "$LOCK" -- true
		table=dlock_names
		if [[ $strategy == shedlock ]]; then
			table=shedlock
		fi
		locks "$P_DIR" "LOCK TABLES $table READ"
		start "$DLOCK" run -w 30s "$LOCK" -- touch ran
		waiter=$PID
		wait_until 5 tries "$table"
		number=$(pmy "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%INTO $table %'
			AND ID <> CONNECTION_ID()")
		stranger "$number"
		balance_to "$(<"$SECOND/port")"
		kill -KILL "$P_PID"
		join "$waiter"
		equal "$status" 0 "$STRATEGY"
		pause 0.3
		alive "$STRANGER" || fail "$STRATEGY: the stranger's connection was killed"
	done
}

@test "a client that gives up ends the statement that it waits in" {
	local waiter table
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold --
		start "$DLOCK" run "$LOCK" -- touch ran
		waiter=$PID
		wait_until 5 queue 1
		kill -INT "$waiter"
		join "$waiter"
		equal "$status" 130 "$STRATEGY"
		pause 0.2
		queue 0 || fail "$STRATEGY: it still sleeps"
		release
	done
	for table in dlock_names shedlock; do
		strategy=${table/dlock_names/insert}
		on "$strategy" "$MYSQL"
		"$DLOCK" setup
		locks "$MYSQL_DIR" "LOCK TABLES $table READ"
		# The server lets the statement wait for longer than dlock waits for the answer.
		DLOCK_BACKEND+="&timeout=300ms"
		run "$DLOCK" run -w 1s "$LOCK" -- touch ran
		matches "$status" '^12[24]$' "$STRATEGY"
		pause 0.2
		not tries "$table" || fail "$STRATEGY: it still tries"
		my "KILL $SESSION"
		join "$PID"
	done
	[[ ! -e ran ]]
}

# locks DIRECTORY SQL: another client of the server there executes SQL, and then its session stays open.
# Sets PID, and SESSION to its number.
locks() {
	start mariadb --no-defaults --socket="$1/sock" --user=root --batch --skip-column-names --unbuffered \
		"$MYSQL_DATABASE" --execute="$2; SELECT 'session', CONNECTION_ID(); DO SLEEP(300)"
	wait_until 10 has_line "$OUT" '^session'
	SESSION=$(sed -n 's/^session\t//p' "$OUT")
}

# tries TABLE: true when a client waits until it may write to that table
tries() {
	(($(at_server "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE USER = '$MYSQL_USER' AND INFO LIKE '%INTO $1 %'") > 0))
}

# ---- what servers answer

@test "1205: a row that somebody else keeps locked is waited for, within the limit" {
	for strategy in lease insert shedlock; do
		on "$strategy"
		local table=dlock_names
		if [[ $strategy == shedlock ]]; then
			table=shedlock
		fi
		"$DLOCK" run "$LOCK" -- true
		locks "$MYSQL_DIR" "START TRANSACTION; SELECT COUNT(*) FROM $table WHERE name = '$LOCK' FOR UPDATE"
		local stranger=$PID
		timed "$DLOCK" run -w 1s "$LOCK" -- touch "ran.$strategy"
		equal "$status" 124 "$STRATEGY"
		took "$MS" 900 3500 "$STRATEGY"
		[[ ! -e ran.$strategy ]]
		# No statement of the client that gave up is left, to take the lock later.
		contend
		my "KILL $SESSION"
		join "$stranger"
		met_nobody
	done
}

@test "1213: a deadlock is a reason to try again" {
	for strategy in lease insert shedlock; do
		on "$strategy"
		"$DLOCK" run "$LOCK" -- true
		local table=dlock_names
		if [[ $strategy == shedlock ]]; then
			table=shedlock
		fi
		my "CREATE TABLE victims_$strategy (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = MyISAM"
		my "CREATE TRIGGER victim_$strategy BEFORE UPDATE ON $table FOR EACH ROW
			IF (SELECT COUNT(*) FROM victims_$strategy) < 2 THEN
				INSERT INTO victims_$strategy VALUES (NULL);
				SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found';
			END IF" --delimiter=//
		run --separate-stderr -0 "$DLOCK" run -w 5s "$LOCK" -- echo ran
		equal "$output$stderr" ran "$STRATEGY"
		equal "$(my "SELECT COUNT(*) FROM victims_$strategy")" 2 "$STRATEGY: victims"
		my "DROP TRIGGER victim_$strategy"
	done
}

@test "1040: dlock says that there are too many connections; a client that waits already waits on" {
	private_mysql --max-connections=12 --extra-max-connections=5
	on advisory "$P_URI"
	wait_until 20 filled
	wait_until 10 refused_1040
	one_line 'too many connections'
}

# filled: all connections are taken. Who asks takes one, too, when a client may come and be refused.
filled() {
	local count
	count=$(pmy "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(300)'")
	((count >= 12)) && return 0
	start mariadb --no-defaults --host=127.0.0.1 --port="$P_PORT" --user="$MYSQL_USER" \
		--password="$MYSQL_PASSWORD" --execute='DO SLEEP(300)'
	return 1
}

refused_1040() {
	run --separate-stderr "$DLOCK" run -n "$LOCK" -- true
	((status == 122)) && [[ $stderr == *'too many connections'* ]]
}

# ---- replies that are lost

@test "the reply to the Nth request is lost: no ghost stays, and no two are inside" {
	via_proxy
	local n codes cut=0
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$PROXY"
		local straight=${DLOCK_BACKEND/$PROXY/$MYSQL}
		codes=' '
		DLOCK_BACKEND=$straight "$DLOCK" run "$LOCK" -- true
		for n in 1 2 3 4 5 6; do
			proxy cut-after "$n"
			run --separate-stderr "$DLOCK" run -t 2s -w 5s "$LOCK" -- \
				sh -c 'mkdir inside || echo overlap >>overlaps; rmdir inside'
			matches "$status" '^(0|122|123)$' "$STRATEGY: status, cut after $n"
			codes+="$status "
			DLOCK_BACKEND=$straight wait_until 4 is_free || fail "$STRATEGY: not free, cut after $n"
			DLOCK_BACKEND=$straight "$DLOCK" run -w 1s "$LOCK" -- \
				sh -c 'mkdir inside || echo overlap >>overlaps; rmdir inside'
			proxy cut-after 0
		done
		proxy_stat cut
		((VALUE >= cut + 3)) || fail "$STRATEGY: only $((VALUE - cut)) of 6 were cut"
		cut=$VALUE
		[[ ! -e overlaps ]]
	done
}

@test "all connections are cut while the lock is held: sessions have lost it, rows go on" {
	via_proxy
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$PROXY"
		hold -t 3s -k 300ms --
		contend "$COMMAND"
		wait_until 5 queue_or_table 1
		proxy cut
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			lost 3
		else
			holds_for 4000 alive "$COMMAND"
			release
		fi
		met_nobody
	done
}

@test "a network that swallows everything: dead in time, and nobody was let in before" {
	via_proxy
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$PROXY"
		hold -t 2s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		DLOCK_BACKEND=${DLOCK_BACKEND/$PROXY/$MYSQL} contend "$COMMAND"
		proxy blackhole
		lost
		met_nobody
		proxy cut
		proxy pass
	done
}

# ---- a connection that breaks while the command lives

# straight: clients that are started from now on do not go through the proxy
straight() {
	DLOCK_BACKEND=${DLOCK_BACKEND/$PROXY/$MYSQL}
}

# slow_to_die [COMMAND]: COMMAND_LINE, for hold: after TERM it takes a while to end, COMMAND's
slow_to_die() {
	COMMAND_LINE=(bash -c 'trap "${0}; exit 0" TERM; while :; do sleep 0.02; done' "${1:-sleep 0.3}")
}

# sharing STRATEGY: prints the options that a holder and the next one may have: "-x -x" and more
sharing() {
	MODES=('')
	if [[ $1 != advisory ]]; then
		MODES+=('-s ' ' -s')
	fi
}

# behind FIRST SECOND: holds with the options FIRST, and contends with SECOND
behind() {
	# shellcheck disable=SC2086 # an option, or none
	hold $1 -t 6s -k 2s -- "${COMMAND_LINE[@]}"
	straight
	# shellcheck disable=SC2086 # an option, or none
	start "$DLOCK" run $2 -w 30s "$LOCK" -- sh -c '! grep -qs "^State:[[:space:]]*[^ZX[:space:]]" "/proc/$0/status"' \
		"$COMMAND"
	NEXT=$PID NEXT_ERR=$ERR
	wait_until 5 queue 1
}

# after_it: NEXT got the lock, and ran when nothing of the holder was alive any more
after_it() {
	join "$NEXT"
	equal "$status" 0 "$STRATEGY: the next holder ran beside the first ($(<"$NEXT_ERR"))"
}

@test "a connection is cut: the next command starts when the first one is dead" {
	local round mode
	via_proxy
	slow_to_die
	for strategy in "${SESSIONS[@]}"; do
		sharing "$strategy"
		for round in 1 2 3; do
			for mode in "${MODES[@]}"; do
				on "$strategy" "$PROXY"
				behind "${mode% *}" "${mode#* }"
				proxy cut
				after_it
				join "$HOLDER"
				equal "$status" 123 "$STRATEGY: the first holder"
				straight
				is_free
			done
		done
	done
}

@test "KILL of a holder's connection: the next command starts when the first one is dead" {
	slow_to_die
	PROXY=none
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		behind '' ''
		connection_of_holder
		my "KILL $CONNECTION"
		after_it
		join "$HOLDER"
		is_free
	done
}

@test "a client that waits for the end of a lost hold is killed or cut: the next one waits as well" {
	local second
	via_proxy
	slow_to_die 'until [[ -e die ]]; do sleep 0.02; done'
	for strategy in "${SESSIONS[@]}"; do
		for fault in kill cut; do
			on "$strategy" "$PROXY"
			rm -f die
			hold -t 60s -k 20s -- "${COMMAND_LINE[@]}"
			start "$DLOCK" run -w 30s "$LOCK" -- true
			second=$PID
			wait_until 5 queue 1
			connection_of_holder
			my "KILL $CONNECTION"
			# The door is open now, and the client waits for the end of the first command.
			straight
			contend "$COMMAND"
			wait_until 5 queue 2
			if [[ $fault == kill ]]; then
				keeper_of "$second"
				kill -KILL "$KEEPER"
				join "$second"
			else
				proxy cut
			fi
			holds_for 500 alive "$COMMAND" "$CONTENDER"
			touch die
			met_nobody
			join "$HOLDER"
			if [[ $fault == cut ]]; then
				join "$second"
				equal "$status" 0 "$STRATEGY: the second one"
			fi
			is_free
		done
	done
}

# all_killed TTL: makes a hold of which nothing is left but its row in the table
all_killed() {
	hold -t "$1" --
	keeper_of "$HOLDER"
	guard_of "$HOLDER"
	kill -KILL "$KEEPER" "$HOLDER" "$GUARD" "$COMMAND"
	wait_until 5 ended "$COMMAND"
	now
	KILLED=$NOW
}

@test "all processes of a holder are killed: the next one starts when its lease is over" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		all_killed 4s
		contend "$COMMAND"
		met_nobody
		now
		# A third of the lease may have been over by then, or more on a slow machine.
		took "$((NOW - KILLED))" 1500 7000 "$STRATEGY: until the next one"
		is_free
	done
}

@test "a client that waits for the end of a lost hold is shown, gives up in time, can be interrupted" {
	need jq
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		all_killed 60s
		is_held
		timed "$DLOCK" run -w 1s "$LOCK" -- touch ran
		equal "$status" 124 "$STRATEGY"
		took "$MS" 900 3500 "$STRATEGY: -w 1s"
		start "$DLOCK" run "$LOCK" -- touch ran
		local waiter=$PID
		wait_until 5 queue 1
		"$DLOCK" status "$LOCK" >shown || equal "$?" 1
		has_line shown "$(uname -n) pid $HOLDER"
		kill -INT "$waiter"
		join "$waiter" 3
		equal "$status" 130 "$STRATEGY"
		wait_until 3 queue 0
		# An administrator knows that the command is dead.
		"$DLOCK" break --yes "$LOCK" >broken
		is_free
	done
	[[ ! -e ran ]]
}

@test "server frozen beyond the lease, --on-lost warn: the keeper sleeps when the answer comes" {
	local strategy
	private_mysql
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy" "$P_URI"
		hold -t 2s --on-lost warn --
		keeper_of "$HOLDER"
		kill -STOP "$P_PID"
		wait_until 8 has_line "$HOLDER_ERR" 'lock lost'
		pause 1
		kill -CONT "$P_PID"
		pause 0.2
		idles "$KEEPER"
		kill -TERM "$COMMAND"
		join "$HOLDER"
		equal "$status" 123
	done
}
