# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL: what becomes of a hold and of a waiter when something breaks. Who judges is a
# contender that waits for the same lock: it never gets in while the command still runs.

load ../lib/helpers
load strategies

# ---- processes of dlock

@test "kill -9 of the keeper: nobody gets in while the command runs, which is dead in time" {
	for strategy in "${ALL[@]}"; do
		on "$strategy"
		hold -t 5s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
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
		hold -t 8s --
		connection_of_holder
		keeper_of "$HOLDER"
		kill -KILL "$KEEPER"
		wait_until 5 ended "$KEEPER"
		contend "$COMMAND"
		holds_for 1500 there "$CONNECTION"
		alive "$COMMAND"
		release
		wait_until 3 not there "$CONNECTION"
		met_nobody 12
	done
}

# bats test_tags=more
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
		hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		keeper_of "$HOLDER"
		contend "$COMMAND"
		kill -STOP "$KEEPER"
		lost
		met_nobody
	done
}

# bats test_tags=more
@test "dlock stopped, guard stopped: the lock stays held, or the command is dead in time" {
	for strategy in "${SESSIONS[@]}"; do
		for role in HOLDER GUARD; do
			on "$strategy"
			hold -t 4s -k 500ms --
			guard_of "$HOLDER"
			contend "$COMMAND"
			kill -STOP "${!role}"
			holds_for 5000 alive "$CONTENDER"
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

# bats test_tags=more
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

@test "a waiter whose connection is killed gets back into the queue, and the lock" {
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

# bats test_tags=more
@test "a waiter waits through a restart of the server" {
	private_mysql
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy" "$P_URI"
		hold -t 10s --
		contend "$COMMAND"
		wait_until 5 queue 1
		restart_mysql
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

# bats test_tags=more
@test "KILL of the connection of a holder with a minimum hold: the next one need not await the lease" {
	for strategy in "${SESSIONS[@]}"; do
		on "$strategy"
		hold -t 30s --min-hold 60s --
		connection_of_holder
		my "KILL $CONNECTION"
		lost
		run -0 "$DLOCK" run -w 10s "$LOCK" -- true
	done
}

# bats test_tags=more
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

# interrupts SECONDS STATEMENT: from now on the server gets KILL QUERY every SECONDS for a connection of
# dlock that runs what is like STATEMENT. Some come between two statements of a packet, whose rest the
# server then drops without an error. Sets INTERRUPTS to the connection that sends them; the table
# interrupted has a row for each.
interrupts() {
	my "CREATE TABLE interrupted (number BIGINT);
	CREATE PROCEDURE interrupts() BEGIN
		DECLARE number BIGINT;
		DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
		WHILE TRUE DO
			SET number = NULL;
			SELECT ID INTO number FROM information_schema.PROCESSLIST WHERE USER = '$MYSQL_USER'
				AND COALESCE(INFO, '') LIKE '$2' ORDER BY RAND() LIMIT 1;
			IF number THEN
				SET @interrupt = CONCAT('KILL QUERY ', number);
				PREPARE interrupt FROM @interrupt;
				EXECUTE interrupt;
				INSERT INTO interrupted VALUES (number);
			END IF;
			DO SLEEP($1);
		END WHILE;
	END//" --delimiter=//
	start "$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$MYSQL_DIR/sock" --user=root --unbuffered \
		--skip-column-names "$MYSQL_DATABASE" --execute='SELECT CONNECTION_ID(); CALL interrupts()'
	line "$OUT" 5
	INTERRUPTS=$LINE
	INTERRUPTER=$PID
}

# interrupts_end: and no more
interrupts_end() {
	my "KILL $INTERRUPTS; DROP PROCEDURE interrupts; DROP TABLE interrupted"
	join "$INTERRUPTER"
}

# bats test_tags=more
@test "KILL QUERY at any moment: never two are inside, and no lock is left" {
	local n
	for strategy in lease "${SESSIONS[@]}"; do
		on "$strategy"
		"$DLOCK" run "$LOCK" -- true
		interrupts 0.001 %
		local runs=()
		for n in 1 2 3 4; do
			start sh -c 'for n in 1 2 3 4; do
				"$DLOCK" run -t 3s -w 20s "$LOCK" -- sh -c "flock -n -E 99 inside sleep 0.01
					[ \$? != 99 ] || echo overlap >>overlaps
					echo ran >>ran"
				echo "$?" >>codes
			done'
			runs+=("$PID")
		done
		for n in "${runs[@]}"; do
			join "$n" 100
		done
		interrupts_end
		[[ ! -e overlaps ]] || fail "$STRATEGY: two were inside"
		[[ -s ran ]] || fail "$STRATEGY: nobody was inside: $(sort codes | uniq -c)"
		not grep -Evq '^(0|12[234])$' codes
		rm -f ran codes
		wait_until 5 is_free
		run -0 "$DLOCK" run -w 5s "$LOCK" -- true
	done
}

@test "KILL QUERY as a connection begins: what follows has its settings" {
	for strategy in lease row; do
		on "$strategy"
		"$DLOCK" run "$LOCK" -- true
		interrupts 0.01 'SET @slow%'
		LD_PRELOAD=$BUILD/tests/preload/slow_settings.so run -0 "$DLOCK" run -w 5s "$LOCK" -- true
		# The statement may be listed again before its end.
		between "$(my 'SELECT COUNT(*) FROM interrupted')" 1 9 interrupts
		interrupts_end
		equal "$output" ''
	done
}

# bats test_tags=more
@test "server frozen: the command is dead in time, and nobody was let in before" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		contend "$COMMAND"
		wait_until 5 queue_or_table 1
		kill -STOP "$P_PID"
		lost
		kill -CONT "$P_PID"
		met_nobody
	done
}

# bats test_tags=more
@test "server frozen for a moment: the command runs on" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		export DLOCK_BACKEND="$DLOCK_BACKEND&timeout=1s"
		hold -t 6s -k 1s --
		kill -STOP "$P_PID"
		holds_for 2300 alive "$COMMAND"
		kill -CONT "$P_PID"
		holds_for 4500 alive "$COMMAND"
		is_held
		release
		is_free
	done
}

# bats test_tags=more
@test "server restarted: sessions have lost the lock and report it, rows have not" {
	private_mysql
	for strategy in "${ALL[@]}"; do
		on "$strategy" "$P_URI"
		# A lease of rows is longer than a server may take to start.
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			hold -t 5s --
		else
			hold -t 60s --
		fi
		restart_mysql
		if [[ ${SESSIONS[*]} == *$strategy* ]]; then
			lost
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
		hold -t 3s -k 500ms -- "$TOOLS/witness" -i -l "$T/log.$strategy"
		server_stop "$P_DIR"
		lost
	done
}
