# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's strategies: a server that is busy, full or refuses, replies that are lost, and connections that
# break while the command lives.

load ../lib/helpers
load strategies

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
		DLOCK_BACKEND+="&timeout=1s"
		run "$DLOCK" run -w 2s "$LOCK" -- touch ran
		matches "$status" '^12[24]$' "$STRATEGY"
		pause 0.2
		not tries "$table" || fail "$STRATEGY: it still tries"
		my "KILL $SESSION"
		join "$PID"
	done
	[[ ! -e ran ]]
}

# ---- what servers answer

# bats test_tags=more
@test "1205: a row that somebody else keeps locked is no holder, and the limit holds" {
	for strategy in lease insert shedlock; do
		on "$strategy"
		local table=dlock_names
		if [[ $strategy == shedlock ]]; then
			table=shedlock
		fi
		"$DLOCK" run "$LOCK" -- true
		locks "$MYSQL_DIR" "START TRANSACTION; SELECT COUNT(*) FROM $table WHERE name = '$LOCK' FOR UPDATE"
		local stranger=$PID
		timed "$DLOCK" run -w 4s "$LOCK" -- touch "ran.$strategy"
		equal "$status" 122 "$STRATEGY"
		took "$MS" 900 8000 "$STRATEGY"
		[[ ! -e ran.$strategy ]]
		# No statement of the client that gave up is left, to take the lock later.
		my "KILL $SESSION"
		join "$stranger"
		run -0 "$DLOCK" run "$LOCK" -- true
	done
}

# bats test_tags=more
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

@test "1040: too many connections is an error; a client that waits already waits on" {
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
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --host=127.0.0.1 --port="$P_PORT" --user="$MYSQL_USER" \
		--password="$MYSQL_PASSWORD" --execute='DO SLEEP(300)'
	return 1
}

refused_1040() {
	run --separate-stderr "$DLOCK" run -n "$LOCK" -- true
	((status == 122)) && [[ $stderr == *'too many connections'* ]]
}

# ---- replies that are lost

# bats test_tags=more
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

# bats test_tags=more
@test "all connections are cut while the lock is held: sessions have lost it, rows go on" {
	via_proxy
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$PROXY"
		hold -t 6s -k 500ms --
		contend "$COMMAND"
		wait_until 5 queue_or_table 1
		proxy cut
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			lost 5
		else
			holds_for 7000 alive "$COMMAND"
			release
		fi
		met_nobody
	done
}

@test "a network that swallows everything: dead in time, and nobody was let in before" {
	via_proxy
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$PROXY"
		hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		DLOCK_BACKEND=${DLOCK_BACKEND/$PROXY/$MYSQL} contend "$COMMAND"
		proxy blackhole
		lost
		met_nobody 15
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

# bats test_tags=deeper
@test "a connection is cut: the next command starts when the first one is dead" {
	local round mode
	via_proxy
	slow_to_die
	for strategy in "${SESSIONS[@]}"; do
		sharing "$strategy"
		for round in $(long_or '1 2 3' 1); do
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

# bats test_tags=more
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

# bats test_tags=more
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

# bats test_tags=more
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

@test "break of a hold whose connection is gone ends no other connection that has its number" {
	local stranger
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		all_killed 60s
		start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --host=127.0.0.1 --port="$(<"$MYSQL_DIR/port")" \
			--user="$MYSQL_USER" --password="$MYSQL_PASSWORD" --skip-column-names --unbuffered \
			--execute='SELECT CONNECTION_ID(); DO SLEEP(300)'
		stranger=$PID
		line "$OUT"
		# As after a restart of the server, which counts its connections from 1.
		my "UPDATE dlock_entries SET conn = $LINE WHERE name = '$LOCK'"
		"$DLOCK" break --yes "$LOCK"
		is_free
		pause 0.3
		alive "$stranger" || fail "$STRATEGY: the stranger's connection was killed"
		kill -TERM "$stranger"
	done
}

# bats test_tags=more
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
