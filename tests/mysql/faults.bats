# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: the guarantees of a holder under faults.

load ../lib/helpers
load lease

# ---- fail-stop before expiry

# witness [OPTION]...: holds $LOCK with a command that ignores TERM and logs signs of life
witness() {
	hold "$@" -- "$TOOLS/witness" -i -l "$T/log"
}

# dead_in_time: the witness is dead, and gave no sign of life after the end of the lease
# that the server has noted. Its clock is the one of the tests' machine; the witness
# counts since boot.
dead_in_time() {
	local sign wall boot
	ended "$COMMAND"
	# A lock that was released since has no end any more.
	lock_field 'expires DIV 1000'
	now
	boot=$NOW wall=$((${EPOCHREALTIME/./} / 1000))
	read -r sign _ < <(tail -n 1 log)
	[[ -z $VALUE ]] || ((sign + wall - boot <= VALUE + 10)) ||
		fail "lived until $((sign + wall - boot)), the lease ended at $VALUE"
}

@test "server frozen: the tree is dead before the lease ends" {
	private_mysql
	SERVER=$P_DIR
	witness -b "$P_URI" -t 4s -k 500ms
	kill -STOP "$P_PID"
	lost
	kill -CONT "$P_PID"
	dead_in_time
	has_line log ' TERM$'
	DLOCK_BACKEND=$P_URI wait_until 6 is_free
}

# bats test_tags=more
@test "server gone: the tree is dead before the lease ends" {
	private_mysql
	SERVER=$P_DIR
	witness -b "$P_URI" -t 4s
	server_stop "$P_DIR"
	lost
	mysql_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	dead_in_time
}

@test "server frozen for a moment: the command runs on" {
	private_mysql
	hold -b "$P_URI?timeout=1s" -t 6s -k 1s --
	kill -STOP "$P_PID"
	holds_for 2300 alive "$COMMAND"
	kill -CONT "$P_PID"
	holds_for 5000 alive "$COMMAND"
	release
}

@test "server restarted: the lease stands, the command runs on" {
	private_mysql
	SERVER=$P_DIR
	hold -b "$P_URI" -t 24s --
	local fence=$FENCE
	restart_mysql
	holds_for 500 alive "$COMMAND"
	lock_field "fence, expires > $UTC_US"
	equal "$VALUE" "$fence"$'\t'1
	# The keeper has connected again, and renews.
	lock_field expires
	local expires=$VALUE
	wait_until 12 later_than "$expires"
	release
	wait_until 2 only_fences
}

later_than() {
	lock_field expires
	((VALUE > $1))
}

# bats test_tags=more
@test "connection killed by the server, again and again: the lease stands" {
	hold -t 6s --
	local n
	for n in {1..15}; do
		kill_connections
		holds_for 300 is_held
	done
	alive "$COMMAND"
	release
	wait_until 2 only_fences
}

# bats test_tags=more
@test "connection killed while holding: the next waiter is still woken" {
	hold --
	wait_in_line 1 -- touch ran
	local waiter=$PID
	kill_connections
	wait_until 5 waiters 1
	# The waiter was woken, and did not only see it at its next look.
	release
	join "$waiter" 3
	equal "$status" 0
	wait_until 2 only_fences
}

@test "keeper stopped: the tree is dead before the lease ends" {
	witness -t 4s
	keeper_of "$HOLDER"
	kill -STOP "$KEEPER"
	lost
	dead_in_time
	wait_until 6 is_free
}

# bats test_tags=more
@test "keeper killed: the tree is dead before the lease ends" {
	witness -t 4s
	keeper_of "$HOLDER"
	kill -KILL "$KEEPER"
	lost
	dead_in_time
	wait_until 6 is_free
}

@test "row taken by another client: the command ends at once, and that client's lease stands" {
	hold -t 3s --
	ask "UPDATE dlock_entries SET token = REPEAT('x', 32) WHERE name = '$LOCK'"
	lost 5
	lock_field "token = REPEAT('x', 32)"
	equal "$VALUE" 1
	ask "DELETE FROM dlock_entries WHERE name = '$LOCK'"
}

@test "row gone: the command ends at once, and a renewal takes nothing" {
	hold -t 3s --
	ask "DELETE FROM dlock_entries WHERE name = '$LOCK'"
	lost 5
	lock_field 'COUNT(*)'
	equal "$VALUE" 0
}

# bats test_tags=more
@test "a lease that has ended is not renewed, so that its holder sees the loss" {
	local token
	token=$("$DLOCK" acquire -t 1s "$LOCK")
	wait_until 5 only_expired
	run --separate-stderr -123 "$DLOCK" renew "$LOCK" "$token"
	run --separate-stderr -123 "$DLOCK" verify "$LOCK" "$token"
	run --separate-stderr -123 "$DLOCK" release "$LOCK" "$token"
}

only_expired() {
	lock_field "expires < $UTC_US"
	((VALUE == 1))
}

# ---- answers that are lost

@test "reply lost at every request of a run: it runs once, or reports why not, and nothing stays" {
	via_proxy
	"$DLOCK" setup
	loses_replies 1 2 3 4 5 6
}

# bats test_tags=more
@test "reply to the commit of a slot lost: one slot is taken, not two" {
	via_proxy
	"$DLOCK" setup
	"$DLOCK" run --slots 2 "$LOCK" -- true
	local n
	for n in 1 2 3 4; do
		proxy "cut-after $n"
		run --separate-stderr "$DLOCK" run -t 2s -b "$PROXY" --slots 2 "$LOCK" -- sh -c '
			"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root -BNe \
				"SELECT COUNT(*) FROM dlock_entries WHERE name = '"'$LOCK'"' AND fence > 0" dlock >held'
		matches "$status" '^(0|122)$' "status with the answer to request $n lost: $stderr"
		if ((status == 0)); then
			equal "$(<held)" 1 "slots taken"
		fi
		proxy pass
		wait_until 4 only_expired_holders
	done
}

only_expired_holders() {
	[[ $(entries lease "fence > 0 AND expires > $UTC_US") == 0 ]]
}

# bats test_tags=more
@test "reply to a client that enters the queue lost: it has one place, and holds in its turn" {
	via_proxy
	"$DLOCK" setup
	# No renewal removes the row of a client that comes back.
	hold -t 10m --
	local n behind=()
	for n in 1 2; do
		proxy "drop-on ON DUPLICATE KEY UPDATE conn"
		start "$DLOCK" run -b "$PROXY?timeout=1s" "$LOCK" -- sh -c 'echo x >>ran'
		behind+=("$PID")
		# It has a connection for no longer than its timeout.
		wait_until 10 places "$n"
		proxy pass
		# This is longer than it waits for that answer.
		holds_for 1300 alive "$PID"
		wait_until 10 waiters "$n"
		places "$n"
	done
	release
	for n in "${behind[@]}"; do
		join "$n" 10
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 2 runs
	wait_until 2 only_fences
}

# places N: N rows are in the table of waiters, those of waiters without a connection included
places() {
	[[ $(entries lease 'fence = 0') == "$1" ]]
}

@test "reply to a waiter that takes its turn lost: it holds, and its lease is a new one" {
	via_proxy
	"$DLOCK" setup
	hold --
	start "$DLOCK" run -t 3s -b "$PROXY" "$LOCK" -- "$TOOLS/witness" -i -l "$T/log"
	local waiter=$PID
	wait_until 5 waiters 1
	proxy "cut-on SET fence = IF"
	release
	wait_until 3 has_line log ' pid '
	COMMAND=$(sed -n 's/^[0-9]* pid //p' log)
	proxy_stat cut
	equal "$VALUE" 1 "answers lost"
	waiters 0
	# The waiter counts from the lease that the server has: it renews, or is dead in time.
	proxy refuse
	proxy cut
	join "$waiter" 8
	equal "$status" 123
	dead_in_time
}

# bats test_tags=more
@test "reply to a nested acquire lost: it is asked again, or the command reports it" {
	via_proxy
	local n token
	for n in 1 2 3; do
		token=$("$DLOCK" acquire "$LOCK")
		proxy "cut-after $((n + 1))"
		DLOCK_NAME=$LOCK DLOCK_TOKEN=$token DLOCK_BACKEND=$PROXY run --separate-stderr "$DLOCK" acquire "$LOCK"
		proxy pass
		((status == 122)) || equal "$status $output" "0 $token+1" "answer $n lost"
		"$DLOCK" release "$LOCK" "$token"
	done
}

@test "network black hole: the tree is dead before the lease ends" {
	via_proxy
	witness -b "$PROXY" -t 4s
	proxy blackhole
	lost
	dead_in_time
	wait_until 6 is_free
}

# bats test_tags=more
@test "network slow: the lock is held, renewed and released" {
	via_proxy
	proxy hold 100
	hold -b "$PROXY" -t 6s --
	holds_for 5500 is_held
	release
	wait_until 2 only_fences
}

# ---- the server refuses

@test "read_only switched on: a holder reports it and is dead in time, a waiter goes on" {
	private_mysql
	SERVER=$P_DIR
	witness -b "$P_URI" -t 3s
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	local waiter=$PID err=$ERR
	wait_until 5 waiters 1
	ask 'SET GLOBAL read_only = 1'
	lost
	dead_in_time
	has_line "$HOLDER_ERR" read-only
	alive "$waiter"
	[[ ! -e ran ]]
	refused read-only "$P_URI"
	ask 'SET GLOBAL read_only = 0'
	join "$waiter" 15
	equal "$status" 0 "the waiter: $(<"$err")"
	[[ -e ran ]]
	DLOCK_BACKEND=$P_URI wait_until 6 is_free
}

@test "too many connections: the server counts as unreachable; a waiter waits on and gets the lock" {
	private_mysql --max-connections=10
	SERVER=$P_DIR
	hold -b "$P_URI" --
	wait_in_line 1 -b "$P_URI" -- touch ran
	local waiter=$PID pids=()
	wait_until 8 fill
	refused '[Tt]oo many connections' "$P_URI"
	# The waiter loses its connection, and cannot have another one.
	kill_one_waiter
	holds_for 1000 alive "$waiter"
	kill -TERM "${pids[@]}"
	wait_until 5 ended "${pids[@]}"
	wait_until 8 waiters 1
	release
	join "$waiter" 5
	equal "$status" 0
	[[ -e ran ]]
}

# fill: takes one more connection; true when there is no room left. How often that takes differs,
# because a connection that is just being closed still counts.
fill() {
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" -u dlock -p"$MYSQL_PASSWORD" -e 'SELECT SLEEP(300)'
	pids+=("$PID")
	is_full && pause 0.2 && is_full
}

is_full() {
	run "$DLOCK" status -b "$P_URI" "$LOCK"
	((status == 122))
}

# kill_one_waiter: uses the one connection more that the server keeps for root
kill_one_waiter() {
	ask "KILL $(ask "SELECT conn FROM dlock_entries WHERE name = '$LOCK' AND fence = 0")"
}

@test "a row that another session has locked is no holder: 122 with the reason" {
	"$DLOCK" run "$LOCK" -- true
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" -nu root dlock -e "
		START TRANSACTION; SELECT * FROM dlock_names WHERE name = '$LOCK' FOR UPDATE; SELECT SLEEP(12)"
	local other=$PID
	wait_until 5 has_line "$OUT" "$LOCK"
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- true
	one_line 'other sessions get in the way .1205: '
	kill "$other"
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a row that another session has locked for longer than one try waits: a release frees the lock" {
	local other options
	"$DLOCK" run "$LOCK" -- true
	for options in --wait=none --slots=3; do
		hold "$options" --
		start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" -nu root dlock -e "
			START TRANSACTION; SELECT * FROM dlock_entries WHERE name = '$LOCK' FOR UPDATE; SELECT SLEEP(1.6)"
		other=$PID
		wait_until 5 has_line "$OUT" "$LOCK"
		release
		equal "$(<"$HOLDER_ERR")" '' "$options"
		join "$other"
		wait_until 1 only_fences
	done
}

@test "tables that another session has locked: the lock is not obtained in time, with the reason" {
	# Sessions of the tests before may still end.
	wait_until 20 is_free
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" -nu root dlock -e "
		LOCK TABLES dlock_entries WRITE; SELECT 'locked'; SELECT SLEEP(4)"
	local other=$PID
	wait_until 5 has_line "$OUT" locked
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- true
	one_line 'other sessions get in the way'
	join "$other"
	wait_until 5 is_free
}

@test "tables that are not as dlock makes them are refused" {
	private_mysql
	SERVER=$P_DIR
	ask 'CREATE TABLE dlock_entries (name INT)'
	refused 'not as dlock makes it' "$P_URI"
	ask 'DROP TABLE dlock_entries'
	run -0 "$DLOCK" run -b "$P_URI" "$LOCK" -- true
}

@test "a backup's FLUSH TABLES WITH READ LOCK is no holder, on each strategy; a holder is one" {
	local strategy
	private_mysql
	for strategy in strategy={lease,insert,row,advisory} dialect=shedlock; do
		"$DLOCK" run -b "$P_URI?$strategy" "$LOCK" -- true
	done
	hold -b "$P_URI" -t 300s --
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$P_DIR/sock" -nu root dlock -e "
		FLUSH TABLES WITH READ LOCK; SELECT CONCAT('KILL ', CONNECTION_ID()); DO SLEEP(300)"
	wait_until 5 has_line "$OUT" "^KILL"
	local unlock
	unlock=$(grep ^KILL "$OUT")
	for strategy in strategy={lease,insert,row,advisory} dialect=shedlock; do
		run --separate-stderr -122 "$DLOCK" run -n -E 0 -b "$P_URI?$strategy" free -- touch ran
		one_line 'other sessions get in the way'
	done
	[[ ! -e ran ]]
	run --separate-stderr -124 "$DLOCK" run -n -b "$P_URI" "$LOCK" -- true
	run --separate-stderr -0 "$DLOCK" run -n --if-down run -b "$P_URI" free -- touch ran
	[[ -e ran ]]
	pmy "$unlock"
	release
}

@test "the password changes, in its file and the server: a holder logs in with the new one" {
	private_mysql
	pmy "CREATE USER jobs@'127.0.0.1' IDENTIFIED BY 'old'; GRANT ALL ON dlock.* TO jobs@'127.0.0.1'"
	(umask 077 && echo old >secret)
	hold -t 6s -b "mysql://jobs@127.0.0.1:$P_PORT/dlock?password-file=$T/secret" --
	echo new >secret
	pmy "ALTER USER jobs@'127.0.0.1' IDENTIFIED BY 'new'"
	pmy "$(pmy "SELECT CONCAT('KILL ', ID) FROM information_schema.PROCESSLIST WHERE USER = 'jobs'")"
	holds_for 6500 alive "$COMMAND"
	release
}

# ---- settings of the server that would do harm

@test "hostile defaults: autocommit off, SERIALIZABLE, strange sql_mode and time zone, short timeouts" {
	private_mysql --autocommit=0 --transaction-isolation=SERIALIZABLE --wait-timeout=1 \
		--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,NO_ZERO_DATE \
		--default-time-zone=+05:45 --innodb-lock-wait-timeout=1 --max-statement-time=1 \
		--character-set-server=ucs2 --collation-server=ucs2_general_ci --lower-case-table-names=1 \
		--completion-type=RELEASE
	SERVER=$P_DIR
	local before after n order=()
	before=${EPOCHREALTIME/./}
	hold -b "$P_URI" -t 3s --
	after=${EPOCHREALTIME/./}
	between "$FENCE" $((before - 1000)) $((after + 1000)) fence
	for n in 1 2 3; do
		wait_in_line "$n" -b "$P_URI" -- sh -c 'echo "$0" >>order' "$n"
		order+=("$PID")
	done
	holds_for 5000 alive "$COMMAND"
	waiters 3
	release
	for n in "${order[@]}"; do
		join "$n" 8
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	DLOCK_BACKEND=$P_URI
	run -0 "$DLOCK" run --slots 2 "$LOCK" -- "$DLOCK" run --slots 2 "$LOCK" -- true
	wait_until 2 only_fences
}

@test "hostile defaults: limits of rows, safe updates, no decimals: status is whole, a release wakes" {
	local strategy pids
	private_mysql --skip-character-set-client-handshake
	pmy "SET GLOBAL sql_select_limit = 1; SET GLOBAL max_join_size = 1; SET GLOBAL sql_big_selects = 0;
		SET GLOBAL sql_safe_updates = 1; SET GLOBAL div_precision_increment = 0"
	shows() {
		(($("$DLOCK" status -b "$P_URI?$strategy" "$LOCK" | tail -n +2 | wc -l) == $1))
	}
	for strategy in strategy={lease,insert,row,advisory}; do
		hold -b "$P_URI?$strategy" --
		pids=()
		for _ in 1 2 3; do
			start "$DLOCK" run -w 60s -b "$P_URI?$strategy" "$LOCK" -- true
			pids+=("$PID")
		done
		wait_until 10 shows 4
		release
		for PID in "${pids[@]}"; do
			join "$PID" 20
			equal "$status" 0 "$strategy"
		done
	done
}

@test "the end of a lease heeds no change of time zone or daylight saving time" {
	hold -t 20s --
	lock_field "(expires - $UTC_US) DIV 1000"
	between "$VALUE" 10000 20000
	ask "SET GLOBAL time_zone = '-11:00'"
	is_held
	local other=0
	"$DLOCK" status "$LOCK" >shown || other=$?
	equal "$other" 1
	ask "SET GLOBAL time_zone = SYSTEM"
	release
}

# ---- what others can see

@test "the token is in no table, no process list and no log of the server" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	ask "SET GLOBAL log_output = 'FILE', general_log_file = '$P_DIR/general', general_log = 1"
	hold --
	wait_in_line 1 -- true
	local waiter=$PID
	ask 'SHOW FULL PROCESSLIST' >list
	"$DLOCK" verify "$LOCK" "$TOKEN"
	"$DLOCK" renew "$LOCK" "$TOKEN"
	mariadb-dump --no-defaults --socket="$P_DIR/sock" -u root --hex-blob dlock >dump
	grep -q dlock_entries dump
	grep -qi "$(printf %s "$TOKEN" | sha256sum | cut -c1-64)" dump
	not grep -qi -e "$TOKEN" -e "$(printf %s "$TOKEN" | od -An -tx1 | tr -d ' \n')" list dump "$P_DIR/general"
	release
	join "$waiter"
}

@test "the command has no descriptor of the connection" {
	run -0 "$DLOCK" run "$LOCK" -- ls -l /proc/self/fd
	not grep -q socket <<<"$output"
}

# bats test_tags=more
@test "what is stored of the holder names it, and no argument" {
	hold -- sh -c 'exec sleep 300' Sesame8
	lock_field owner
	matches "$VALUE" "^ttl=30000&pid=$HOLDER&since=[0-9]+&host=$(uname -n)&user=[a-z]+&cmd=sh$"
	release
}
