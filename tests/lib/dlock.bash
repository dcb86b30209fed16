# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Holding, releasing and contending with dlock.

# hold [OPTION]... -- [COMMAND...]: starts `dlock run OPTION... $LOCK -- COMMAND` and
# waits until COMMAND runs. The default COMMAND sleeps until `release` ends it. Sets HOLDER and
# COMMAND (their pids), TOKEN, FENCE, HOLDER_OUT and HOLDER_ERR.
hold() {
	local options=() started
	while (($#)) && [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	started=$T/held.$((STARTED_COUNT + 1))
	if (($# == 0)); then
		set -- sleep 300
	fi
	# shellcheck disable=SC2016 # expanded by the inner shell
	start "$DLOCK" run "${options[@]}" "$LOCK" -- \
		sh -c 'echo "$$ $DLOCK_TOKEN $DLOCK_FENCE" >"$0" && exec "$@"' \
		"$started" "$@"
	HOLDER=$PID HOLDER_OUT=$OUT HOLDER_ERR=$ERR
	wait_until 20 held_or_ended "$started" "$HOLDER"
	[[ -s $started ]] || fail "dlock did not start the command: $(<"$HOLDER_ERR")"
	read -r COMMAND TOKEN FENCE <"$started"
}

# lost [SECONDS [REGEX]]: the dlock of hold ends with 123, and says once that the lock was lost, or
# what matches REGEX; other lines may be about trouble with the server
lost() {
	join "$HOLDER" "${1:-15}"
	equal "$status" 123
	equal "$(grep -Ec "^dlock: $LOCK: .*${2:-lost}" "$HOLDER_ERR")" 1 "lines about the loss: $(<"$HOLDER_ERR")"
	equal "$(grep -vc "^dlock: $LOCK: " "$HOLDER_ERR")" 0 "other lines: $(<"$HOLDER_ERR")"
	ended "$COMMAND"
}

# not_renewed: the same with --no-renew, for which the end of the lease is no surprise
not_renewed() {
	lost 15 'the lease is about to end, and --no-renew forbids to renew it'
}

# gone_while_waiting SERVER COMMAND...: COMMAND stops the server at P_URI, which messages call what
# matches SERVER, while dlock waits there: -v and the end of the wait say so, and for how long
gone_while_waiting() {
	local waiter err
	hold -b "$P_URI" -t 60s --
	start "$DLOCK" run -b "$P_URI" -v -w 9s "$LOCK" -- true
	waiter=$PID err=$ERR
	wait_until 5 has_line "$err" "waiting.*, held by .*\(on $1\)$"
	"${@:2}"
	wait_until 7 has_line "$err" 'trying again$'
	join "$waiter" 15
	equal "$status" 124
	has_line "$err" "the server has not been reachable for [0-9.]+[a-z0-9]*; last seen held by .*pid $HOLDER"
}

# kept_while_waiting: a waiter says soon that the hold before it has ended, and until when --min-hold
# keeps the lock
kept_while_waiting() {
	local waiter
	hold --min-hold 4s -t 30s --
	start "$DLOCK" run -v "$LOCK" -- true
	waiter=$PID
	wait_until 5 has_line "$ERR" ': waiting, next in line, held by '
	# A waiter reads who holds the lock once a second at most.
	pause 1.1
	release
	wait_until 2 has_line "$ERR" ', kept until [0-9: -]+ \(.* has ended\)'
	join "$waiter"
	equal "$status" 0
}

# hold_as_job [OPTION]... -- [COMMAND...]: `hold` in a process group of its own, as an interactive
# shell or timeout(1) has its jobs
hold_as_job() {
	local real=$DLOCK
	printf '#!/bin/sh\nexec setsid "%s" "$@"\n' "$real" >"$T/as-job"
	chmod +x "$T/as-job"
	DLOCK=$T/as-job
	hold "$@"
	DLOCK=$real
}

held_or_ended() {
	[[ -s $1 ]] || ended "$2"
}

# release: ends the command of `hold` and waits for dlock
release() {
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 143 "status of the holder"
}

# contend [PID]...: starts a dlock that waits for $LOCK. Once that dlock holds the lock, its command
# prints "overlap PID" if one of PIDs is still alive, else "alone". CONTEND_WITH has more options
# for it, such as another mode. Sets PID and OUT. See met_nobody.
contend() {
	# shellcheck disable=SC2016,SC2086 # expanded by the inner shell; words
	start "$DLOCK" run -w 30s ${CONTEND_WITH-} "$LOCK" -- sh -c '
		for pid; do
			if grep -qs "^State:[[:space:]]*[^ZX[:space:]]" "/proc/$pid/status"; then
				echo "overlap $pid"
				exit 1
			fi
		done
		"$TOOLS/witness" -l /dev/null -f 0
		echo alone' contender "$@"
	CONTENDER=$PID CONTENDER_OUT=$OUT CONTENDER_ERR=$ERR
}

# met_nobody [SECONDS]: the contender gets the lock within that time, and only after the processes
# that contend was given were dead
met_nobody() {
	join "$CONTENDER" "${1:-15}"
	equal "$status $(<"$CONTENDER_OUT")" "0 alone" "contender ($(<"$CONTENDER_ERR"))"
}

# passes_dead MS LIVING DEAD...: the processes DEAD, of waiters, are killed, and the lock is released:
# the waiter LIVING ends within MS, and has run its command, which made the file ran
passes_dead() {
	local most=$1 living=$2 start
	shift 2
	kill -KILL "$@"
	wait_until 5 ended "$@"
	now
	start=$NOW
	release
	join "$living" 5
	now
	took $((NOW - start)) 0 "$most"
	[[ -e ran && ! -e dead ]]
}

# lapses_past_hung: a minimum hold ends, of which nobody is told, while the first waiter hangs: the second
# one notices, and passes it
lapses_past_hung() {
	local hung=() next start
	hold --min-hold 7s --
	wait_in_line 1 -- true
	# shellcheck disable=SC2207 # words
	hung=("$PID" $(tree "$PID"))
	wait_in_line 2 -- true
	next=$PID
	kill -STOP "${hung[@]}"
	# It tries after 5 to 5.5 s, and is not due again when the minimum ends.
	pause 5.8
	now
	start=$NOW
	release
	join "$next" 8
	equal "$status" 0
	now
	took $((NOW - start)) 0 4000
	kill -CONT "${hung[@]}"
	join "${hung[0]}" 8
	equal "$status" 0
}

# rests_far ASK: $PID waits in a table behind 100 entries whose tokens begin with "other", and has its turn
# when they are gone. ASK sends a statement; last() prints until when the last waiter counts as alive.
# shellcheck disable=SC2016 # eval expands it
rests_far() {
	local ask=$1 drawn number until
	# the last number that a request which changes the queue has drawn
	drawn="SELECT fence FROM dlock_names WHERE name = '$LOCK'"
	number=$("$ask" "$drawn") until=$(last)
	wait_until 8 eval '(($(last) > until))'
	equal "$("$ask" "$drawn")" "$number" "the number before"
	"$ask" "DELETE FROM dlock_entries WHERE name = '$LOCK' AND token = 'other11'" >/dev/null
	wait_until 8 eval '(($("$ask" "$drawn") > number))'
	"$ask" "DELETE FROM dlock_entries WHERE name = '$LOCK' AND token LIKE 'other%'" >/dev/null
	[[ ! -e ran ]]
	release
	join "$PID" 2
	equal "$status" 0
	[[ -e ran ]]
	wait_until 2 only_fences
}

# keeps_far ASK TEXT DISCONNECT RESTART: $PID waits as for rests_far, through a proxy. It keeps its place when
# the answer to a request with TEXT is lost, by which it notes that it is alive, when DISCONNECT ends its
# connection, and when RESTART restarts the server; then it has its turn.
# shellcheck disable=SC2016 # eval expands it
keeps_far() {
	local ask=$1 newest place fault until
	newest="SELECT MAX(place) FROM dlock_entries WHERE name = '$LOCK'"
	place=$("$ask" "$newest")
	for fault in "proxy cut-on $2" "$3" "$4"; do
		# What ends a sleep at once ends all sleeps in the server, the second time.
		pause 1.5
		until=$(last)
		$fault
		wait_until 20 eval '(($(last) > until))'
		equal "$("$ask" "$newest")" "$place" "the place after: $fault"
	done
	rests_far "$ask"
}

# probe_owner: starts an owner that says which signals it gets, and ends on none but KILL. Sets OWNER
# and OWNER_OUT.
probe_owner() {
	start "$TOOLS/sigprobe" -u none
	OWNER=$PID OWNER_OUT=$OUT
	wait_until 5 has_line "$OWNER_OUT" '^ready'
}

# is_free, is_held: what another dlock finds
is_free() {
	"$DLOCK" run -n -q "$LOCK" -- true
}

is_held() {
	local code=0
	"$DLOCK" run -n -q "$LOCK" -- true || code=$?
	((code == 124))
}

# refused REGEX URI [OPTION]...: run fails with 122 and one line that matches, and runs nothing
refused() {
	local regex=$1 uri=$2
	shift 2
	timed timeout 30 "$DLOCK" run -b "$uri" "$@" "$LOCK" -- touch ran
	equal "$status" 122
	equal "$output" ""
	one_line "$regex"
	[[ ! -e ran ]]
}

# loses_replies N...: the answer to the Nth request of a run through PROXY is lost, for each N: it runs
# once, or reports why not, and nothing stays, as only_fences of the suite says
loses_replies() {
	local n codes=' '
	for n; do
		proxy "cut-after $n"
		rm -f ran
		run --separate-stderr "$DLOCK" run -t 2s -b "$PROXY" "$LOCK" -- sh -c 'echo x >>ran'
		codes+="$status "
		matches "$status" '^(0|122)$' "status with the answer to request $n lost: $stderr"
		if ((status == 0)); then
			equal "$(wc -l <ran)" 1 runs
		fi
		proxy pass
		wait_until 4 is_free
		wait_until 2 only_fences
	done
	# One of them is the answer to the request that takes the lock.
	matches "$codes" ' 0 '
}

# outlives_password URI: a holder and a waiter of the user jobs, whom the URI names, log in with the new
# password that ./secret and the Redis servers get. on_all ARG...: redis-cli to all of the servers
outlives_password() {
	local holder waiter
	on_all acl setuser jobs on '>old' '~*' '&*' +@all
	(umask 077 && echo old >secret)
	DLOCK_BACKEND="$1?password-file=$T/secret"
	start "$DLOCK" run -t 6s "$LOCK" -- sh -c 'touch holds; until [ -e end ]; do sleep 0.1; done'
	holder=$PID
	wait_until 10 test -e holds
	start "$DLOCK" run -v -t 6s "$LOCK" -- touch waited
	waiter=$PID
	wait_until 10 has_line "err.$STARTED_COUNT" waiting
	echo new >secret
	on_all acl setuser jobs resetpass '>new'
	on_all client kill user jobs
	# longer than the lease
	sleep 7
	touch end
	join "$holder" 10
	equal "$status" 0
	join "$waiter" 10
	equal "$status" 0
	[[ -e waited ]]
	on_all acl deluser jobs
}

# ---- the clock of a server, which `clock` sets; the suite's server_seconds prints it

# server_ahead SECONDS: it differs by that from this machine's
server_ahead() {
	local seconds
	seconds=$(server_seconds)
	((seconds - EPOCHSECONDS > $1 - 60 && seconds - EPOCHSECONDS < $1 + 60))
}

# outlives_jumps: when the clock jumps ahead the lock is lost; when it jumps back the hold stands, and
# excludes others, and fences grow
outlives_jumps() {
	local jump fence
	hold -t 3s --
	fence=$FENCE
	clock +3600
	wait_until 2 server_ahead 3600
	lost
	for jump in +0 -3600; do
		hold -n -t 4s --
		((FENCE > fence)) || fail "fence $FENCE after $fence"
		fence=$FENCE
		clock "$jump"
		wait_until 2 server_ahead "$jump"
		holds_for 4000 alive "$COMMAND"
		run -124 "$DLOCK" run -n "$LOCK" -- true
		release
	done
}
