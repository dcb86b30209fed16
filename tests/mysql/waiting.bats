# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: waiters under faults, in order, and at what price.

load ../lib/helpers
load lease

# ---- waiting through faults

@test "connection cut while waiting: the place in the queue is kept" {
	via_proxy
	hold --
	wait_in_line 1 -b "$PROXY" -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	proxy cut
	wait_until 3 waiters 2
	holds_for 1000 waiters 2
	release
	join "$second" 15
	join "$first"
	equal "$(tr '\n' ' ' <order)" "1 2 "
	wait_until 2 only_fences
}

@test "connection cut between entering the queue and the sleep: the release wakes the waiter" {
	via_proxy
	hold --
	proxy "cut-on n LEFT JOIN"
	wait_in_line 1 -b "$PROXY" -- true
	local waiter=$PID start
	wait_until 3 sleepers 1
	now
	start=$NOW
	release
	join "$waiter" 15
	now
	equal "$status" 0
	took $((NOW - start)) 0 2000
}

# in_front: adds 100 entries of clients that never have a turn, behind the holder's
in_front() {
	local digits
	digits="SELECT 0 n$(printf ' UNION SELECT %s' {1..9})"
	ask "INSERT INTO dlock_entries SELECT strategy, name, place + 1 + 10 * a.n + b.n,
		CONCAT('other', a.n, b.n), 0, 0, expires, 0, home, '' FROM dlock_entries, ($digits) a, ($digits) b
		WHERE name = '$LOCK'"
}

# last: prints until when the last waiter counts as alive
last() {
	ask "SELECT expires FROM dlock_entries WHERE name = '$LOCK' AND fence = 0 ORDER BY place DESC LIMIT 1"
}

@test "behind 100 others a waiter only notes that it is alive; behind 99 it reads the queue, and has its turn" {
	hold -t 60s --
	in_front
	start "$DLOCK" run -t 2s "$LOCK" -- touch ran
	wait_until 5 sleepers 1
	rests_far ask
}

# bats test_tags=more
@test "behind 100 others a waiter keeps its place through lost answers, connections and servers" {
	private_mysql
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold -t 3m --
	in_front
	start "$DLOCK" run -b "$PROXY" -t 2s "$LOCK" -- touch ran
	wait_until 5 sleepers 1
	keeps_far ask 'n SET @far' kill_connections restart_mysql
}

# reads: prints how many rows the server of this test has read on its way through an index
reads() {
	ask "SHOW GLOBAL STATUS LIKE 'Handler_read_next'" | cut -f 2
}

# bats test_tags=more
@test "a newcomer does not read a long queue, also when an answer is lost" {
	local before n
	private_mysql
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold -t 3m --
	in_front
	# Ten times as long, and nobody knows whether they are there.
	ask "UPDATE dlock_entries SET home = 'elsewhere' WHERE name = '$LOCK' AND fence = 0;
		INSERT INTO dlock_entries SELECT strategy, name, place + 100 * n.i, CONCAT(token, '-', n.i), 0, 0, expires, 0,
		home, '' FROM dlock_entries, ($(printf 'SELECT %s i' 1; printf ' UNION SELECT %s' {2..9})) n
		WHERE name = '$LOCK' AND fence = 0"
	before=$(reads)
	start "$DLOCK" run "$LOCK" -- touch ran
	wait_until 5 asleep 1
	# It lists them once, for who may look at it.
	between $(($(reads) - before)) 1000 1500 'rows read'
	kill "$PID"
	join "$PID"
	# The first two are those of a login, after which it gives up, and the last one is that of its sleep.
	for n in 3 4 5; do
		proxy "cut-after $n"
		start "$DLOCK" run -b "$PROXY" "$LOCK" -- touch ran
		wait_until 9 sleepers 1
		equal "$(entries lease 'fence = 0')" 1001 "entries with the answer to request $n lost"
		kill "$PID"
		join "$PID"
		proxy pass
		wait_until 5 eval '(($(entries lease "fence = 0") == 1000))'
	done
	ask "DELETE FROM dlock_entries WHERE name = '$LOCK' AND token LIKE 'other%'"
	[[ ! -e ran ]]
	release
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a waiter whose entry was removed while its connection was broken is in the queue again" {
	local first second
	via_proxy
	hold -t 3s --
	wait_in_line 1 -b "$PROXY" -v -- sh -c 'echo 1 >>order'
	first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	second=$PID
	proxy refuse
	proxy cut
	ask "DELETE FROM dlock_entries WHERE name = '$LOCK' AND fence = 0 ORDER BY place LIMIT 1"
	waiters 1
	proxy pass
	wait_until 10 sleepers 2
	release
	join "$second" 15
	join "$first"
	equal "$(tr '\n' ' ' <order)" "2 1 "
	wait_until 2 only_fences
}

# bats test_tags=more
@test "waiters' connections killed by the server: all keep their places" {
	hold --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	kill_connections
	wait_until 5 waiters 3
	holds_for 500 waiters 3
	release
	for n in "${waiter[@]}"; do
		join "$n" 10
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a waiter's statement killed by the server: it waits on, and gets the lock" {
	hold --
	wait_in_line 1 -- touch ran
	local behind=$PID id
	for _ in 1 2 3; do
		for id in $(connections); do
			ask "KILL QUERY $id"
		done
		wait_until 3 waiters 1
	done
	[[ ! -e ran ]]
	release
	join "$behind" 5
	equal "$status" 0
	[[ -e ran ]]
	wait_until 2 only_fences
}

# Oracle's server interrupts a connection, and MariaDB one statement. So there a waiter that is awake
# waits for those who want to interrupt it, with a statement alone in its packet. On both, no waiter is
# interrupted while another client is at that.
# bats test_tags=more
@test "a late interrupt ends no request of a waiter but its sleep" {
	hold --
	wait_in_line 1 -- true
	local behind=$PID waiter number
	wait_until 3 sleepers 1
	waiter=$(ask "SELECT conn FROM dlock_entries WHERE name = '$LOCK' AND fence = 0")
	if [[ $MYSQL_CLIENT == mariadb ]]; then
		number=$(ask "SELECT QUERY_ID FROM information_schema.PROCESSLIST WHERE ID = $waiter")
		ask "KILL QUERY $waiter"
		# The first sleep may still be listed.
		wait_until 3 later_query "$waiter" "$number"
		wait_until 3 sleepers 1
		run ask "KILL QUERY ID $number"
		matches "$output" 'Unknown query id'
		# Its sleeps may be stopped for 2 s, for which a release waits at most.
		start_sql "SELECT GET_LOCK('dlock interrupts', 1)"
		kill "$COMMAND"
		holds_for 800 sleepers 1
		end_sql
	else
		start_sql "START TRANSACTION; SELECT place FROM dlock_entries WHERE strategy = 'lease' AND
			name = '$LOCK' AND conn = $waiter FOR UPDATE"
		ask "KILL QUERY $waiter"
		wait_until 3 runs "$waiter" 'SELECT COUNT%FOR UPDATE%'
		ask "KILL QUERY $waiter"
		end_sql
		wait_until 3 sleepers 1
		waiter=$(ask "SELECT conn FROM dlock_entries WHERE name = '$LOCK' AND fence = 0")
		start_sql "START TRANSACTION; SELECT place FROM dlock_entries WHERE strategy = 'lease' AND
			name = '$LOCK' AND conn = $waiter FOR UPDATE"
		kill "$COMMAND"
		holds_for 500 sleepers 1
		end_sql
	fi
	join "$behind" 5
	equal "$status" 0
	wait_until 2 only_fences
}

# later_query CONNECTION NUMBER: it is in a query after this one
later_query() {
	[[ $(ask "SELECT QUERY_ID > $2 FROM information_schema.PROCESSLIST WHERE ID = $1") == 1 ]]
}

# runs CONNECTION PATTERN: it is in a statement that is like this
runs() {
	[[ $(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST
		WHERE ID = $1 AND INFO LIKE '$2'") == 1 ]]
}

# start_sql SQL: runs SQL in a session that lasts until end_sql, or for a minute
start_sql() {
	mkfifo "$T/sql"
	"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root --unbuffered \
		--batch --skip-column-names "$MYSQL_DATABASE" <"$T/sql" >"$T/sql.out" 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	exec 9>"$T/sql"
	echo "$1; SELECT 'begun';" >&9
	wait_until 5 grep -q begun "$T/sql.out"
}

end_sql() {
	echo "COMMIT; SELECT 'ended';" >&9
	exec 9>&-
	wait_until 5 grep -q ended "$T/sql.out"
	rm "$T/sql" "$T/sql.out"
}

# bats test_tags=more
@test "requests of others that take long are not a server that hangs" {
	local strategy waiter
	for strategy in lease insert row advisory; do
		"$DLOCK" setup -b "$MYSQL?strategy=$strategy"
		"$DLOCK" run -b "$MYSQL?strategy=$strategy" "$LOCK" -- true
		hold -b "$MYSQL?strategy=$strategy" --
		start_sql "START TRANSACTION; SELECT fence FROM dlock_names WHERE name = '$LOCK' FOR UPDATE"
		run --separate-stderr -124 "$DLOCK" run -n -b "$MYSQL?strategy=$strategy&timeout=1s" \
			"$LOCK" -- true
		start "$DLOCK" run -b "$MYSQL?strategy=$strategy&timeout=1s" "$LOCK" -- true
		waiter=$PID
		holds_for 2500 alive "$waiter"
		end_sql
		release
		join "$waiter" 12
		equal "$status" 0 "$strategy"
	done
}

@test "server restarted while waiting: every waiter gets the lock, in order" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	restart_mysql
	wait_until 10 waiters 3
	release
	for n in "${waiter[@]}"; do
		join "$n" 10
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
}

@test "queue lost while waiting: every waiter gets the lock" {
	hold --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo x >>ran'
		waiter+=("$PID")
	done
	ask 'DELETE FROM dlock_entries WHERE fence = 0'
	release
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 3
	wait_until 2 only_fences
}

# bats test_tags=more
@test "tables lost while waiting: every waiter gets the lock" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n waiter=()
	for n in 1 2; do
		wait_in_line "$n" -- sh -c 'echo x >>ran'
		waiter+=("$PID")
	done
	ask 'DROP TABLE dlock_names, dlock_entries'
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 2
	# The holder finds out at its next renewal, or when it releases.
	kill -TERM "$COMMAND" || true
	join "$HOLDER" 15
	equal "$status" 123
}

@test "TERM ends dlock at once: connecting, waiting, server frozen" {
	tool listener
	start "$DLOCK" run -b "mysql://u:p@127.0.0.1:$TOOL_PORT/db" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143

	tool listener ''
	start "$DLOCK" run -b "mysql://u:p@127.0.0.1:$TOOL_PORT/db" "$LOCK" -- true
	keeper_of "$PID"
	holds_for 200 alive "$PID"
	kill -INT "$PID"
	join "$PID" 2
	equal "$status" 130

	private_mysql
	SERVER=$P_DIR
	hold -b "$P_URI" --
	wait_in_line 1 -b "$P_URI" -- true
	kill -STOP "$P_PID"
	kill -TERM "$PID"
	join "$PID" 4
	equal "$status" 143
	kill -CONT "$P_PID"
	# No dead place in line delays the next client.
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	local next=$PID
	# The server notices that the first one is gone when that one's sleep is over.
	wait_until 13 waiters 1
	release
	join "$next" 3
}

# bats test_tags=more
@test "the wait limit holds while the server cannot be reached" {
	tool listener
	timed "$DLOCK" run -w 500ms -b "mysql://u:p@127.0.0.1:$TOOL_PORT/db" "$LOCK" -- true
	matches "$status" '^(122|124)$'
	took "$MS" 400 2000
}

# ---- fairness and its price

@test "a waiter behind one of another account: -v says that no release wakes it, and how often it checks" {
	local first
	my "CREATE USER other@'127.0.0.1'; GRANT ALL ON $MYSQL_DATABASE.* TO other@'127.0.0.1'"
	hold --
	wait_in_line 1 -v -- true
	first=$PID
	not grep -q 'no release wakes' "$ERR"
	wait_in_line 2 -v -b "${MYSQL/$MYSQL_USER:$MYSQL_PASSWORD@/other@}" -- true
	wait_until 3 has_line "$ERR" 'waiting.*; no release wakes this waiter: it checks every 0.6s$'
	release
	join "$first" 10
	equal "$status" 0
	join "$PID" 10
	equal "$status" 0
	my "DROP USER other@'127.0.0.1'"
}

@test "dead waiters are skipped at once" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- touch dead
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	wait_in_line 4 -- touch ran
	passes_dead 1000 "$PID" "${dead[@]}"
	wait_until 2 only_fences
}

@test "a waiter that has just died delays the next one by 1.5 s at most" {
	hold --
	wait_in_line 1 -- touch dead
	local dead=("$PID")
	# shellcheck disable=SC2207 # words
	dead+=($(tree "$PID"))
	wait_in_line 2 -- touch ran
	wait_until 2 sleepers 2
	passes_dead 1500 "$PID" "${dead[@]}"
	wait_until 2 only_fences
}

@test "dead waiters leave nothing, also when nobody else comes" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- true
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	release
	run -0 "$DLOCK" run -w 3s "$LOCK" -- true
	wait_until 2 only_fences
}

# bats test_tags=more
@test "waiters that give up leave no entry and no sleep, also when many do at the same moment" {
	local round n waiter
	hold --
	for round in 1 2 3; do
		waiter=()
		for n in {1..10}; do
			wait_in_line "$n" -- true
			waiter+=("$PID")
		done
		wait_until 2 sleepers 10
		kill -TERM "${waiter[@]}"
		wait_until 5 ended "${waiter[@]}"
		equal "$(entries lease 1)" 1 "entries in round $round"
	done
	# The server itself ends a sleep without a client in 5 s.
	wait_until 7 asleep 0
	wait_in_line 1 -- true
	wait_until 2 sleepers 1
	kill -TERM "$PID"
	join "$PID" 2
	equal "$(entries lease 1)" 1 entries
	wait_until 2 asleep 0
}

# bats test_tags=more
@test "ten locks that are released at the same moment: each waiter gets its lock without a delay" {
	local round n start waiter
	for round in 1 2 3; do
		rm -f go held-*
		waiter=()
		for n in {1..10}; do
			start "$DLOCK" run "$LOCK-$n" -- \
				sh -c 'touch "held-$0"; until [ -e go ]; do sleep 0.02; done' "$n"
		done
		for n in {1..10}; do
			wait_until 5 test -e "held-$n"
			start "$DLOCK" run "$LOCK-$n" -- true
			waiter+=("$PID")
		done
		wait_until 5 asleep 10
		now
		start=$NOW
		touch go
		for n in "${waiter[@]}"; do
			join "$n" 5
			equal "$status" 0
		done
		now
		took $((NOW - start)) 0 1500
	done
}

@test "a hung waiter delays the next by 3 s, also when a minimum hold ends" {
	lapses_past_hung
}

# hung_waiter FAMILY MS: starts two waiters, of which the first hangs while the lock is released
hung_waiter() {
	hold --
	wait_in_line 1 -- sh -c 'echo hung >>order'
	local hung=$PID stopped=("$PID") start
	if [[ $1 == all ]]; then
		# shellcheck disable=SC2207 # words
		stopped+=($(tree "$hung"))
	fi
	wait_in_line 2 -- sh -c 'echo next >>order'
	local next=$PID
	wait_until 2 sleepers 2
	kill -STOP "${stopped[@]}"
	now
	start=$NOW
	release
	join "$next" 8
	now
	took $((NOW - start)) 0 "$2"
	kill -CONT "${stopped[@]}"
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	wait_until 2 only_fences
}

@test "a hung waiter delays the next by 1.5 s at most, and still gets its turn" {
	hung_waiter all 2000
}

# bats test_tags=more
@test "a waiter that gives up while it watches one that hangs: the next one watches" {
	local stopped watcher next start
	hold --
	wait_in_line 1 -- true
	# shellcheck disable=SC2207 # words
	stopped=("$PID" $(tree "$PID"))
	wait_in_line 2 -- true
	watcher=$PID
	wait_in_line 3 -- true
	next=$PID
	wait_until 2 sleepers 3
	kill -STOP "${stopped[@]}"
	release
	# The watcher has been woken, and waits for the end of 0.9 s.
	pause 0.3
	now
	start=$NOW
	kill -TERM "$watcher"
	join "$watcher" 2
	join "$next" 12
	now
	equal "$status" 0
	took $((NOW - start)) 0 2500
	kill -CONT "${stopped[@]}"
	join "${stopped[0]}" 8
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a waiter whose supervisor alone hangs delays the next by 5 s at most" {
	hung_waiter one 6000
}

# bats test_tags=more
@test "a hung waiter that goes on after the next one has passed it is at the end of the queue" {
	hold --
	wait_in_line 1 -- sh -c 'echo hung >>order'
	local hung=$PID stopped=("$PID") next last
	# shellcheck disable=SC2207 # words
	stopped+=($(tree "$hung"))
	wait_in_line 2 -- sh -c 'echo next >>order; until [ -e go ]; do sleep 0.05; done'
	next=$PID
	wait_in_line 3 -- sh -c 'echo last >>order'
	last=$PID
	wait_until 2 sleepers 3
	kill -STOP "${stopped[@]}"
	release
	wait_until 8 has_line order next
	wait_until 2 waiters 1
	kill -CONT "${stopped[@]}"
	wait_until 3 sleepers 2
	touch go
	join "$last" 8
	join "$hung" 8
	join "$next"
	equal "$(tr '\n' ' ' <order)" "next last hung "
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a hung waiter that dies just before it is passed over: the next one gets the lock" {
	hold --
	wait_in_line 1 -- touch hung
	local hung=("$PID")
	# shellcheck disable=SC2207 # words
	hung+=($(tree "$PID"))
	wait_in_line 2 -- touch next
	local next=$PID err=$ERR
	wait_until 2 sleepers 2
	kill -STOP "${hung[@]}"
	release
	pause 0.8
	kill -KILL "${hung[@]}"
	join "$next" 5
	equal "$(<"$err")" ""
	equal "$status" 0
	[[ -e next && ! -e hung ]]
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a hung waiter, and a row that another session has locked: a newcomer waits, and gets a slot" {
	hold --slots 1 --
	wait_in_line 1 --slots 1 -- true
	local hung=("$PID")
	# shellcheck disable=SC2207 # words
	hung+=($(tree "$PID"))
	kill -STOP "${hung[@]}"
	release
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" -nu root dlock -e "
		START TRANSACTION; SELECT * FROM dlock_names WHERE name = '$LOCK' FOR UPDATE; SELECT SLEEP(5)"
	local other=$PID
	wait_until 5 has_line "$OUT" "$LOCK"
	# It is the newcomer's turn when the hung waiter has not come for 0.9 s.
	pause 1.2
	run --separate-stderr -0 "$DLOCK" run -w 15s --slots 1 "$LOCK" -- touch next
	equal "$stderr" ""
	[[ -e next ]]
	join "$other"
	kill -KILL "${hung[@]}"
}

# hang_first: the only waiter hangs when the lock is released. Sets hung to its processes.
hang_first() {
	hold --
	wait_in_line 1 -- true
	# shellcheck disable=SC2207 # words
	hung=("$PID" $(tree "$PID"))
	kill -STOP "${hung[@]}"
	release
}

# bats test_tags=more
@test "a hung waiter alone in the queue: a client that does not wait gets the lock when it is taken for dead" {
	local hung
	hang_first
	wait_until 40 is_free
	kill -CONT "${hung[@]}"
	join "${hung[0]}" 8
	equal "$status" 0
}

# bats test_tags=more
@test "a hung waiter, and a slow network: a client that does not wait ends soon" {
	local hung
	hang_first
	via_proxy
	proxy "hold 350"
	timed "$DLOCK" run -b "$PROXY" -n "$LOCK" -- touch ran
	equal "$status" 124
	took "$MS" 0 6000
	[[ ! -e ran ]]
	kill -KILL "${hung[@]}"
}

@test "a waiter reports soon that --min-hold keeps the lock, and gets it when that ends" {
	local start
	now
	start=$NOW
	kept_while_waiting
	now
	took $((NOW - start)) 4000 7000
}

# bats test_tags=deeper
@test "many waiters get the lock in order" {
	hold --
	local n most waiter=()
	most=$(long_or 40 12)
	for ((n = 1; n <= most; n++)); do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	release
	for n in "${waiter[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	diff <(seq "$most") order
	wait_until 2 only_fences
}

# bats test_tags=more
@test "a release that comes just before a waiter falls asleep is not missed" {
	local n start
	for n in {1..40}; do
		start "$DLOCK" run "$LOCK" -- true
		run -0 "$DLOCK" run "$LOCK" -- true
		now
		start=$NOW
		join "$PID" 5
		now
		took $((NOW - start)) 0 2000
	done
}

@test "a lease that becomes shorter just before a waiter falls asleep: it gets the lock when that ends" {
	local token start
	token=$("$DLOCK" acquire -t 60s "$LOCK")
	via_proxy
	proxy "hold 500"
	wait_in_line 1 -b "$PROXY" -- true
	# The waiter does not know yet that it is in line.
	run -0 "$DLOCK" renew -t 1s "$LOCK" "$token"
	now
	start=$NOW
	join "$PID" 20
	now
	equal "$status" 0
	took $((NOW - start)) 500 6000
}

@test "a waiter takes a lock with a short lease and its keeper is killed: the next one gets it within 6 s" {
	local killed next start
	hold -t 2s --
	wait_in_line 1 -t 2s -- sh -c 'touch taken; exec sleep 300'
	killed=$PID
	wait_in_line 2 -t 2s -- true
	next=$PID
	wait_until 2 sleepers 2
	release
	wait_until 5 test -e taken
	keeper_of "$killed"
	kill -KILL "$KEEPER"
	now
	start=$NOW
	join "$next" 15
	now
	equal "$status" 0
	took $((NOW - start)) 500 6000
	join "$killed"
}

# bats test_tags=more
@test "a waiter for a slot is woken, and its answers stay whole" {
	local n round pids busy=()
	# On a busy machine the server is late, and wakes waiters at the wrong moments.
	for n in 1 2; do
		start sh -c 'while :; do :; done'
		busy+=("$PID")
	done
	for round in {1..12}; do
		pids=()
		for n in {1..12}; do
			start "$DLOCK" run --slots 3 "$LOCK-$round" -- sleep 0.02
			pids+=("$PID")
		done
		for n in "${pids[@]}"; do
			join "$n" 30
			equal "$status" 0
		done
	done
	kill "${busy[@]}"
}

# sent: prints how many requests of dlock the proxy has handed on, a line for each packet
sent() {
	grep -Ec 'SELECT|DELETE|KILL|ROLLBACK' "$T/requests"
}

# bats test_tags=more
@test "a waiter costs one request in 5 s at most" {
	private_mysql
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$PROXY
	"$DLOCK" acquire -t 10m "$LOCK" >token
	local n before
	for n in {1..10}; do
		wait_in_line "$n" -- true
	done
	wait_until 2 sleepers 10
	before=$(sent)
	sleep 11
	# In 11 s each waiter looks once or twice, with two requests, or three at Oracle's server.
	n=$(($(sent) - before))
	between "$n" 16 60 requests
	"$DLOCK" release "$LOCK" "$(<token)"
}

# bats test_tags=more
@test "100 clients enter the queue at once, and each has a place of its own" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n
	for n in {1..100}; do
		start "$DLOCK" run "$LOCK" -- true
	done
	wait_until 20 waiters 100
	equal "$(ask 'SELECT COUNT(DISTINCT place) FROM dlock_entries WHERE fence = 0')" 100 places
}

@test "one release wakes one waiter, and a handoff takes few requests" {
	private_mysql
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$PROXY
	hold --
	local n waiter=() before
	for n in {1..30}; do
		start "$DLOCK" run "$LOCK" -- true
		waiter+=("$PID")
	done
	wait_until 10 sleepers 30
	before=$(sent)
	release
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	# Three of the releaser, and one of the waiter, or two at Oracle's server; more if the waiter is slow,
	# because then the next one is woken, too.
	between $(($(sent) - before)) 60 $((31 * 7)) requests
}

@test "a run of a free lock takes two requests, and so does a refusal" {
	private_mysql
	via_proxy "$P_PORT"
	DLOCK_BACKEND=$PROXY
	local before
	"$DLOCK" setup
	"$DLOCK" run "$LOCK" -- true
	before=$(sent)
	"$DLOCK" run "$LOCK" -- true
	equal $(($(sent) - before)) 2 'requests of a run'
	hold --
	equal $(($(sent) - before)) 3 'requests of a run, and of one that holds'
	run -124 "$DLOCK" run -n "$LOCK" -- true
	equal $(($(sent) - before)) 5 'requests of two runs, and of one that was refused'
}

# bats test_tags=more
@test "100 clients at once cause no deadlock" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	local n all=()
	echo 100 >number
	for n in {0..100}; do
		start "$DLOCK" run "$LOCK" -- "$TOP/tests/conformance/countdown" number log
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	diff <(seq 100 -1 0) log
	equal "$(ask "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'")" 0 deadlocks
	[[ $(ask 'SHOW ENGINE INNODB STATUS') != *"LATEST DETECTED DEADLOCK"* ]]
	wait_until 2 only_fences
}

# bats test_tags=more
@test "100 clients at once in three slots, or shared and exclusive: all get the lock" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	local n all=() options
	mkdir slots
	for n in {1..60}; do
		start "$DLOCK" run --slots 3 "$LOCK" -- sh -c 'mkdir "slots/$$"
			ls slots | wc -l >>counts; rmdir "slots/$$"'
		all+=("$PID")
	done
	for n in {1..40}; do
		options=(-s)
		if ((n % 8 == 0)); then
			options=()
		fi
		start "$DLOCK" run "${options[@]}" "$LOCK-b" -- true
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	equal "$(wc -l <counts)" 60
	not grep -qv '^[123]$' counts
	wait_until 2 only_fences
}

@test "a server that is gone while dlock waits: -v and the end of the wait report for how long" {
	private_mysql
	gone_while_waiting "mysql 127\.0\.0\.1:$P_PORT/$MYSQL_DATABASE" server_stop "$P_DIR"
}

# bats test_tags=more
@test "a server that hangs while dlock sleeps in a statement: the waiter notices and reports it" {
	local strategy pids=() errs=() i
	private_mysql
	for strategy in row advisory; do
		hold -b "$P_URI?strategy=$strategy" --
		start "$DLOCK" run -b "$P_URI?strategy=$strategy&timeout=2s" -v -w 22s "$LOCK" -- true
		pids+=("$PID") errs+=("$ERR")
		wait_until 5 has_line "$ERR" "waiting.*, held by .*\(on mysql "
	done
	kill -STOP "$P_PID"
	for i in 0 1; do
		wait_until 21 has_line "${errs[i]}" 'trying again$'
	done
	for i in 0 1; do
		join "${pids[i]}" 15
		equal "$status" 124
		has_line "${errs[i]}" "the server has not been reachable for [0-9.]+[a-z0-9]*; last seen held by "
	done
	kill -CONT "$P_PID"
}
