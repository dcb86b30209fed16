# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Waiting for a lease on PostgreSQL: who is woken, who is passed, and what it costs.

load ../lib/helpers
load postgres

# sent: prints how many requests went through the proxy
sent() {
	grep -Ec 'SELECT|SET TRANSACTION' "$T/requests"
}

# family: prints the pids of the dlock that was started last
family() {
	echo "$PID" "$(tree "$PID")"
}

@test "a waiter that has died is skipped at once, and leaves nothing" {
	hold --
	wait_in_line 1 -- touch dead
	local dead
	dead=$(family)
	wait_in_line 2 -- touch ran
	# shellcheck disable=SC2086 # words
	passes_dead 1500 "$PID" $dead
	wait_until 2 only_fences
}

@test "a hung waiter delays the next by 1.5 s at most, and still gets its turn" {
	hold --
	wait_in_line 1 -- sh -c 'echo hung >>order'
	local hung=$PID stopped start next
	stopped=$(family)
	wait_in_line 2 -- sh -c 'echo next >>order'
	next=$PID
	# shellcheck disable=SC2086 # words
	kill -STOP $stopped
	# It has sent a request less than 0.9 s ago.
	pause 1
	now
	start=$NOW
	release
	join "$next" 8
	now
	took $((NOW - start)) 0 2000
	# shellcheck disable=SC2086 # words
	kill -CONT $stopped
	join "$hung" 8
	equal "$(tr '\n' ' ' <order)" "next hung "
	wait_until 2 only_fences
}

@test "a hung waiter delays the next by 3 s, also when a minimum hold ends" {
	lapses_past_hung
}

@test "a wake-up that comes with the answer to another request is not lost" {
	via_proxy
	hold --
	# Each answer is late, so that the release comes between a request of the waiter and its answer.
	proxy hold 300
	start "$DLOCK" run -b "$PROXY" "$LOCK" -- true
	wait_until 10 waiters 1
	local start
	now
	start=$NOW
	release
	join "$PID" 10
	now
	equal "$status" 0
	took $((NOW - start)) 0 3500
}

@test "a run of a free lock takes two requests; one release wakes two waiters, whatever their number" {
	private_postgres
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$PROXY
	local n before waiter=()
	"$DLOCK" setup
	before=$(sent)
	"$DLOCK" run "$LOCK" -- true
	equal $(($(sent) - before)) 2 'requests of a run'
	hold --
	for n in {1..20}; do
		start "$DLOCK" run "$LOCK" -- true
		waiter+=("$PID")
	done
	wait_until 20 waiters 20
	pause 1
	before=$(sent)
	release
	for n in "${waiter[@]}"; do
		join "$n" 20
		equal "$status" 0
	done
	# The release, the one that takes the lock, and two of the one that watches it.
	between $(($(sent) - before)) 40 $((21 * 4 + 20)) requests
}

# last: prints until when the last waiter counts as alive, in us
last() {
	pg "SELECT (extract(epoch FROM expires) * 1000000)::bigint FROM dlock_entries
		WHERE name = '$LOCK' AND fence = 0 ORDER BY place DESC LIMIT 1"
}

# in_front: adds 100 entries of clients that never have a turn, and of which the server does not know whether
# they are there, behind the holder's
in_front() {
	pg "INSERT INTO dlock_entries SELECT strategy, name, 'other' || n, place + n, 0, 0, expires, 0, '-infinity', ''
		FROM dlock_entries, generate_series(1, 100) n WHERE name = '$LOCK'" >/dev/null
}

# all_in_line: 101 wait
all_in_line() {
	(($(entries lease "fence = 0") == 101))
}

@test "behind 100 others a waiter only notes that it is alive; behind 99 it reads the queue, and has its turn" {
	hold -t 60s --
	in_front
	start "$DLOCK" run "$LOCK" -- touch ran
	wait_until 5 all_in_line
	rests_far pg
}

# bats test_tags=more
@test "behind 100 others a waiter keeps its place through lost answers, connections and servers" {
	private_postgres
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$P_URI
	hold -t 3m --
	in_front
	start "$DLOCK" run -b "$PROXY" "$LOCK" -- touch ran
	wait_until 5 all_in_line
	keeps_far pg 'dlock_entries e SET expires = clock' cut_connections restart_postgres
}

# bats test_tags=more
@test "a waiter costs a request in 5 s at most" {
	private_postgres
	via_proxy "$P_PORT"
	SERVER=$P_DIR DLOCK_BACKEND=$PROXY
	"$DLOCK" acquire -t 10m "$LOCK" >token
	local n before
	for n in {1..10}; do
		wait_in_line "$n" -- true
	done
	pause 1
	before=$(sent)
	sleep 11
	between $(($(sent) - before)) 10 30 requests
	"$DLOCK" release "$LOCK" "$(<token)"
}

# bats test_tags=more
@test "forty waiters get the lock in order; as many at once in three slots all get it" {
	local n waiter=()
	hold --
	for n in {1..40}; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		waiter+=("$PID")
	done
	release
	for n in "${waiter[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	equal "$(<order)" "$(seq 40)"
	waiter=()
	for n in {1..40}; do
		start "$DLOCK" run --slots 3 "$LOCK" -- sleep 0.05
		waiter+=("$PID")
	done
	for n in "${waiter[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	wait_until 2 only_fences
}
