# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# --metrics: the file for Prometheus says what became of a run, however that has ended, and whatever
# happens to the file does not change the run.

load ../lib/helpers
load ../redis/redis

prepare() {
	need promtool
	MAN=$TOP/man/dlock-output.5
	mkdir prom
	PROM=$T/prom/nightly.prom
}

# measured STATUS ARG...: runs dlock with --metrics, which must exit with STATUS and leave a file
# that promtool(1) finds nothing wrong with
measured() {
	local wanted=$1 got=0
	shift
	rm -f "$PROM"
	"$DLOCK" run --metrics "$PROM" "$@" 2>err >out 3>&- || got=$?
	equal "$got" "$wanted" "status of dlock run --metrics $*: $(<err)"
	good_file
	value_is exit_status "$wanted"
}

good_file() {
	local said
	said=$(promtool check metrics <"$PROM" 2>&1) || fail "promtool: $said"
	equal "$said" "" "promtool"
	equal "$(stat -c %a "$PROM")" 644 mode
	equal "$(ls -A "${PROM%/*}")" "${PROM##*/}" "files in the directory"
}

# value METRIC: without dlock_last_; nothing if it is not there
value() {
	sed -n "s/^dlock_last_$1{.*} //p" "$PROM"
}

value_is() {
	equal "$(value "$1")" "$2" "$1"
}

# in_ms METRIC: sets MS to its value
in_ms() {
	local seconds
	seconds=$(value "$1")
	matches "$seconds" '^[0-9]+\.[0-9]{3}$' "$1"
	MS=$((10#${seconds/./}))
}

# flags OBTAINED BUSY LOST: and the lock was neither lost to a newer waiter nor held for too long
flags() {
	equal "$(value obtained) $(value busy) $(value lost)" "$*" "obtained, busy and lost"
	equal "$(value overdue)" 0 overdue
}

@test "dlock-output.5 has every metric, and no other; all of them are gauges" {
	measured 0 "$LOCK" -- true
	hold -b "$REDIS" --
	start "$DLOCK" run -b "$REDIS" -w 60s "$LOCK" -- true
	wait_until 5 waits
	"$DLOCK" status -b "$REDIS" --prometheus "$LOCK" >all.prom || equal $? 1
	cat all.prom >>"$PROM"
	kill "$PID"
	join "$PID"
	release
	sed -n 's/{.*//p' "$PROM" | grep -v '^#' | sort >found
	awk '/^\.Sh / { on = ($2 == "METRICS") } on && /^\.It Cm / { print $3 }' "$MAN" | sort >wanted
	equal "$(<found)" "$(<wanted)"
	equal "$(grep -c '^# TYPE [a-z_]* gauge$' "$PROM")" "$(wc -l <wanted)" gauges
	equal "$(grep -c '^# HELP ' "$PROM")" "$(wc -l <wanted)" "lines of help"
}

waits() {
	"$DLOCK" status -b "$REDIS" --json "$LOCK" >json || true
	jq -e '.waiters | length > 0' json >/dev/null
}

# sample METRIC NAME: of ./all.prom, without dlock_lock_; nothing if it is not there
sample() {
	grep -F "dlock_lock_$1{name=\"$2\",backend=\"redis 127.0.0.1:$REDIS_PORT\"} " all.prom | sed 's/.*} //'
}

# all_locks [NAME]...: prints the gauges to ./all.prom, with which promtool(1) finds nothing wrong
all_locks() {
	"$DLOCK" status -b "redis://:secret@127.0.0.1:$REDIS_PORT" --prometheus "$@" >all.prom || equal $? 1
	equal "$(promtool check metrics <all.prom 2>&1)" "" promtool
	not grep secret all.prom
}

@test "status --prometheus: all locks that are held or waited for, a metric once; labels are escaped" {
	local odd="$LOCK-\"a\" \\ é" token shared
	private_redis
	REDIS_PORT=$P_PORT
	REDIS=redis://:secret@127.0.0.1:$P_PORT
	redis_at "$P_DIR" config set requirepass secret
	all_locks
	equal "$(grep -c '^dlock' all.prom)" 0 samples
	equal "$(grep -c '^# HELP ' all.prom) $(grep -c '^# TYPE dlock_lock_[a-z_]* gauge$' all.prom)" "5 5"
	token=$("$DLOCK" acquire -b "$REDIS" -t 1h "$odd")
	shared=$("$DLOCK" acquire -b "$REDIS" -s -t 30s "$LOCK-s")
	"$DLOCK" acquire -b "$REDIS" -s -t 1h "$LOCK-s"
	hold -b "$REDIS" --
	start "$DLOCK" run -b "$REDIS" -w 60s "$LOCK" -- true
	wait_until 5 waits
	pause 1.1
	all_locks
	equal "$(grep -c '^# TYPE ' all.prom)" 5 metrics
	equal "$(sample held "$LOCK") $(sample held "$LOCK-s") $(sample waiters "$LOCK") $(sample waiters "$LOCK-s")" \
		"1 1 1 0"
	equal "$(sample held "$LOCK-\\\"a\\\" \\\\ é")" 1
	matches "$(sample oldest_wait_seconds "$LOCK")" '^[1-9][0-9]*\.[0-9]{3}$'
	matches "$(sample age_seconds "$LOCK")" '^[1-9][0-9]*\.[0-9]{3}$'
	equal "$(sample oldest_wait_seconds "$LOCK-s")" ""
	# the first of the leases that ends
	matches "$(sample expires_seconds "$LOCK-s")" '^[12]?[0-9]\.[0-9]{3}$'
	kill "$PID"
	join "$PID"
	release
	# those that are named, also when they are free
	all_locks "$LOCK" "$LOCK-s*"
	equal "$(sample held "$LOCK") $(sample held "$LOCK-s") $(grep -c '^dlock_lock_held' all.prom)" "0 1 2"
	equal "$(sample age_seconds "$LOCK")" ""
	# one that is only kept has no age
	"$DLOCK" run -b "$REDIS" --min-hold 1h "$LOCK-kept" -- true
	all_locks
	equal "$(sample held "$LOCK-kept") $(sample age_seconds "$LOCK-kept")" "1 "
	matches "$(sample expires_seconds "$LOCK-kept")" '^3[0-9]{3}\.[0-9]{3}$'
	for option in --json --names --watch; do
		run --separate-stderr -125 "$DLOCK" status --prometheus "$option"
		one_line '--prometheus cannot be combined with'
	done
	run --separate-stderr -122 "$DLOCK" status -b redis://127.0.0.1:1 --prometheus
	equal "$output" ""
}

@test "a run: start, end, wait, hold, status and fence, on each kind of backend" {
	local uri before after start_ms end_ms
	for uri in "$FILE" "$REDIS"; do
		before=$(date +%s%3N)
		measured 3 -b "$uri" "$LOCK" -- sh -c 'sleep 0.3; echo "$DLOCK_FENCE"; exit 3'
		after=$(date +%s%3N)
		flags 1 0 0
		value_is fence "$(<out)"
		in_ms start_timestamp_seconds
		start_ms=$MS
		in_ms end_timestamp_seconds
		end_ms=$MS
		between "$start_ms" "$before" "$after" start
		between "$end_ms" "$((start_ms + 300))" "$after" end
		in_ms hold_seconds
		between "$MS" 300 "$((end_ms - start_ms + 1))" hold
		in_ms wait_seconds
		between "$MS" 0 "$((end_ms - start_ms - 299))" wait
	done
}

@test "the labels: the name of the lock, escaped, and the host" {
	measured 0 'a "b" \c é' -- true
	grep -qF "dlock_last_lost{name=\"a \\\"b\\\" \\\\c é\",host=\"$(hostname)\"} 0" "$PROM" ||
		fail "labels: $(<"$PROM")"
	if ((EUID == 0)); then
		unshare -u sh -c 'printf "%s" "$1" >/proc/sys/kernel/hostname; shift; exec "$@"' sh \
			"${EVIL%%:*}" "$DLOCK" run --metrics "$PROM" a -- true
		harmless "$(<"$PROM")"
		good_file
	fi
	measured 0 -- true
	grep -qE '^dlock_last_lost\{name="true-[0-9a-f]{16}",' "$PROM" || fail "$(<"$PROM")"
}

@test "the lock was not obtained: in time, or at once, whatever -E says" {
	hold --
	measured 124 -w 2s "$LOCK" -- true
	flags 0 1 0
	in_ms wait_seconds
	((MS >= 300)) || fail "waited $MS ms"
	equal "$(value hold_seconds)$(value fence)" ""
	measured 0 -n -E 0 "$LOCK" -- true
	flags 0 1 0
	release
}

@test "the lock was obtained after a wait" {
	hold -- sleep 3
	measured 0 "$LOCK" -- true
	flags 1 0 0
	in_ms wait_seconds
	between "$MS" 100 60000 wait
	in_ms hold_seconds
	join "$HOLDER"
}

@test "the lock was lost; the command goes on, or does not" {
	local option
	for option in kill warn; do
		start "$DLOCK" run --metrics "$PROM" --on-lost "$option" "$LOCK" -- \
			sh -c ': >"$T/runs"; sleep 2'
		wait_until 5 test -e runs
		"$DLOCK" break --yes "$LOCK"
		kill -URG "$PID" 2>/dev/null || true
		join "$PID"
		equal "$status" 123
		good_file
		value_is exit_status 123
		flags 1 0 1
		rm runs "$PROM"
	done
}

# bats test_tags=more
@test "a command that runs too long" {
	measured 121 --max-run 300ms "$LOCK" -- sleep 300
	equal "$(value obtained) $(value lost) $(value overdue)" "1 0 1"
	measured 121 "$LOCK" -- sh -c 'exit 121'
	flags 1 0 0
}

@test "the command was not executed, or was killed" {
	measured 127 "$LOCK" -- ./no-such-command
	flags 1 0 0
	measured 126 "$LOCK" -- /
	measured 143 "$LOCK" -- sh -c 'kill -TERM $$'
}

@test "a backend that is down, with and without --if-down run; a configuration that is wrong" {
	measured 122 -b redis://127.0.0.1:1 "$LOCK" -- true
	flags 0 0 0
	in_ms wait_seconds
	measured 3 -b redis://127.0.0.1:1 --if-down run "$LOCK" -- sh -c 'exit 3'
	flags 0 0 0
	equal "$(value fence)" ""
	measured 125 -b no-such-backend "$LOCK" -- true
	flags 0 0 0
	equal "$(value wait_seconds)" ""
}

@test "a signal before the lock is obtained, and one for the command" {
	hold --
	start "$DLOCK" run -v --metrics "$PROM" "$LOCK" -- true
	wait_until 5 has_line "$ERR" waiting
	kill -TERM "$PID"
	join "$PID"
	equal "$status" 143
	good_file
	value_is exit_status 143
	flags 0 0 0
	release
}

@test "Ctrl-C: the file is there when dlock dies of the signal, too" {
	need tmux
	local tmux=(tmux -S "$T/tmux")
	"${tmux[@]}" -f /dev/null new-session -d "'$DLOCK' run --metrics '$PROM' '$LOCK' -- \
		sh -c ': >\"$T/runs\"; exec sleep 300'" 3>&-
	wait_until 10 test -e runs
	"${tmux[@]}" send-keys C-c
	wait_until 10 test -e "$PROM"
	good_file
	value_is exit_status 130
	"${tmux[@]}" kill-server 2>/dev/null || true
}

@test "a run in a run: both have obtained the lock, with one fence" {
	"$DLOCK" run --metrics "$T/outer.prom" "$LOCK" -- \
		"$DLOCK" run --metrics "$PROM" "$LOCK" -- true
	good_file
	flags 1 0 0
	value_is fence "$(sed -n 's/^dlock_last_fence{.*} //p' outer.prom)"
}

@test "the file has mode 0644 whatever the umask is, and is replaced in one step" {
	local inode
	(umask 0077 && measured 0 "$LOCK" -- true)
	inode=$(stat -c %i "$PROM")
	exec 5<"$PROM"
	start "$DLOCK" run --metrics "$PROM" "$LOCK" -- sleep 300
	wait_until 5 is_held
	# The file of the run before stays until the end of this one.
	equal "$(stat -c %i "$PROM")" "$inode"
	kill -TERM "$PID"
	join "$PID"
	good_file
	value_is exit_status 143
	# A reader that has the old file open reads all of it.
	equal "$(grep -c '^dlock_last_exit_status{.*} 0$' <&5)" 1
	exec 5<&-
	cd prom
	"$DLOCK" run --metrics nightly.prom "$LOCK" -- true
	good_file
}

# bats test_tags=more
@test "dlock was killed: the file of the run before stays, and is old" {
	measured 0 "$LOCK" -- true
	cp "$PROM" before
	start "$DLOCK" run --metrics "$PROM" "$LOCK" -- sleep 300
	wait_until 5 is_held
	kill -KILL "$PID"
	join "$PID"
	wait_until 5 no_strays
	cmp "$PROM" before
}

# unwritable FILE: dlock says so, and ends as the command does
unwritable() {
	run --separate-stderr -3 "$DLOCK" run -q --metrics "$1" "$LOCK" -- sh -c 'exit 3'
	# A long text is cut.
	one_line "$LOCK: --metrics ${1:0:40}.*: "
}

@test "a file that cannot be written is reported, even with -q, and changes nothing else" {
	unwritable "$T/no-such-directory/x.prom"
	mkdir directory
	unwritable "$T/directory"
	unwritable "$T/directory/"
	run --separate-stderr -125 "$DLOCK" run --metrics "" "$LOCK" -- touch ran
	one_line "^dlock: --metrics: no FILE given$"
	not test -e ran
	unwritable "$T/prom/$(printf 'x%.0s' {1..255})"
	# Root would replace these.
	mkfifo fifo
	ln -s "$PROM" link
	unwritable "$T/fifo"
	unwritable "$T/link"
	[[ -p fifo && -L link && ! -e $PROM ]] || fail "a special file was replaced"
	run --separate-stderr -0 "$DLOCK" run -q --log json --metrics directory "$LOCK" -- true
	jq -e '.event == "other" and .level == "error"' <<<"$stderr"
	equal "$(ls -A prom)" ""
}

@test "the file may not become so large, as on a full disk: the old file stays, and no other" {
	measured 0 "$LOCK" -- true
	cp "$PROM" before
	run --separate-stderr -3 sh -c 'ulimit -f 1; exec "$@"' - \
		"$DLOCK" run --metrics "$PROM" -b "$REDIS" "$LOCK" -- sh -c 'exit 3'
	one_line "--metrics $PROM: cannot write it: File too large"
	cmp "$PROM" before
	good_file
}
