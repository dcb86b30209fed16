# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# MySQL's lease: --replace-waiters.

load ../lib/helpers
load lease

# in_line N [OPTION]...: starts a waiter, the Nth in line, whose command writes N into order. Adds
# its pid to WAITERS.
in_line() {
	wait_in_line "$1" "${@:2}" -- sh -c 'echo "$0" >>order' "$1"
	WAITERS+=("$PID")
}

# in_queue N: N rows are in the table of waiters, those of waiters without a connection included
in_queue() {
	[[ $(entries lease 'fence = 0') == "$1" ]]
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
	in_line 3
	replacing
	WAITERS+=("$PID")
	sent_away "$b" "$b_err" "$PID"
	wait_until 5 waiters 3
	equal "$("$DLOCK" status --json | jq -c '[.waiters[].replaces_waiters]')" '[false,false,true]'
	alive "$HOLDER"
	release
	ran 1 3 "replacing $((STARTED_COUNT - 1))"
}

@test "--replace-waiters: a holder is not replaced, and a replaced waiter exits as -E says" {
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

# bats test_tags=more
@test "--replace-waiters: reply lost as the newer waiter arrives: it replaces the older one, and stays" {
	via_proxy
	"$DLOCK" setup
	rm -f order
	WAITERS=()
	hold --
	replacing
	local a=$PID a_err=$ERR
	wait_until 5 waiters 1
	proxy "drop-on SET newer ="
	start "$DLOCK" run --replace-waiters -b "$PROXY?timeout=1s" "$LOCK" -- sh -c 'echo new >>order'
	WAITERS+=("$PID")
	sent_away "$a" "$a_err" "$PID" 14
	proxy pass
	holds_for 1300 alive "$PID"
	wait_until 3 in_queue 1
	release
	ran new
}

# bats test_tags=more
@test "--replace-waiters: a waiter that comes back after the newer one has run does not run" {
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
	proxy pass
	sent_away "$a" "$a_err" "$b" 8
	equal "$(wc -l <order)" 1
	wait_until 2 only_fences
	# A later waiter is not concerned.
	"$DLOCK" run --replace-waiters "$LOCK" -- true
}

# bats test_tags=more
@test "--replace-waiters: a waiter that was stopped is replaced when it goes on" {
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

# bats test_tags=more
@test "--replace-waiters: a waiter gets the lock as newer ones arrive: one runs at a time" {
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

@test "strategies without a queue of their own refuse it by name" {
	local strategy
	for strategy in strategy=row strategy=advisory strategy=table strategy=insert dialect=shedlock; do
		run --separate-stderr -125 "$DLOCK" run -b "$MYSQL?$strategy" --replace-waiters "$LOCK" -- touch ran
		one_line "mysql: with \?$strategy has no --replace-waiters; .*mysql:.* have it by default$"
	done
	[[ ! -e ran ]]
}
