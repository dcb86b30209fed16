# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# With ?replicas=N, a hold on Redis counts only when N replicas have it, too.

load ../lib/helpers
load redis

# replicated [N]: a private server with N replicas (1); sets R_DIR, R_PID and R_PORT to the last one,
# and P_REPLICAS to the URI that waits for one replica
replicated() {
	local n dir port pid
	private_redis
	dir=$P_DIR port=$P_PORT pid=$P_PID
	for ((n = 0; n < ${1:-1}; n++)); do
		private_redis --replicaof 127.0.0.1 "$port"
		wait_until 10 linked
		R_DIR=$P_DIR R_PORT=$P_PORT R_PID=$P_PID
	done
	P_DIR=$dir P_PORT=$port P_PID=$pid P_URI=redis://127.0.0.1:$port
	wait_until 10 online "${1:-1}"
	P_REPLICAS="$P_URI?replicas=1"
}

linked() {
	redis_at "$P_DIR" info replication | grep -q 'master_link_status:up'
}

# online N: N replicas have all that was written, and have said so
online() {
	[[ $(printf 'set probe 1\ndel probe\nwait %s 200\n' "$1" | redis_at "$P_DIR" | tail -n 1) == "$1" ]]
}

# nothing_taken: the master has nothing of this lock but its fence
nothing_taken() {
	not grep -qF -- "$LOCK" <(redis_at "$P_DIR" --scan | grep -v '}:fence$')
}

on_replica() {
	[[ $(redis_at "$R_DIR" get "$KEY") == "$TOKEN" ]]
}

@test "the command starts when the replica has the lock" {
	replicated
	run -0 "$DLOCK" run -b "$P_REPLICAS" "$LOCK" -- \
		sh -c '[ "$(redis-cli -p "$0" get "dlock:$DLOCK_NAME")" = "$DLOCK_TOKEN" ]' "$R_PORT"
	nothing_taken
	run --separate-stderr -0 "$DLOCK" acquire -b "$P_REPLICAS" -s -t 20s "$LOCK"
	equal "$(redis_at "$R_DIR" zrange "$KEY" 0 -1)" "$output"
	run -0 "$DLOCK" release -b "$P_REPLICAS" "$LOCK" "$output"
}

# [16]
@test "too few replicas: 122, a message with their number, and nothing stays taken" {
	local option
	replicated
	for option in -n --shared --slots=2 --min-hold=1m; do
		run --separate-stderr -122 "$DLOCK" acquire "$option" -b "$P_URI?replicas=2&timeout=1s" "$LOCK"
		one_line 'only 1 of 2 replicas has the lock$'
		nothing_taken
	done
	private_redis
	run --separate-stderr -122 "$DLOCK" run -b "$P_URI?replicas=1&timeout=1s" "$LOCK" -- touch ran
	one_line 'only 0 of 1 replicas have the lock$'
	nothing_taken
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "a frozen replica: 122 within the request's timeout; with a second replica the lock is taken" {
	replicated 2
	kill -STOP "$R_PID"
	timed "$DLOCK" run -b "$P_URI?replicas=2&timeout=1s" "$LOCK" -- touch ran
	equal "$status" 122
	took "$MS" 450 2500
	one_line 'only 1 of 2 replicas has the lock$'
	nothing_taken
	[[ ! -e ran ]]
	run -0 "$DLOCK" run -b "$P_REPLICAS" "$LOCK" -- touch ran
	[[ -e ran ]]
	kill -CONT "$R_PID"
}

# [16]
# bats test_tags=more
@test "the connection ends while the replicas are asked: no hold, and no answer of another connection counts" {
	replicated
	kill -STOP "$R_PID"
	start "$DLOCK" run -b "$P_REPLICAS&timeout=4s" "$LOCK" -- touch ran
	wait_until 5 blocked
	# On a new connection WAIT would succeed, because this connection has written nothing.
	redis_at "$P_DIR" client kill type normal skipme yes
	join "$PID"
	equal "$status" 122
	[[ ! -e ran ]]
	nothing_taken
	kill -CONT "$R_PID"
}

blocked() {
	redis_at "$P_DIR" info clients | grep -q '^blocked_clients:1'
}

# bats test_tags=more
@test "TERM while the replicas are asked: the lock is released" {
	replicated
	kill -STOP "$R_PID"
	start "$DLOCK" run -b "$P_REPLICAS&timeout=20s" "$LOCK" -- touch ran
	wait_until 5 blocked
	kill -TERM "$PID"
	join "$PID" 3
	equal "$status" 143
	[[ ! -e ran ]]
	nothing_taken
	kill -CONT "$R_PID"
}

# [16]
@test "a replica that stays away: the command is dead before the lease that was confirmed ends" {
	local end
	replicated
	hold -b "$P_REPLICAS&timeout=1s" -t 6s -k 1s -- sh -c 'trap "" TERM; while :; do sleep 0.02; done'
	now
	# The last lease that the replica has confirmed began before this moment.
	end=$((NOW + 6000))
	kill -STOP "$R_PID"
	wait_until 10 ended "$COMMAND"
	now
	((NOW <= end)) || fail "the command lived until $NOW, the lease ended at $end"
	join "$HOLDER"
	equal "$status" 123
	has_line "$HOLDER_ERR" 'cannot renew the lock: .*only 0 of 1 replicas have the lock; trying again'
	kill -CONT "$R_PID"
}

# bats test_tags=more
@test "a replica that was killed and comes back in time: the hold goes on" {
	replicated
	hold -b "$P_REPLICAS&timeout=1s" -t 4s --
	kill -KILL "$R_PID"
	wait_until 5 has_line "$HOLDER_ERR" 'cannot renew the lock'
	redis_launch "$R_DIR" "$R_PORT" --replicaof 127.0.0.1 "$P_PORT"
	SERVICES+=("$(<"$R_DIR/pid")")
	wait_until 5 has_line "$HOLDER_ERR" 'renewed again'
	wait_until 2 on_replica
	alive "$COMMAND"
	release
	nothing_taken
}

@test "a waiter gets the lock by message: its command starts only when the replica has it" {
	local waiter
	replicated
	hold -b "$P_REPLICAS" --
	start "$DLOCK" run -b "$P_REPLICAS&timeout=1s" "$LOCK" -- touch ran
	waiter=$PID
	wait_until 5 p_waiters 1
	kill -STOP "$R_PID"
	# A release needs no replica.
	release
	holds_for 1500 test ! -e ran
	alive "$waiter"
	kill -CONT "$R_PID"
	join "$waiter" 8
	equal "$status" 0
	[[ -e ran ]]
	nothing_taken
}

# bats test_tags=more
@test "a renewal, or a nested acquire, that no replica confirms ends with 122" {
	replicated
	take=$("$DLOCK" acquire -b "$P_REPLICAS" -t 60s "$LOCK")
	kill -STOP "$R_PID"
	run --separate-stderr -122 env DLOCK_TOKEN="$take" DLOCK_NAME="$LOCK" \
		"$DLOCK" acquire -b "$P_REPLICAS&timeout=1s" "$LOCK"
	one_line 'only 0 of 1 replicas'
	run --separate-stderr -122 "$DLOCK" renew -b "$P_REPLICAS&timeout=1s" "$LOCK" "$take"
	one_line 'only 0 of 1 replicas'
	kill -CONT "$R_PID"
	"$DLOCK" release -b "$P_REPLICAS" "$LOCK" "$take"
	nothing_taken
}

@test "failover: a promoted replica has the lock, its holder's fence, and keeps others out" {
	replicated
	hold -b "$P_REPLICAS" -t 20s --
	kill -STOP "$P_PID"
	redis_at "$R_DIR" replicaof no one
	run -124 "$DLOCK" run -n -b "redis://127.0.0.1:$R_PORT" "$LOCK" -- true
	kill -CONT "$P_PID"
	redis_at "$R_DIR" del "$KEY"
	run -0 "$DLOCK" run -n -b "redis://127.0.0.1:$R_PORT" "$LOCK" -- printenv DLOCK_FENCE
	((output > FENCE)) || fail "fence $output after $FENCE"
	release
}

# [15]
# bats test_tags=more
@test "failover by name, connections stay open: the hold goes on at the new address" {
	own_names
	private_redis
	R_DIR=$T/replica
	mkdir "$R_DIR"
	redis_launch "$R_DIR" "$P_PORT" --bind 127.0.0.2 --replicaof 127.0.0.1 "$P_PORT"
	SERVICES+=("$(<"$R_DIR/pid")")
	echo 127.0.0.1 master.test >hosts
	hold -b "redis://master.test:$P_PORT" -t 6s --
	wait_until 10 on_replica
	redis_at "$R_DIR" replicaof no one
	redis_at "$P_DIR" replicaof 127.0.0.2 "$P_PORT"
	echo 127.0.0.2 master.test >hosts
	holds_for 8000 on_replica
	alive "$COMMAND"
	release
	not on_replica
}

@test "?replicas= wants a number; without the permission for WAIT nobody gets a lock" {
	local value
	for value in 0 x 1x 1001 99999999999999999999; do
		run --separate-stderr -125 "$DLOCK" run -b "$REDIS?replicas=$value" "$LOCK" -- true
		one_line 'replicas='
	done
	replicated
	redis_at "$P_DIR" acl setuser jobs on '>pw' '~*' '&*' +@all -wait
	run --separate-stderr -122 "$DLOCK" run -b "redis://jobs:pw@127.0.0.1:$P_PORT?replicas=1" "$LOCK" -- true
	one_line 'permission'
	nothing_taken
	run -122 "$DLOCK" check -b "redis://jobs:pw@127.0.0.1:$P_PORT?replicas=1"
	matches "$output" 'error +unusable .*permission.*wait'
}

@test "check: whether holds wait for replicas, and whether there are enough" {
	local row
	replicated
	run "$DLOCK" check -b "$P_URI"
	row=$(awk '$2 == "replication"' <<<"$output")
	matches "$row" '^warning .*1 replicas.*\?replicas='
	run "$DLOCK" check -b "$P_REPLICAS"
	row=$(awk '$2 == "replication"' <<<"$output")
	matches "$row" '^ok .*each hold waits for 1'
	run -122 "$DLOCK" check -b "$P_URI?replicas=2&timeout=1s"
	matches "$output" 'error +unusable .*replicas'
	# The probe of check leaves its fence.
	equal "$(redis_at "$P_DIR" --scan | grep -cv ':fence$')" 0 "keys on the server"
}
