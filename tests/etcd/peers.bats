# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What docs/peers.md says of flock(1) and of `etcdctl lock`, tried with them.

load ../lib/helpers
load etcd

# bats file_tags=more

setup_file() {
	etcd_for_file
}

teardown_file() {
	etcd_file_end
}

prepare() {
	export ETCDCTL_API=3
	export DLOCK_BACKEND=etcd://127.0.0.1:$ETCD_SERVER_PORT
	LOCKED=("$ETCDCTL" --endpoints "127.0.0.1:$ETCD_SERVER_PORT" lock --ttl 5 "$LOCK" --)
}

# command_of PID: sets COMMAND to the one child of a program that runs it
command_of() {
	wait_until 10 eval "COMMAND=\$(pgrep -P $1 -x sleep)"
}

@test "the exit status of the command: dlock and flock pass it on, etcdctl lock ends with 1" {
	run -7 "$DLOCK" run "$LOCK" -- sh -c 'exit 7'
	run -7 flock "$T/f" sh -c 'exit 7'
	run -1 "${LOCKED[@]}" sh -c 'exit 7'
	matches "$output" 'exit status 7'
}

@test "Ctrl-C while waiting ends dlock, flock and etcdctl lock" {
	local waiter
	hold --
	start "$DLOCK" run "$LOCK" -- true
	waiter=$PID
	wait_until 10 queued 2
	kill -INT "$waiter"
	join "$waiter" 10
	equal "$status" 130
	start "${LOCKED[@]}" true
	waiter=$PID
	wait_until 10 queued 2
	kill -INT "$waiter"
	join "$waiter" 10
	equal "$status" 1
	release
	start flock "$T/f" sleep 300
	command_of "$PID"
	start flock "$T/f" true
	kill -INT "$PID"
	join "$PID" 10
	equal "$status" 130
	kill "$COMMAND"
}

@test "the lock is lost: dlock ends its command, that of etcdctl lock is not told" {
	hold -t 5s --
	ec del --prefix "$LOCK/" >removed
	lost 10
	etcdctl_holds
	ec lease revoke "$(ec lease list | tail -n 1)" >revoked
	queued 0
	command_of "$PID"
	holds_for 1000 alive "$PID" "$COMMAND"
	etcdctl_ends "$PID"
}

@test "kill -9 of the program: who ends the command, and who keeps the lock" {
	hold -t 5s --
	kill -KILL "$HOLDER"
	wait_until 5 ended "$COMMAND"
	start flock "$T/f" sleep 300
	command_of "$PID"
	kill -KILL "$PID"
	run -1 flock -n "$T/f" true
	alive "$COMMAND"
	kill "$COMMAND"
	etcdctl_holds
	command_of "$PID"
	kill -KILL "$PID"
	wait_until 15 queued 0
	alive "$COMMAND"
	kill "$COMMAND"
}
