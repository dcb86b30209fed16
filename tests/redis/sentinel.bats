# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A master, its replica and three sentinels, which each test has for itself.

load ../lib/helpers
load topology
load redisson

# A sentinel makes the replica the master from now on. The old master, which is well,
# does not know of that for some seconds.
order_failover() {
	at "${S_PORTS[0]}" sentinel failover m >/dev/null
	wait_until 10 master_is "$R_PORT"
}

# has_token PORT: this server says that $TOKEN holds the lock
has_token() {
	answers "$TOKEN" "$1" get "$KEY"
}

# renewed_at PORT MS: this server says so, and the lease has more than MS left
renewed_at() {
	local ttl
	ttl=$(at "$1" pttl "$KEY")
	((ttl > $2)) && has_token "$1"
}

# stale_sentinel PORT: starts a sentinel that names this server to all; sets STALE to its place
stale_sentinel() {
	cat >stale <<-END
		#!/bin/sh
		read -r line
		printf '*2\\r\\n\$9\\r\\n127.0.0.1\\r\\n\$${#1}\\r\\n$1\\r\\n'
		sleep 1
	END
	chmod +x stale
	free_port
	STALE=127.0.0.1:$PORT
	socat "TCP-LISTEN:$PORT,bind=127.0.0.1,reuseaddr,fork" EXEC:./stale \
		</dev/null >/dev/null 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	wait_until 5 listens "$PORT"
}

listens() {
	(: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# [13], [18]
@test "the master is found, used in the database of the URI, and shown; sentinels may be down, deaf or wrong" {
	local token dead slow
	sentinels
	token=$("$DLOCK" acquire -b "$URI/2" -t 10s "$LOCK")
	equal "$(at "$M_PORT" -n 2 get "$KEY")" "$token"
	run -124 "$DLOCK" run -n -b "$URI/2" "$LOCK" -- true
	run -1 "$DLOCK" status -b "$URI/2" "$LOCK"
	run -0 "$DLOCK" status -b "$URI/2"
	matches "$output" "$LOCK"
	"$DLOCK" renew -b "$URI/2" "$LOCK" "$token"
	"$DLOCK" release -b "$URI/2" "$LOCK" "$token"
	run "$DLOCK" check
	between "$status" 0 1
	# down
	free_port
	dead=127.0.0.1:$PORT
	"$DLOCK" run -b "redis+sentinel://$dead,127.0.0.1:${S_PORTS[1]}/m" "$LOCK" -- true
	# The first sentinel does not answer, and is given up after a quarter of the 5 s of timeout.
	kill -STOP "${S_PIDS[0]}"
	timed "$DLOCK" run "$LOCK" -- true
	equal "$status" 0
	took "$MS" 500 2000
	kill -CONT "${S_PIDS[0]}"
	# slow, all five
	start_proxy "${S_PORTS[1]}"
	proxy hold 1000
	slow=127.0.0.1:$TOOL_PORT
	"$DLOCK" run -b "redis+sentinel://$slow,$slow,$slow,$slow,$slow/m" "$LOCK" -- true
	# wrong: it names the replica
	stale_sentinel "$R_PORT"
	timed "$DLOCK" run -b "redis+sentinel://$STALE,127.0.0.1:${S_PORTS[1]}/m" "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 1500
	timed "$DLOCK" run -b "redis+sentinel://$STALE/m?connect-timeout=1s&timeout=1s" "$LOCK" -- touch ran
	equal "$status" 122
	one_line 'is a replica, not the master'
	took "$MS" 400 2000
	# none
	timed "$DLOCK" run -b "redis+sentinel://$dead/m" "$LOCK" -- touch ran
	equal "$status" 122
	one_line "sentinel $dead: .*refused"
	took "$MS" 0 1000
	run --separate-stderr -122 "$DLOCK" run -b "${URI%/m}/other" "$LOCK" -- touch ran
	one_line "watches no master 'other'"
	run --separate-stderr -125 "$DLOCK" run -b "${URI%/m}" "$LOCK" -- touch ran
	one_line 'path is missing: write .*/MASTER'
	run --separate-stderr -125 "$DLOCK" run -b "$URI/x" "$LOCK" -- touch ran
	one_line "'x' is not the number of a database"
	[[ ! -e ran ]]
}

@test "sentinels with a password: it is read from a file, and asked for where it is missing; the master has users of its own" {
	sentinels 'requirepass s3cret'
	run --separate-stderr -122 "$DLOCK" run "$LOCK" -- touch ran
	one_line 'wants a password'
	echo wrong >password
	chmod 600 password
	run --separate-stderr -122 "$DLOCK" run -b "$URI?sentinel-password-file=$T/password" "$LOCK" -- touch ran
	one_line 'wrong|WRONGPASS'
	[[ ! -e ran ]]
	echo s3cret >password
	"$DLOCK" run -b "$URI?sentinel-password-file=$T/password" "$LOCK" -- true
	"$DLOCK" run -b "$URI?sentinel-user=default&sentinel-password-file=$T/password" "$LOCK" -- true
	run --separate-stderr -125 "$DLOCK" run -b "$URI?sentinel-user=default" "$LOCK" -- true
	one_line 'a user without a password.*[?]sentinel-password-file=PATH'
	# and a user of the master
	permit "$M_PORT"
	"$DLOCK" run -b "redis+sentinel://jobs:PASSWORD@${URI#*//}?sentinel-password-file=$T/password" "$LOCK" -- true
	chmod 644 password
	run --separate-stderr -0 "$DLOCK" run -b "$URI?sentinel-password-file=$T/password" "$LOCK" -- true
	one_line 'others can read'
}

@test "master killed, its replica has the lock: the command runs on, and a waiter gets the lock after it" {
	sentinels
	hold -t 6s --
	contend "$COMMAND"
	wait_until 5 answers 1 "$R_PORT" zcard "{$KEY}:queue"
	kill -KILL "$M_PID"
	wait_until 15 master_is "$R_PORT"
	wait_until 6 renewed_at "$R_PORT" 4500
	alive "$COMMAND"
	release
	met_nobody
}

# bats test_tags=more
@test "master killed, replica without the lock: the command is dead in time, and no lease is taken again" {
	sentinels
	at "$R_PORT" config set replica-read-only no >/dev/null
	hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l log
	at "$R_PORT" del "$KEY" >/dev/null
	kill -KILL "$M_PID"
	holds_for 1000 not has_token "$R_PORT"
	join "$HOLDER" 8
	equal "$status" 123
	ended "$COMMAND"
	wait_until 15 master_is "$R_PORT"
	not has_token "$R_PORT"
	"$DLOCK" run "$LOCK" -- true
}

@test "master frozen: the lock is held on at its replica, and the old master does not get it back" {
	sentinels
	hold -t 6s --
	wait_until 2 has_token "$R_PORT"
	kill -STOP "$M_PID"
	wait_until 15 master_is "$R_PORT"
	kill -CONT "$M_PID"
	wait_until 6 renewed_at "$R_PORT" 4500
	# The old master takes writes for a while, but nobody writes to it.
	run -124 "$DLOCK" run -n "$LOCK" -- true
	holds_for 2500 alive "$COMMAND"
	has_token "$R_PORT"
	release
	"$DLOCK" run "$LOCK" -- true
}

# [18]
# bats test_tags=more
@test "old master still takes writes: holder and waiters leave it, and its replies do not count" {
	local waiter
	sentinels
	hold -t 3s --
	start "$DLOCK" run -w 30s "$LOCK" -- echo "got it"
	waiter=$PID
	wait_until 5 answers 1 "$R_PORT" zcard "{$KEY}:queue"
	order_failover
	answers 'master.*' "$M_PORT" role
	# The old master stays a master for as long as no sentinel reaches it.
	wait_until 4 renewed_at "$R_PORT" 2000
	# On the old master the lock ends, so that a waiter there would get it.
	at "$M_PORT" del "$KEY" "{$KEY}:holders" >/dev/null
	at "$M_PORT" publish "{$KEY}:wake:free" 0 >/dev/null
	holds_for 3500 alive "$COMMAND" "$waiter"
	has_token "$R_PORT"
	release
	join "$waiter" 12
	equal "$status" 0
}

# bats test_tags=more
@test "lock taken from the old master only: the command is dead in time" {
	sentinels
	at "$R_PORT" config set replica-read-only no >/dev/null
	hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l log
	order_failover
	at "$R_PORT" del "$KEY" >/dev/null
	join "$HOLDER" 5
	equal "$status" 123
	ended "$COMMAND"
	not has_token "$R_PORT"
}

# bats test_tags=more
@test "all sentinels are down: a lock stays held for as long as its master answers" {
	sentinels
	hold -t 3s --
	kill -KILL "${S_PIDS[@]}"
	holds_for 4500 alive "$COMMAND"
	has_token "$M_PORT"
	release
}

# bats test_tags=more
@test "Redisson with sentinels: dlock and Java exclude and wake each other, also after a failover" {
	sentinels
	DLOCK_BACKEND="$URI?dialect=redisson"
	REDIS_DIR=$M_DIR
	peer
	excludes lock listeners 1
	excluded lock listeners 1
	hold -t 6s --
	start "$DLOCK" run "$LOCK" -- touch turn
	local waiter=$PID
	wait_until 5 listeners 1
	kill_peer
	kill -KILL "$M_PID"
	wait_until 15 master_is "$R_PORT"
	REDIS_DIR=$R_DIR
	wait_until 8 listeners 1
	alive "$COMMAND"
	[[ ! -e turn ]]
	release
	join "$waiter" 2
	equal "$status" 0
	peer
	excluded lock listeners 1
}

# bats test_tags=more
@test "the password changes on all servers, and in its file: holder and waiter log in with the new one" {
	sentinels
	on_all() {
		at "$M_PORT" "$@"
		at "$R_PORT" "$@"
	}
	outlives_password "redis+sentinel://jobs@${URI#*//}"
}
