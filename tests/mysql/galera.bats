# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease on a Galera cluster of three: one node for all clients, or several.

load ../lib/helpers
load lease

# A cluster takes 10 s to start, so one cluster serves the whole file.
setup_file() {
	need mariadbd rsync
	export GALERA_DIR=$BATS_FILE_TMPDIR/galera
	galera_start "$GALERA_DIR"
	export MYSQL_DIR=$GALERA_DIR/1
	MYSQL=$(mysql_uri "$MYSQL_DIR")
	export MYSQL
	N1=$MYSQL
	N2=$(mysql_uri "$GALERA_DIR/2")
	N3=$(mysql_uri "$GALERA_DIR/3")
	export N1 N2 N3
	"$DLOCK" setup -b "$N1"
}

teardown_file() {
	mysql_stop_three "$GALERA_DIR"
}

# waiters N: N wait, on any node
waiters() {
	[[ $(entries lease "fence = 0 AND expires > $UTC_US") == "$1" ]]
}

@test "check shows the cluster, and that a release wakes a waiter" {
	"$DLOCK" check >found || equal $? 1
	has_line found '^ok +replication +Galera, 3 nodes'
	has_line found '^ok +waiter '
}

@test "a lock that is held on one node is held on all" {
	hold -b "$N1" --
	local node
	for node in "$N1" "$N2" "$N3"; do
		run --separate-stderr -124 "$DLOCK" run -n -b "$node" "$LOCK" -- true
		one_line "held by $(uname -n) pid $HOLDER"
	done
	release
	for node in "$N1" "$N2" "$N3"; do
		run -0 "$DLOCK" run -w 5s -b "$node" "$LOCK" -- true
	done
}

# bats test_tags=more
@test "a release that a conflict interrupts is carried out" {
	hold -b "$N1" --
	mysql_at "$GALERA_DIR/1" "
		CREATE TABLE conflicts (n INT) ENGINE = MyISAM// INSERT INTO conflicts VALUES (1)//
		CREATE TRIGGER conflict BEFORE DELETE ON dlock_entries FOR EACH ROW
			IF (SELECT n FROM conflicts) > 0 THEN
				UPDATE conflicts SET n = n - 1;
				SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213;
			END IF//" --delimiter=//
	release
	equal "$(<"$HOLDER_ERR")" ""
	equal "$(mysql_at "$GALERA_DIR/1" "SELECT n FROM conflicts")" 0
	mysql_at "$GALERA_DIR/1" "DROP TRIGGER conflict; DROP TABLE conflicts"
}

@test "waiters on one node get the lock in order" {
	hold --
	local n waiter=()
	for n in 1 2 3 4; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	release
	for n in "${waiter[@]}"; do
		join "$n" 10
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "1 2 3 4 "
}

# bats test_tags=more
@test "a dead and a hung waiter delay the next by 5 s at most" {
	hold --
	wait_in_line 1 -- true
	local stopped=("$PID") start
	# shellcheck disable=SC2207 # words
	stopped+=($(tree "$PID"))
	wait_in_line 2 -- touch ran
	local next=$PID
	kill -KILL "${stopped[@]}"
	now
	start=$NOW
	release
	join "$next" 8
	now
	equal "$status" 0
	took $((NOW - start)) 0 5000
}

# countdown_on NODE...: 40 processes count down at once, over these nodes
countdown_on() {
	local n all=() nodes=("$@")
	echo 39 >number
	for n in {0..39}; do
		start "$DLOCK" run -b "${nodes[n % $#]}" "$LOCK" -- "$TOP/tests/conformance/countdown" number log
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 70
		equal "$status" 0
	done
	diff <(seq 39 -1 0) log
}

# bats test_tags=more
@test "countdown of 40 processes on one node" {
	countdown_on "$N1"
}

# bats test_tags=more
@test "countdown of 40 processes on three nodes" {
	countdown_on "$N1" "$N2" "$N3"
}

# bats test_tags=more
@test "of three slots, taken on three nodes at once, no more than three are held" {
	local n all=() nodes=("$N1" "$N2" "$N3")
	mkdir slots
	for n in {0..23}; do
		start "$DLOCK" run -b "${nodes[n % 3]}" --slots 3 "$LOCK" -- sh -c 'mkdir "slots/$$"
			ls slots | wc -l >>counts; sleep 0.05; rmdir "slots/$$"'
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 70
		equal "$status" 0
	done
	equal "$(wc -l <counts)" 24
	not grep -qv '^[123]$' counts
}

@test "a node that has lost the cluster refuses, and its holder's command ends in time" {
	hold -b "$N3" -t 4s --
	kill -STOP "$(<"$GALERA_DIR/1/pid")" "$(<"$GALERA_DIR/2/pid")"
	lost 30
	kill -CONT "$(<"$GALERA_DIR/1/pid")" "$(<"$GALERA_DIR/2/pid")"
	wait_until 30 galera_synced "$GALERA_DIR/3"
	wait_until 30 galera_synced "$GALERA_DIR/1"
	DLOCK_BACKEND=$N3 wait_until 10 is_free
}
