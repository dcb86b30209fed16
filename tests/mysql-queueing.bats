# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: --priority, --queue newest and --replace-waiters.

load helpers
load mysql-lease

# in_line N [OPTION]...: starts a waiter, the Nth in line, whose command writes N into order. Adds
# its pid to WAITERS.
in_line() {
	wait_in_line "$1" "${@:2}" -- sh -c 'echo "$0" >>order' "$1"
	WAITERS+=("$PID")
}

# in_queue N: N rows are in the table of waiters, those of waiters without a connection included
in_queue() {
	[[ $(ask "SELECT COUNT(*) FROM dlock_queue WHERE name = '$LOCK'") == "$1" ]]
}

# ran N...: all waiters have run, in this order, and nothing is left of them
ran() {
	local pid
	for pid in "${WAITERS[@]}"; do
		join "$pid" 15
		equal "$status" 0 "status: $(cat "$T"/err.*)"
	done
	equal "$(tr '\n' ' ' <order)" "$* " order
	wait_until 2 only_fences
}

# ---- --priority

@test "--priority: a higher one goes first, equal ones in order of arrival; status shows it" {
	hold --
	in_line 1
	in_line 2 --priority 2
	in_line 3 --priority 9
	in_line 4 --priority 2
	run "$DLOCK" status
	matches "$output" 'waiter 1 \(9\).*waiter 2 \(2\).*waiter 3 \(2\).*waiter 4 '
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].priority]')" '[9,2,2,0]'
	release
	ran 3 2 4 1
}

@test "--priority: a waiter is overtaken no longer when it has waited 10 minutes for each step" {
	hold --
	in_line 1
	in_line 2 --priority 2
	# As if the first one had come 21 minutes ago.
	ask "UPDATE dlock_queue SET turn = turn - 1260000000, since = since - 1260000000 WHERE place = 1"
	in_line 3 --priority 2
	in_line 4 --priority 3
	release
	ran 4 1 2 3
}

@test "--priority: of shared holds and slots, too" {
	hold --slots 2 --
	local first=$HOLDER command=$COMMAND
	hold --slots 2 --
	in_line 1 --slots 2
	in_line 2 --slots 2 --priority 1
	kill -TERM "$command"
	join "$first"
	wait_until 5 has_line order 2
	release
	ran 2 1
}

@test "--priority: a server's clock that was set back leaves the order of arrival" {
	hold --
	in_line 1
	ask "UPDATE dlock_queue SET turn = turn + 3600000000, since = since + 3600000000"
	in_line 2
	in_line 3 --priority 1
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].pid]')" \
		"[${WAITERS[2]},${WAITERS[0]},${WAITERS[1]}]"
}

@test "--priority: reply to a client that gets in line lost: it keeps its place before others" {
	via_proxy
	hold -t 10m --
	in_line 1
	proxy "drop-on INTO dlock_queue"
	start "$DLOCK" run -b "$PROXY?timeout=1s" --priority 5 "$LOCK" -- sh -c 'echo 2 >>order'
	WAITERS+=("$PID")
	# It has a connection for no longer than its timeout.
	wait_until 10 in_queue 2
	proxy pass
	holds_for 1300 alive "$PID"
	wait_until 10 waiters 2
	release
	ran 2 1
}

@test "--priority: forty waiters in the opposite order, more than servers take for a deadlock" {
	hold --
	local n expected=() kills
	kills=$(ask "SHOW GLOBAL STATUS LIKE 'Com_kill'")
	for n in {1..40}; do
		in_line "$n" --priority "$(((n - 1) / 4))"
	done
	for n in {9..0}; do
		expected+=("$((4 * n + 1))" "$((4 * n + 2))" "$((4 * n + 3))" "$((4 * n + 4))")
	done
	# All have looked again, and sleep on the ticket of one that is before them now.
	holds_for 7000 waiters 40
	release
	ran "${expected[@]}"
	equal "$(ask "SHOW GLOBAL STATUS LIKE 'Com_kill'")" "$kills" 'statements KILL'
}

# ---- --queue newest

@test "--queue newest: the last come is first" {
	hold --
	local n
	for n in 1 2 3 4; do
		in_line "$n" --queue newest
	done
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].queue] | unique')" '["newest"]'
	release
	ran 4 3 2 1
}

@test "--queue newest: they change places with one another only" {
	hold --
	in_line 1
	in_line 2 --queue newest
	in_line 3
	in_line 4 --queue newest
	in_line 5 --queue newest --priority 1
	in_line 6
	in_line 7 --queue newest
	release
	ran 5 1 7 3 4 6 2
}

@test "--queue newest: a waiter that was overtaken is behind also when its connection breaks" {
	via_proxy
	hold --
	in_line 1 -b "$PROXY" --queue newest
	in_line 2
	in_line 3 --queue newest
	proxy cut
	wait_until 5 waiters 3
	release
	ran 3 2 1
}

@test "--queue newest: reply to a client that gets in line lost: it comes once" {
	via_proxy
	# No renewal removes the row of the client that comes back.
	hold -t 10m --
	in_line 1 --queue newest
	in_line 2
	proxy "drop-on INTO dlock_queue"
	start "$DLOCK" run -b "$PROXY?timeout=1s" --queue newest "$LOCK" -- sh -c 'echo 3 >>order'
	local third=$PID
	wait_until 10 in_queue 3
	start "$DLOCK" run --queue newest "$LOCK" -- sh -c 'echo 4 >>order'
	WAITERS+=("$PID")
	wait_until 10 in_queue 4
	# The third one has no connection any more.
	wait_until 10 waiters 3
	proxy pass
	wait_until 10 waiters 4
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].pid]')" \
		"[${WAITERS[2]},${WAITERS[1]},$third,${WAITERS[0]}]"
	WAITERS+=("$third")
	release
	ran 4 2 3 1
}

@test "--queue newest: forty waiters get the lock" {
	hold --
	local n
	for n in {1..40}; do
		in_line "$n" --queue newest
	done
	release
	# shellcheck disable=SC2046 # words
	ran $(seq 40 -1 1)
}

# ---- --replace-waiters

# sent_away PID ERR BY [SECONDS]: the waiter ended because the waiter BY has replaced it
sent_away() {
	join "$1" "${4-3}"
	equal "$status" 124
	equal "$(wc -l <"$2")" 1 lines
	has_line "$2" "^dlock: $LOCK: replaced by .* pid $3 \(.*\): sh \(on mysql " || fail "$(<"$2")"
}

# replacing [OPTION]...: starts a waiter with --replace-waiters
replacing() {
	start "$DLOCK" run --replace-waiters "$@" "$LOCK" -- sh -c 'echo "$0" >>order' "replacing $STARTED_COUNT"
}

@test "--replace-waiters: the newest waiter is left, and others keep their places" {
	hold --
	in_line 1
	replacing
	local a=$PID a_err=$ERR b b_err
	wait_until 5 waiters 2
	replacing
	b=$PID b_err=$ERR
	sent_away "$a" "$a_err" "$b"
	wait_until 5 waiters 2
	in_line 3 --priority 1
	replacing --priority 9
	WAITERS+=("$PID")
	sent_away "$b" "$b_err" "$PID"
	wait_until 5 waiters 3
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].replaces_waiters]')" '[true,false,false]'
	alive "$HOLDER"
	release
	ran "replacing $((STARTED_COUNT - 1))" 3 1
}

@test "--replace-waiters: a holder is not sent away, and -E tells who was" {
	hold --replace-waiters --
	replacing -E 7
	local a=$PID
	wait_until 5 waiters 1
	replacing
	WAITERS+=("$PID")
	join "$a" 3
	equal "$status" 7
	holds_for 500 alive "$HOLDER"
	"$DLOCK" status "$LOCK" >/dev/null || equal "$?" 1
	release
	wait_until 5 has_line order replacing
}

@test "--replace-waiters: reply lost as the newer one arrives: it sends away, and stays" {
	via_proxy
	"$DLOCK" setup
	local text
	for text in "INTO dlock_queue" "q.replaces"; do
		rm -f order
		WAITERS=()
		hold --
		replacing
		local a=$PID a_err=$ERR
		wait_until 5 waiters 1
		proxy "drop-on $text"
		start "$DLOCK" run --replace-waiters -b "$PROXY?timeout=1s" "$LOCK" -- sh -c 'echo new >>order'
		WAITERS+=("$PID")
		sent_away "$a" "$a_err" "$PID" 8
		proxy pass
		holds_for 1300 alive "$PID"
		wait_until 3 in_queue 1
		release
		ran new
	done
}

@test "--replace-waiters: whoever comes back after the newer one has run is told so, and does not run" {
	via_proxy
	hold --
	replacing -b "$PROXY"
	local a=$PID a_err=$ERR b
	wait_until 5 waiters 1
	proxy refuse
	proxy cut
	wait_until 5 waiters 0
	replacing
	b=$PID
	wait_until 5 waiters 1
	release
	join "$b" 5
	equal "$status" 0
	equal "$(wc -l <order)" 1
	# The dead place is gone, too.
	wait_until 2 in_queue 0
	proxy pass
	sent_away "$a" "$a_err" "$b" 8
	equal "$(wc -l <order)" 1
	wait_until 2 only_fences
	# Whoever comes later is not concerned.
	"$DLOCK" run --replace-waiters "$LOCK" -- true
}

@test "--replace-waiters: a waiter that was stopped meanwhile is sent away when it goes on" {
	hold --
	replacing
	local a=$PID a_err=$ERR b stopped=("$PID")
	wait_until 5 waiters 1
	# shellcheck disable=SC2207 # words
	stopped+=($(tree "$a"))
	kill -STOP "${stopped[@]}"
	replacing
	b=$PID
	wait_until 5 in_queue 2
	release
	join "$b" 8
	equal "$status" 0
	kill -CONT "${stopped[@]}"
	sent_away "$a" "$a_err" "$b" 8
	equal "$(wc -l <order)" 1
	wait_until 2 only_fences
}

@test "--replace-waiters: the turn of a waiter comes as newer ones arrive: one runs at a time" {
	local round pids pid n
	for round in {1..5}; do
		rm -f order
		hold --
		pids=()
		for n in 1 2 3 4 5 6; do
			start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'mkdir inside && sleep 0.05 &&
				rmdir inside && echo "$0" >>order' "$n"
			pids+=("$PID")
			if ((n == 4)); then
				kill -TERM "$COMMAND"
			fi
		done
		for pid in "${pids[@]}"; do
			join "$pid" 10
			matches "$status" '^(0|124)$' "status, round $round"
		done
		join "$HOLDER"
		[[ ! -e inside && -s order ]]
		equal "$status" 143
	done
	wait_until 2 only_fences
}

# ---- where it cannot be

@test "strategies without a queue of their own refuse the options by name" {
	local strategy
	for strategy in strategy=row strategy=advisory strategy=table strategy=insert dialect=shedlock; do
		refused "$strategy" --priority --priority 1
		refused "$strategy" "--queue newest" --queue newest
		refused "$strategy" --replace-waiters --replace-waiters
	done
}

# refused STRATEGY WHAT OPTION...
refused() {
	run --separate-stderr "$DLOCK" run -b "$MYSQL?$1" "${@:3}" "$LOCK" -- touch ran
	equal "$status" 125
	one_line "mysql: with \?$1 has no $2; .*mysql:.* have it by default$"
	[[ ! -e ran ]]
}
