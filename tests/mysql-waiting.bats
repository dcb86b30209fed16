# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: waiters under faults, in order, and at what price.

load helpers
load mysql-lease

# ---- waiting through faults

@test "connection cut while waiting: the place in line is kept" {
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

@test "back in line with a new connection, behind who is asleep by now: its turn comes first" {
	via_proxy
	hold --
	wait_in_line 1 -b "$PROXY" -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	proxy refuse
	proxy cut
	ask "KILL $(ask "SELECT IS_USED_LOCK(CONCAT('dlock-', LEFT(HEX(token), 40))) FROM dlock_queue
		WHERE name = '$LOCK' ORDER BY id LIMIT 1")"
	wait_until 2 waiters 1
	# the second one sleeps on the holder's ticket
	wait_until 2 sleepers 1
	proxy pass
	wait_until 3 waiters 2
	wait_until 2 sleepers 2
	release
	join "$second" 15
	join "$first"
	equal "$(tr '\n' ' ' <order)" "1 2 "
	wait_until 2 only_fences
}

# sleepers N: so many wait for the ticket of who has the lock
sleepers() {
	[[ $(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND
		INFO LIKE '%GET_LOCK(@target%'") == "$1" ]]
}

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

@test "server restarted while waiting: every waiter gets the lock, in order" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n waiter=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	mysql_stop "$P_DIR"
	mysql_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
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
	ask 'DELETE FROM dlock_queue'
	release
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 3
	wait_until 2 only_fences
}

@test "tables lost while waiting: every waiter gets the lock" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n waiter=()
	for n in 1 2; do
		wait_in_line "$n" -- sh -c 'echo x >>ran'
		waiter+=("$PID")
	done
	ask 'DROP TABLE dlock_locks, dlock_queue, dlock_holders'
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(wc -l <ran)" 2
	# who held it finds out at its next renewal, or when it gives back
	kill -TERM "$COMMAND"
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
	# no ghost in line delays the next
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	local next=$PID
	wait_until 5 waiters 1
	release
	join "$next" 3
}

@test "the wait limit holds while the server cannot be reached" {
	tool listener
	timed "$DLOCK" run -w 500ms -b "mysql://u:p@127.0.0.1:$TOOL_PORT/db" "$LOCK" -- true
	matches "$status" '^(122|124)$'
	between "$MS" 400 2000
}

# ---- fairness and its price

@test "dead waiters are skipped at once" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- touch dead
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	wait_in_line 4 -- touch ran
	local living=$PID start
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	now
	start=$NOW
	release
	join "$living" 5
	now
	# 1 s for each is what the contract allows
	between $((NOW - start)) 0 3000
	[[ -e ran && ! -e dead ]]
	wait_until 2 only_fences
}

@test "dead waiters leave nothing, when nobody else comes" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -- true
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	kill -KILL "${dead[@]}"
	wait_until 5 ended "${dead[@]}"
	wait_until 8 waiters 0
	release
	wait_until 2 only_fences
}

# hung_waiter FAMILY: two waiters, of whom the first hangs while the lock is given back
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
	kill -STOP "${stopped[@]}"
	now
	start=$NOW
	release
	join "$next" 8
	now
	between $((NOW - start)) 0 6000
	kill -CONT "${stopped[@]}"
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	wait_until 2 only_fences
}

@test "a hung waiter delays the next by 5 s at most, and still gets its turn" {
	hung_waiter all
}

@test "a waiter whose supervisor alone hangs delays the next by 5 s at most" {
	hung_waiter one
}

# somebody has found that the one whose turn it is does not come, and gives it its last second
last_second() {
	[[ $(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST, dlock_locks
		WHERE name = '$LOCK' AND state = 'User lock' AND info LIKE 'SET @woken%' AND
			time_ms < ($UTC_US - freed) / 1000 - 900") == 1 ]]
}

@test "a hung waiter that dies just before it is passed over: the next one gets the lock" {
	hold --
	wait_in_line 1 -- touch hung
	local hung=("$PID")
	# shellcheck disable=SC2207 # words
	hung+=($(tree "$PID"))
	wait_in_line 2 -- touch next
	local next=$PID err=$ERR
	kill -STOP "${hung[@]}"
	release
	wait_until 8 last_second
	kill -KILL "${hung[@]}"
	join "$next" 5
	equal "$(<"$err")" ""
	equal "$status" 0
	[[ -e next && ! -e hung ]]
	wait_until 2 only_fences
}

@test "a hung waiter alone in line: who does not wait gets the lock soon" {
	hold --
	wait_in_line 1 -- true
	local hung=("$PID")
	# shellcheck disable=SC2207 # words
	hung+=($(tree "$PID"))
	kill -STOP "${hung[@]}"
	release
	wait_until 5 is_free
	kill -CONT "${hung[@]}"
	join "${hung[0]}" 8
	equal "$status" 0
}

@test "forty in line, more than servers take for a deadlock: in order, each woken once" {
	hold --
	local n waiter=() errors
	for n in {1..40}; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	errors=$(ask "SHOW GLOBAL STATUS LIKE 'Com_kill'")
	release
	for n in "${waiter[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	diff <(seq 40) order
	# nobody had to be interrupted: each slept on the ticket of the one before
	equal "$(ask "SHOW GLOBAL STATUS LIKE 'Com_kill'")" "$errors" 'statements KILL'
	wait_until 2 only_fences
}

@test "who waits for a slot is woken, and its answers stay whole" {
	local n round pids busy=()
	# a server that is late makes for the wrong moments
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

# requests: packets from dlock that the server has taken, by what it sleeps in
requests() {
	VALUE=$(ask "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS
		WHERE VARIABLE_NAME = 'COM_DELETE'")
}

@test "a waiter costs one request in 5 s at most" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	"$DLOCK" acquire -t 10m "$LOCK" >token
	local n before
	for n in {1..10}; do
		wait_in_line "$n" -- true
	done
	# each look removes the place of who has the lock: one DELETE
	requests
	before=$VALUE
	holds_for 11000 waiters 10
	requests
	# in 11 s three of each can be seen
	between $((VALUE - before)) 10 30 requests
	"$DLOCK" release "$LOCK" "$(<token)"
}

@test "100 get in line at once: each has a place of its own" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n
	for n in {1..100}; do
		start "$DLOCK" run "$LOCK" -- true
	done
	wait_until 20 waiters 100
	equal "$(ask 'SELECT COUNT(DISTINCT place), MAX(place) FROM dlock_queue')" "100	100" places
}

@test "who hangs as it gets in line keeps the next one from it for a second, no longer" {
	hold --
	start mariadb --no-defaults --socket="$MYSQL_DIR/sock" --user=root -e \
		"SELECT GET_LOCK(CONCAT('dlock-line-', SHA1('$LOCK')), 0), SLEEP(20)"
	wait_until 5 taken
	start "$DLOCK" run -b "$DLOCK_BACKEND?timeout=20s" "$LOCK" -- true
	holds_for 500 not in_queue
	wait_until 3 in_queue
	taken
	release
	join "$PID" 5
	equal "$status" 0
	wait_until 2 only_fences
}

taken() {
	[[ $(ask "SELECT IS_USED_LOCK(CONCAT('dlock-line-', SHA1('$LOCK'))) > 0") == 1 ]]
}

in_queue() {
	[[ $(ask "SELECT COUNT(*) FROM dlock_queue WHERE name = '$LOCK'") == 1 ]]
}

@test "one release wakes one waiter: few requests a hand-over" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold --
	local n waiter=() before
	for n in {1..30}; do
		start "$DLOCK" run "$LOCK" -- true
		waiter+=("$PID")
	done
	wait_until 10 waiters 30
	ask "SET GLOBAL log_output = 'FILE', general_log_file = '$P_DIR/requests', general_log = 1"
	release
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	ask 'SET GLOBAL general_log = 0'
	# a line for each packet, and for each end of a connection
	n=$(grep -Ec "[[:space:]](Query|Quit)[[:space:]]" "$P_DIR/requests")
	between "$n" 60 $((31 * 6)) requests
}

@test "100 at once: no deadlock, and no row that anybody waits for long" {
	private_mysql
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	local n all=()
	echo 100 >number
	for n in {0..100}; do
		start "$DLOCK" run "$LOCK" -- "$BATS_TEST_DIRNAME/conformance/countdown" number log
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	diff <(seq 100 -1 0) log
	equal "$(ask "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'")" 0 deadlocks
	equal "$(ask "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_timeouts'")" 0 timeouts
	[[ $(ask 'SHOW ENGINE INNODB STATUS') != *"LATEST DETECTED DEADLOCK"* ]]
	wait_until 2 only_fences
}

@test "100 at once in three slots, and shared and exclusive ones mixed: no deadlock" {
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
	equal "$(ask "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'")" 0 deadlocks
	wait_until 2 only_fences
}
