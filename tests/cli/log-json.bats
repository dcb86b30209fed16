# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# --log json: every line that dlock itself writes to standard error is an object, whose keys and
# events are those of dlock-output(5).

load ../lib/helpers
load ../redis/redis

prepare() {
	need jq
	MAN=$TOP/man/dlock-output.5
	# A name that text could not hold without quotes.
	ODD="$LOCK \"a\\b\" é"
}

# of_man TABLE: the keys of the first table about --log json in dlock-output(5), or the events of its
# second
of_man() {
	awk -v table="$1" '
		/^\.S[sh] / { on = ($0 == ".Ss Lines of --log json"); n = 0 }
		on && /^\.Bl / { n++ }
		on && n == table && /^\.It Cm / { print }' "$MAN" |
		sed 's/^\.It Cm //; s/ , /\n/g' | sort
}

# objects FILE: each line is an object with the documented keys and one of the documented events
objects() {
	[[ -s $1 ]] || fail "nothing was logged"
	while IFS= read -r line; do
		equal "$(jq -r 'keys[]' <<<"$line" | sort)" "$(of_man 1)" "keys of $line"
		of_man 2 | grep -qx "$(jq -r .event <<<"$line")" || fail "event of $line"
	done <"$1"
	jq -se 'all(.[]; (.time | test("^[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z$")) and
		(.level | . == "info" or . == "warning" or . == "error") and
		(.pid > 0) and (.message | length > 0))' "$1" >/dev/null ||
		fail "not as documented: $(<"$1")"
}

# logged STATUS ARG...: runs dlock with --log json, which must exit with STATUS; into ./log
logged() {
	local wanted=$1 command=$2
	shift 2
	status=0
	"$DLOCK" "$command" --log json "$@" 2>log >out 3>&- || status=$?
	equal "$status" "$wanted" "status of dlock $command --log json $*"
	objects log
}

# events FILE: on one line
events() {
	jq -sr '[.[].event] | join(" ")' "$1"
}

# is FILTER: it is true of the array of all lines in ./log
is() {
	jq -se "$1" log >/dev/null || fail "not so: $1: $(<log)"
}

logs_event() {
	grep -q "\"event\":\"$2\"" "$1"
}

@test "dlock-output.5 has every event, and no other" {
	sed -n 's/^#define EVENT_[A-Z_]* "\(.*\)".*/\1/p' "$TOP/src/engine/request.h" |
		sort >known
	[[ -s known ]]
	equal "$(of_man 2)" "$(<known)" events
}

@test "the steps of a run: the same fence, process and status that the command knows" {
	local uri
	for uri in "$FILE" "$REDIS"; do
		logged 3 run -b "$uri" "$ODD" -- sh -c 'echo "$$ $DLOCK_FENCE"; exit 3'
		equal "$(events log)" "acquired started ended released"
		read -r pid fence <out
		is "all(.[]; .fence == $fence and .level == \"info\" and .waited_ms >= 0)"
		is "[.[].command_pid] == [null, null, $pid, $pid]"
		is '[.[].status] == [null, null, 3, 3] and all(.[]; .signal == null)'
		is ".[3].held_ms >= .[0].held_ms and (.[0].backend | startswith(\"${uri%%:*}\"))"
		[[ $(jq -r .name log | sort -u) == "$ODD" ]] || fail "name: $(<log)"
	done
}

# bats test_tags=more
@test "a command that a signal has killed" {
	logged 137 run "$LOCK" -- sh -c 'kill -KILL $$'
	is '.[2] | .event == "ended" and .signal == 9 and .status == null'
}

@test "with --contain the command's number is that outside of the namespace" {
	need_root
	start "$DLOCK" run --log json --contain "$LOCK" -- sleep 300
	wait_until 5 logs_event "$ERR" started
	guard_of "$PID"
	wait_until 5 child "$GUARD" dlock-init
	wait_until 5 child "$CHILD" sleep
	kill -TERM "$CHILD"
	join "$PID"
	equal "$status" 143
	cp "$ERR" log
	is ".[2] | .event == \"ended\" and .signal == 15 and .command_pid == $CHILD"
}

@test "who has the lock: while waiting, and when the wait has ended" {
	hold --note 'a "quoted" note' --
	logged 124 run -w 2s "$LOCK" -- true
	equal "$(events log)" "waiting not-obtained"
	is "all(.[]; .holder | .pid == $HOLDER and .note == \"a \\\"quoted\\\" note\" and
		.held_for_ms >= 0)"
	is '.[1] | .level == "warning" and .waited_ms >= 300 and .held_ms == null'
	logged 124 acquire -n "$LOCK"
	equal "$(events log)" not-obtained
	is '.[0].holder.command == "sh" and .[0].fence == null'
	release
}

@test "the position in the queue, where the backend knows it" {
	local uri=$REDIS
	hold -b "$uri" --
	start "$DLOCK" run -b "$uri" --log json "$LOCK" -- true
	wait_until 5 logs_event "$ERR" waiting
	logged 124 run -b "$uri" -w 2s "$LOCK" -- true
	is '.[0].ahead == 1'
	release
	join "$PID"
	equal "$(events "$ERR")" "waiting acquired started ended released"
}

# bats test_tags=more
@test "a command that runs too long" {
	logged 121 run --max-run 300ms "$LOCK" -- sleep 300
	is 'map(select(.event == "overdue"))[0].level == "error"'
	is 'map(select(.event == "ended"))[0].signal == 15'
}

@test "acquire logs objects, and prints its token on standard output" {
	local token
	logged 0 acquire "$LOCK"
	token=$(<out)
	matches "$token" '^[0-9a-f]{32}$'
	equal "$(events log)" acquired
	DLOCK_TOKEN=$token logged 0 acquire "$LOCK"
	equal "$(<out)" "$token+1"
	equal "$(events log)" joined
	not grep -q "$token" log
	"$DLOCK" release "$LOCK" "$token+1"
	"$DLOCK" release "$LOCK" "$token"
}

# bats test_tags=more
@test "a run in a run joins" {
	logged 0 run "$LOCK" -- "$DLOCK" run --log json "$LOCK" -- true
	equal "$(events log)" 'acquired started joined started ended ended released'
	is '(map(.fence) | unique | length) == 1'
}

@test "a lost lock, and the command that is ended" {
	start "$DLOCK" run --log json "$LOCK" -- sleep 300
	wait_until 5 logs_event "$ERR" started
	"$DLOCK" break --yes "$LOCK"
	join "$PID"
	equal "$status" 123
	cp "$ERR" log
	objects log
	is 'map(select(.event == "lost"))[0] | .level == "error" and .held_ms >= 0'
	is 'map(select(.event == "ended"))[0].signal == 15'
}

# bats test_tags=more
@test "what the command leaves behind" {
	logged 0 run "$LOCK" -- sh -c 'setsid sleep 300 >/dev/null 2>&1 & sleep 0.2'
	is 'map(select(.event == "leftovers"))[0].level == "warning"'
}

# bats test_tags=more
@test "renewals that fail, and the one that succeeds again" {
	private_redis
	start "$DLOCK" run -b "$P_URI?timeout=1s" -t 9s -k 1s --log json "$LOCK" -- sleep 300
	wait_until 5 logs_event "$ERR" started
	kill -STOP "$P_PID"
	wait_until 10 logs_event "$ERR" not-renewed
	kill -CONT "$P_PID"
	wait_until 10 logs_event "$ERR" renewed
	kill -TERM "$PID"
	join "$PID"
	objects "$ERR"
}

@test "a server that is gone: while waiting, and from the start" {
	private_redis
	hold -b "$P_URI" --
	start "$DLOCK" run -b "$P_URI?timeout=1s" --log json "$LOCK" -- true
	local waiter=$PID said=$ERR
	wait_until 5 logs_event "$said" waiting
	kill -STOP "$P_PID"
	wait_until 15 logs_event "$said" unreachable
	kill -CONT "$P_PID"
	wait_until 15 logs_event "$said" reachable
	release
	join "$waiter"
	objects "$said"
	logged 122 run -b redis://127.0.0.1:1 "$LOCK" -- true
	equal "$(events log)" failed
	is '.[0].level == "error" and .[0].backend == "redis 127.0.0.1:1"'
	logged 0 run -b redis://127.0.0.1:1 --if-down run "$LOCK" -- true
	equal "$(events log)" "unprotected started ended"
	is 'all(.[]; .fence == null and .held_ms == null)'
}

# bats test_tags=more
@test "errors: the command line, the configuration, the command" {
	logged 125 run --no-such-option "$LOCK" -- true
	is '.[0] | .event == "failed" and .name == null'
	logged 125 acquire
	logged 125 run -b no-such-backend "$LOCK" -- true
	logged 127 run "$LOCK" -- $'./no\n"such"\xff'
	is '.[-1].message == "./no?\"such\"?: command not found"'
	logged 127 run "$LOCK" -- "./$EVIL"
	harmless "$(<log)"
	is '.[-1].message | test("dlock: f") and (test("[[:cntrl:]]") | not)'
	logged 126 run "$LOCK" -- /
	is '.[-1] | .event == "failed" and .fence > 0 and .command_pid == null'
	equal "$(events log)" "acquired started released failed"
}

@test "output that cannot be written is reported as an object, too" {
	local status=0
	"$DLOCK" acquire --log json "$LOCK" >/dev/full 2>log || status=$?
	equal "$status" 125
	objects log
	is '.[-1] | .event == "failed" and (.message | test("cannot write the output"))'
}

@test "a signal before the lock is obtained" {
	hold --
	start "$DLOCK" run --log json "$LOCK" -- true
	wait_until 5 logs_event "$ERR" waiting
	kill -TERM "$PID"
	join "$PID"
	equal "$status" 143
	objects "$ERR"
	equal "$(events "$ERR")" "waiting failed"
	release
}

@test "-q logs errors only" {
	status=0
	"$DLOCK" run -q --log json "$LOCK" -- true 2>log || status=$?
	equal "$(<log)" ""
	logged 127 run -q "$LOCK" -- ./no-such-command
	equal "$(events log)" failed
}

@test "--log text is the default, and the last --log counts" {
	run --separate-stderr -0 "$DLOCK" run -v --log json --log text "$LOCK" -- true
	matches "${stderr_lines[0]}" "^dlock: $LOCK: acquired after "
	equal "${#stderr_lines[@]}" 4
	run --separate-stderr -125 "$DLOCK" run --log xml "$LOCK" -- true
	one_line "'xml' is not one of text.json"
}
