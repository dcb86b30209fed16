# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: --replace-waiters, and what its line refuses.

load helpers
load zookeeper

# replacing [OPTION]...: starts a waiter with --replace-waiters
replacing() {
	start "$DLOCK" run --replace-waiters "$@" "$LOCK" -- sh -c 'echo "$0" >>order' \
		"replacing $((STARTED_COUNT + 1))"
}

# sent_away PID ERR BY [SECONDS]: the waiter ended because the waiter BY has replaced it
sent_away() {
	join "$1" "${4-3}"
	equal "$status" 124
	equal "$(wc -l <"$2")" 1 lines
	has_line "$2" "^dlock: $LOCK: replaced by .* pid $3 \(.*\): sh \(on zookeeper " ||
		fail "$(<"$2")"
}

# flags: prints for each waiter whether it replaces others
flags() {
	"$DLOCK" status --json | jq -c '[.waiters[].replaces_waiters]'
}

flags_are() {
	[[ $(flags) == "$1" ]]
}

# only_waiter PID
only_waiter() {
	[[ $("$DLOCK" status --json | jq -c '[.waiters[].pid]') == "[$1]" ]]
}

@test "--replace-waiters: the newest waiter is left, and others keep their places" {
	hold --
	wait_in_line 1 -- sh -c 'echo plain >>order'
	local plain=$PID a a_err b b_err c
	replacing
	a=$PID a_err=$ERR
	wait_until 5 waiters 2
	replacing
	b=$PID b_err=$ERR
	sent_away "$a" "$a_err" "$b"
	wait_until 5 waiters 2
	foreign_sequence _c_01234567-89ab-cdef-0123-456789abcdef-lock- 10.0.0.1
	wait_until 5 waiters 3
	replacing
	c=$PID
	sent_away "$b" "$b_err" "$c"
	wait_until 5 waiters 3
	wait_until 5 flags_are '[false,false,true]'
	alive "$HOLDER"
	release
	join "$plain"
	equal "$status" 0
	holds_for 500 alive "$c"
	end_foreign
	join "$c"
	equal "$status" 0
	equal "$(sed "s/ .*//" order | tr "\n" " ")" "plain replacing "
	nothing_left
}

@test "--replace-waiters: a holder is not sent away, and shared holders are not either" {
	hold --replace-waiters --
	replacing -E 7
	local a=$PID b
	wait_until 5 waiters 1
	replacing
	b=$PID
	join "$a" 3
	equal "$status" 7
	holds_for 500 alive "$HOLDER"
	release
	join "$b"
	equal "$status" 0
	hold -s --replace-waiters --
	local first=$HOLDER command=$COMMAND
	hold -s --replace-waiters --
	replacing
	b=$PID
	holds_for 1000 alive "$first"
	alive "$HOLDER"
	kill -TERM "$command"
	join "$first"
	equal "$status" 143
	release
	join "$b"
	equal "$status" 0
}

@test "--replace-waiters: reply lost as the newer one arrives: it sends away, and stays" {
	zk_proxy
	local text
	for text in newest= _WRIT_; do
		hold --
		replacing
		local a=$PID a_err=$ERR b
		wait_until 5 waiters 1
		proxy "cut-on $text"
		replacing -b "$PROXY"
		b=$PID
		sent_away "$a" "$a_err" "$b" 8
		wait_until 5 waiters 1
		holds_for 500 alive "$b"
		release
		join "$b"
		equal "$status" 0
	done
	proxy_stat cut
	equal "$VALUE" 2 'answers lost'
	equal "$(wc -l <order)" 2
}

@test "--replace-waiters: whoever comes back after the newer one has run is told so, and does not run" {
	zk_proxy
	hold --
	replacing -v -b "$PROXY"
	local a=$PID a_err=$ERR b c
	wait_until 5 has_line "$a_err" ': waiting, next in line'
	proxy refuse
	proxy cut
	replacing
	b=$PID
	wait_until 5 only_waiter "$b"
	# The server removes an unused lock, with the note of who is the newest.
	start "$DLOCK" run "$LOCK" -- sleep 60
	c=$PID
	wait_until 5 flags_are '[true,false]'
	release
	join "$b" 5
	equal "$status" 0
	equal "$(wc -l <order)" 1
	proxy pass
	join "$a" 20
	equal "$status" 124
	has_line "$a_err" "^dlock: $LOCK: replaced by .* pid $b "
	equal "$(wc -l <order)" 1
	kill "$c"
	join "$c"
	# Whoever comes later is not concerned.
	"$DLOCK" run --replace-waiters "$LOCK" -- true
}

@test "--replace-waiters: a waiter that was stopped for longer than its session is sent away when it goes on" {
	hold --
	replacing -v -t 4s
	local a=$PID a_err=$ERR b c stopped=("$PID")
	wait_until 5 has_line "$a_err" ': waiting, next in line'
	# shellcheck disable=SC2207 # words
	stopped+=($(tree "$a"))
	kill -STOP "${stopped[@]}"
	wait_until 10 waiters 0
	replacing
	b=$PID
	wait_until 5 waiters 1
	# The server removes an unused lock, with the note of who is the newest.
	start "$DLOCK" run "$LOCK" -- sleep 60
	c=$PID
	wait_until 5 waiters 2
	release
	join "$b" 8
	equal "$status" 0
	kill -CONT "${stopped[@]}"
	join "$a"
	equal "$status" 124
	has_line "$a_err" "^dlock: $LOCK: replaced by .* pid $b "
	equal "$(wc -l <order)" 1
	kill "$c"
	join "$c"
}

@test "--replace-waiters: a waiter whose session ends keeps its time of arrival" {
	hold --
	replacing
	local a=$PID b b_err c
	wait_until 5 waiters 1
	replacing
	b=$PID b_err=$ERR
	join "$a"
	equal "$status" 124
	wait_until 5 waiters 1
	expire_owner "$NODE/$(places | tail -n 1)"
	wait_until 10 waiters 1
	holds_for 500 alive "$b"
	replacing
	c=$PID
	sent_away "$b" "$b_err" "$c"
	release
	join "$c"
	equal "$status" 0
}

@test "--replace-waiters: the turn of a waiter comes as newer ones arrive: one runs at a time" {
	local n pids pid
	for _ in 1 2 3 4; do
		hold --
		pids=()
		for n in 1 2 3 4 5 6; do
			start "$DLOCK" run --replace-waiters "$LOCK" -- sh -c 'mkdir inside && sleep 0.05 &&
				rmdir inside'
			pids+=("$PID")
			if ((n == 4)); then
				kill -TERM "$COMMAND"
			fi
		done
		for pid in "${pids[@]}"; do
			join "$pid" 15
			matches "$status" '^(0|124)$' "status: $(cat "$T"/err.*)"
		done
		join "$HOLDER"
		[[ ! -e inside ]]
	done
}

@test "the order of the line is the server's: --priority and --queue newest are refused by name" {
	refused "" --priority --priority 1
	refused "" "--queue newest" --queue newest
	refused "?strategy=node" --priority --priority 1
	refused "?strategy=node" "--queue newest" --queue newest
	refused "?strategy=node" --replace-waiters --replace-waiters
}

# refused PARAMETER WHAT OPTION...
refused() {
	run --separate-stderr "$DLOCK" run -b "$ZK$1" "${@:3}" "$LOCK" -- touch ran
	equal "$status" 125
	one_line "zookeeper:.* has no $2; redis:.* have it by default$"
	[[ ! -e ran ]]
}

@test "--replace-waiters: after the server has lost its data, whoever waited before is older than newcomers" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local a a_err b family
	# The numbers of the server are to be smaller after the loss.
	for _ in {1..60}; do
		"$DLOCK" run "$LOCK" -- true
	done
	hold --
	replacing -v -t 4s
	a=$PID a_err=$ERR
	wait_until 5 has_line "$a_err" ': waiting, next in line'
	family="$a $(tree "$a")"
	# shellcheck disable=SC2086 # words
	kill -STOP $family
	zookeeper_stop "$P_DIR"
	rm -r "$P_DIR/version-2"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	join "$HOLDER" 40
	hold --
	# shellcheck disable=SC2086 # words
	kill -CONT $family
	wait_until 10 only_waiter "$a"
	replacing
	b=$PID
	join "$a" 5
	equal "$status" 124
	has_line "$a_err" "^dlock: $LOCK: replaced by .* pid $b "
	holds_for 500 alive "$b"
	release
	join "$b"
	equal "$status" 0
}

@test "--replace-waiters: data of a directory that another program has, or another server, is no word of dlock's" {
	local a b
	hold --
	zn set "$NODE" 'settings of another program'
	run --separate-stderr -122 "$DLOCK" run --replace-waiters "$LOCK" -- touch ran
	one_line 'data of another program'
	equal "$(zn get "$NODE")" 'settings of another program'
	[[ ! -e ran ]]
	waiters 0
	zn set "$NODE" 'newest=9223372036854775000&host=elsewhere'
	replacing
	a=$PID
	wait_until 5 only_waiter "$a"
	replacing
	b=$PID
	join "$a" 5
	equal "$status" 124
	wait_until 5 only_waiter "$b"
	release
	join "$b"
	equal "$status" 0
}
