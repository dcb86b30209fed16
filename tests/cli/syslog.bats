# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What dlock says to the log of the system, which is a socket of the test's own here.

load ../lib/helpers

prepare() {
	need_root
	need unshare
	mkdir dev
	start "$TOOLS/syslogd" "$T/dev/log"
	SAID=$OUT LOGGER=$PID
	wait_until 5 has_line "$SAID" '^ready$'
}

# logged COMMAND...: runs it where /dev/log is the test's
logged() {
	unshare -m sh -c 'for name in null zero urandom tty; do
			: >"$0/$name" && mount --bind "/dev/$name" "$0/$name" || exit 99
		done
		ln -sfn /proc/self/fd "$0/fd"
		mkdir -p "$0/shm" && mount --bind /dev/shm "$0/shm" && mount --rbind "$0" /dev || exit 99
		exec "$@"' "$T/dev" "$@"
}

# sync_log: waits until the logger has printed all that was sent before
sync_log() {
	logged "$DLOCK" run -v --syslog "$LOCK-sync" -- true
	wait_until 5 has_line "$SAID" "$LOCK-sync: released"
}

# LOG_DAEMON is 24; LOG_ERR is 3, LOG_WARNING 4, LOG_INFO 6.

@test "acquire --pid: the daemon logs that the lock is lost" {
	start sleep 300
	local owner=$PID
	run -0 logged "$DLOCK" acquire --pid "$owner" "$LOCK"
	"$DLOCK" break --yes "$LOCK"
	wait_until 5 has_line "$SAID" "^<27>.* dlock\[[0-9]+\]: $LOCK: lock lost: .*; process $owner got TERM$"
	wait_until 5 ended "$owner"
	wait_until 5 no_strays_but "$LOGGER"
}

@test "acquire --pid: the watchdog logs that the keeper was killed" {
	start sleep 300
	local owner=$PID
	logged "$DLOCK" acquire --json --pid "$owner" "$LOCK" >json
	kill -KILL "$(jq .keeper_pid json)"
	wait_until 5 has_line "$SAID" "^<27>.* dlock\[[0-9]+\]: $LOCK: lock lost: its keeper was killed; process $owner got TERM$"
	wait_until 5 ended "$owner"
}

@test "--on-lost warn: the daemon logs the loss, and sends nothing" {
	start sleep 300
	local owner=$PID
	run -0 logged "$DLOCK" acquire --on-lost warn --pid "$owner" "$LOCK"
	"$DLOCK" break --yes "$LOCK"
	wait_until 5 has_line "$SAID" "^<27>.*: $LOCK: lock lost: "
	holds_for 500 not ended "$owner"
	not has_line "$SAID" 'TERM'
}

@test "--syslog logs what run writes to standard error, and log = syslog does the same" {
	local file=$XDG_CONFIG_HOME/dlock.conf
	run --separate-stderr -0 logged "$DLOCK" run -v --syslog "$LOCK" -- true
	matches "$stderr" 'acquired after'
	wait_until 5 has_line "$SAID" "^<30>.* dlock\[[0-9]+\]: $LOCK: acquired after .*, on file:"
	wait_until 5 has_line "$SAID" "^<30>.*: $LOCK: released"
	mkdir -p "$XDG_CONFIG_HOME"
	echo 'log = syslog' >"$file"
	start "$DLOCK" run "$LOCK" -- sleep 300
	wait_until 5 is_held
	run -124 logged "$DLOCK" run -n "$LOCK" -- true
	wait_until 5 has_line "$SAID" "^<28>.*: $LOCK: held by .*pid $PID"
	echo 'log = stderr' >"$file"
	run -124 logged "$DLOCK" run -n "$LOCK" -- true
	sync_log
	equal "$(grep -c 'held by' "$SAID")" 1 "lines about the holder"
}

@test "--syslog logs text, also with --log json, and also what is outside of the run itself" {
	run --separate-stderr -127 logged "$DLOCK" run --syslog --log json "$LOCK" -- ./no-such-command
	matches "${stderr_lines[-1]}" '^\{.*"event":"failed"'
	wait_until 5 has_line "$SAID" "^<30>.*: $LOCK: acquired after "
	wait_until 5 has_line "$SAID" "^<27>.* dlock\[[0-9]+\]: $LOCK: ./no-such-command: command not found$"
	run -127 logged "$DLOCK" run --syslog "$LOCK" -- "./$EVIL"
	wait_until 5 has_line "$SAID" '31m.*dlock: forged.*: command not found;'
	harmless "$(<"$SAID")"
	run -125 logged "$DLOCK" run --syslog -b no-such-backend "$LOCK" -- true
	wait_until 5 has_line "$SAID" "^<27>.* dlock\[[0-9]+\]: --backend: 'no-such-backend' is neither"
}

@test "without a logger nothing is printed, and nothing fails" {
	kill -KILL "$LOGGER"
	run --separate-stderr -0 logged "$DLOCK" run -q --syslog "$LOCK" -- true
	equal "$stderr" ""
}
