# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A cluster of three masters and a replica. Tests that move a slot leave it where it is then.

load ../lib/helpers
load topology
load redisson

setup_file() {
	cluster_for_file
}

teardown_file() {
	cluster_file_end
}

prepare() {
	cluster_load
	export DLOCK_BACKEND=$URI
	node_of "$KEY"
	OTHER=$((NODE % 3 + 1))
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$NODE
}

# on_node N ARG...: redis-cli to this node
on_node() {
	local n=$1
	shift
	at "${NODE_PORTS[n]}" "$@"
}

# names_of_all: sets NAMES to three names, one on each master
names_of_all() {
	local n
	NAMES=()
	for ((n = 0; ${#NAMES[@]} < 3; n++)); do
		node_of "dlock:$LOCK-$n"
		((NODE != ${#NAMES[@]} + 1)) || NAMES+=("$LOCK-$n")
	done
}

@test "a lock of each master is taken, refused to others, shown and listed, through any node" {
	local n name tokens=()
	names_of_all
	for n in 1 2 3; do
		name=${NAMES[n - 1]}
		tokens[n]=$("$DLOCK" acquire -b "redis+cluster://127.0.0.1:${NODE_PORTS[n]}" -t 10s "$name")
		equal "$(on_node "$n" get "dlock:$name")" "${tokens[n]}" "on its master"
		run -124 "$DLOCK" run -n -b "redis+cluster://127.0.0.1:${NODE_PORTS[n % 3 + 1]}" "$name" -- true
		run -124 "$DLOCK" run -n -b "redis+cluster://127.0.0.1:${NODE_PORTS[4]}" "$name" -- true
		run -1 "$DLOCK" status "$name"
	done
	run "$DLOCK" status
	for name in "${NAMES[@]}"; do
		matches "$output" "$name"
	done
	for n in 1 2 3; do
		"$DLOCK" renew "${NAMES[n - 1]}" "${tokens[n]}"
		"$DLOCK" verify "${NAMES[n - 1]}" "${tokens[n]}"
		"$DLOCK" release "${NAMES[n - 1]}" "${tokens[n]}"
	done
	run "$DLOCK" check
	between "$status" 0 1
}

@test "the permissions in dlock-redis.7 suffice, also while a slot moves" {
	local n
	for n in 1 2 3; do
		permit "${NODE_PORTS[n]}"
	done
	DLOCK_BACKEND=redis+cluster://jobs:PASSWORD@${URI#*//}
	hold -t 3s --
	start "$DLOCK" run -w 20s "$LOCK" -- true
	wait_until 5 answers 1 "${NODE_PORTS[NODE]}" zcard "{$KEY}:queue"
	begin_move "$NODE" "$OTHER"
	move_keys "$NODE" "$OTHER"
	"$DLOCK" verify "$LOCK" "$TOKEN"
	end_move "$NODE" "$OTHER"
	release
	join "$PID"
	equal "$status" 0
	for n in 1 2 3; do
		on_node "$n" acl deluser jobs >/dev/null
	done
}

@test "a database is refused, and so is a URI without a node" {
	run --separate-stderr -125 "$DLOCK" run -b "$URI/1" "$LOCK" -- true
	one_line 'no databases'
	run --separate-stderr -125 "$DLOCK" run -b redis+cluster:// "$LOCK" -- true
	one_line 'host'
	"$DLOCK" run -b "$URI/" "$LOCK" -- true
}

# [11]
# bats test_tags=more
@test "names with braces are taken where all their keys have one slot, and refused where they have not" {
	local name
	for name in 'a{b}c' 'a{b' '{a}'; do
		"$DLOCK" run "$LOCK$name" -- true
	done
	for name in "${LOCK}a}b" "${LOCK}a{}b" '{}x' '{}' '}'; do
		run --separate-stderr -122 "$DLOCK" run "$name" -- touch ran
		one_line "a name with a '}' needs"
		run --separate-stderr -122 "$DLOCK" status "$name"
		one_line "a name with a '}' needs"
		run --separate-stderr -122 "$DLOCK" wait -w 1s "$name"
		one_line "a name with a '}' needs"
		run --separate-stderr -122 "$DLOCK" run -b "$URI?prefix=" "$name" -- touch ran
		one_line "a name with a '}' needs"
	done
	[[ ! -e ran ]]
}

# [19]
# bats test_tags=more
@test "nodes that send dlock to each other in a circle: 122 in time, and no advice that is followed already" {
	local first
	free_port
	tool listener -a $'-MOVED 1 127.0.0.1:'"$PORT"$'\r\n'
	first=$TOOL_PORT
	socat "TCP-LISTEN:$PORT,bind=127.0.0.1,reuseaddr,fork" "TCP:127.0.0.1:$first" \
		</dev/null >/dev/null 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	wait_until 5 eval '(: <>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null'
	# the first node redirects dlock to the second one, which is the first one by another name
	timed "$DLOCK" run -n -b "redis+cluster://127.0.0.1:$first?timeout=1s&connect-timeout=1s" "$LOCK" -- touch ran
	equal "$status" 122
	# On a busy machine the time is up before the bound of the redirections is reached.
	one_line 'the nodes of the cluster disagree on which of them has the lock .MOVED 1 |: no answer'
	took "$MS" 0 6000
	[[ ! -e ran ]]
}

has_shards() {
	[[ $(on_node 1 spublish x y 2>&1) != *'unknown command'* ]] || not_here "needs Redis 7"
}

# as_java MESSAGES COUNT: dlock and a Java program contend for each kind of lock of Redisson, with
# these messages; see peer, and listeners
as_java() {
	local kinds channel
	node_of "$LOCK"
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$NODE
	for kinds in lock:reentrant fenced:fenced write:readwrite fair:fair; do
		# shellcheck disable=SC2086 # nothing, or a word
		peer 30000 $1
		export DLOCK_BACKEND="$URI?dialect=redisson&lock=${kinds#*:}"
		channel=redisson_lock__channel
		[[ $kinds != write:* ]] || channel=redisson_rwlock
		if [[ $kinds == fair:* ]]; then
			excludes fair in_queue 1
			excluded fair in_queue 1
		else
			excludes "${kinds%:*}" listeners 1 "$channel"
			excluded "${kinds%:*}" listeners 1 "$channel" "$2"
		fi
		kill_peer
	done
}

# [12]
@test "Redisson with a cluster of Redis 7: sharded messages wake dlock, and dlock sends them" {
	has_shards
	as_java sharded shardnumsub
}

# bats test_tags=more
@test "Redisson with a cluster: the permissions in the manual are enough" {
	local n words
	has_shards
	node_of "$LOCK"
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$NODE
	for n in 1 2 3; do
		redisson_acl on_node "$n" >/dev/null
		for words in +asking +ssubscribe; do
			mapfile -t words < <(redis_acl "$words" | xargs -n 1)
			on_node "$n" "${words[@]:1}" >/dev/null
		done
	done
	peer 30000 sharded
	DLOCK_BACKEND="redis+cluster://jobs:sesame@${URI#*//}?dialect=redisson"
	excludes lock listeners 1
	excluded lock listeners 1 redisson_lock__channel shardnumsub
	for n in 1 2 3; do
		on_node "$n" acl deluser jobs >/dev/null
	done
}

# bats test_tags=more
@test "Redisson with a cluster of an older Redis: messages without shards wake dlock, and Java" {
	as_java '' numsub
}

# bats test_tags=more
@test "slot moves under waiters for a lock of Redisson: they listen and get it at the new node" {
	local n pids=()
	node_of "$LOCK"
	OTHER=$((NODE % 3 + 1))
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$NODE
	export DLOCK_BACKEND="$URI?dialect=redisson"
	hold -t 30s --
	for n in 1 2; do
		start "$DLOCK" run "$LOCK" -- sh -c 'echo "$0" >>ran' "$n"
		pids+=("$PID")
	done
	wait_until 5 listeners 2
	move_slot "$NODE" "$OTHER"
	REDIS_DIR=$BATS_FILE_TMPDIR/node.$OTHER
	wait_until 3 listeners 2
	wait_until 3 listeners 2 redisson_lock__channel shardnumsub
	release
	for n in "${pids[@]}"; do
		join "$n" 2
		equal "$status" 0
	done
	equal "$(sort ran | tr '\n' ' ')" "1 2 "
}

@test "nodes that are down or do not answer are passed over; without any it fails at once" {
	local dead
	free_port
	dead=127.0.0.1:$PORT
	timed "$DLOCK" run -b "redis+cluster://$dead,127.0.0.1:${NODE_PORTS[2]}" "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 900
	private_redis
	kill -STOP "$P_PID"
	run -0 "$DLOCK" run -b "redis+cluster://127.0.0.1:$P_PORT,127.0.0.1:${NODE_PORTS[2]}?timeout=1s" \
		"$LOCK" -- true
	timed "$DLOCK" run -b "redis+cluster://$dead" "$LOCK" -- touch ran
	equal "$status" 122
	one_line 'refused'
	took "$MS" 0 2000
	[[ ! -e ran ]]
}

# [9]
# bats test_tags=more
@test "waiters are woken in order" {
	local n
	hold -t 10s --
	for n in 1 2 3; do
		wait_in_line "$n" -w 20s -b "redis+cluster://127.0.0.1:${NODE_PORTS[n]}" -- sh -c 'echo "$0" >>order' "$n"
	done
	release
	wait_until 5 has_line order 3
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	start "$DLOCK" wait "$LOCK"
	join "$PID"
	equal "$status" 0
}

@test "slot moves under a held lock: it stays held, and is released at the new node" {
	hold -t 3s --
	move_slot "$NODE" "$OTHER"
	holds_for 2500 alive "$COMMAND"
	equal "$(on_node "$OTHER" get "$KEY")" "$TOKEN"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	release
	answers 0 "${NODE_PORTS[OTHER]}" exists "$KEY"
	"$DLOCK" run "$LOCK" -- true
}

# bats test_tags=more
@test "slot moves under waiters: they get the lock, one after the other" {
	local n pids=()
	hold -t 10s --
	for n in 1 2 3; do
		wait_in_line "$n" -w 30s -- sh -c '
			[ "$(redis-cli -p "$1" get "dlock:$DLOCK_NAME")" = "$DLOCK_TOKEN" ] && echo "$0" >>ran' \
			"$n" "${NODE_PORTS[OTHER]}"
		pids+=("$PID")
	done
	move_slot "$NODE" "$OTHER"
	release
	for n in "${pids[@]}"; do
		join "$n" 8
		equal "$status" 0
	done
	equal "$(sort ran | tr '\n' ' ')" "1 2 3 "
}

# bats test_tags=more
@test "slot moves back and forth while five contend: each gets the lock, and never two at once" {
	local n swap from=$NODE to=$OTHER end pids=()
	for n in 1 2 3 4 5; do
		# the witnesses' history is judged after the test
		start sh -c 'for n in 1 2 3 4 5 6; do
			"$DLOCK" run -w 30s "$LOCK" -- "$TOOLS/witness" -l /dev/null -f 50 || exit; done'
		pids+=("$PID")
	done
	now
	end=$((NOW + 3000))
	while ((NOW < end)); do
		move_slot "$from" "$to"
		swap=$from from=$to to=$swap
		pause 0.2
		now
	done
	for n in "${pids[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
}

# [1], [19]
# bats test_tags=more
@test "slot on its way: dlock asks for a lock where it has moved, and frees it there" {
	local token waiter
	token=$("$DLOCK" acquire -t 20s "$LOCK")
	# With a waiter, all five keys exist.
	wait_in_line_of_node
	begin_move "$NODE" "$OTHER"
	move_keys "$NODE" "$OTHER"
	matches "$(on_node "$NODE" get "$KEY" 2>&1)" '^ASK '
	"$DLOCK" verify "$LOCK" "$token"
	"$DLOCK" renew "$LOCK" "$token"
	waiter=$PID
	"$DLOCK" release "$LOCK" "$token"
	end_move "$NODE" "$OTHER"
	join "$waiter" 8
	equal "$status" 0
}

# bats test_tags=more
@test "slot on its way: a lock that is new waits for the end, or gives up" {
	"$DLOCK" run "$LOCK" -- true
	begin_move "$NODE" "$OTHER"
	run --separate-stderr -122 "$DLOCK" run -b "$URI?connect-timeout=1s&timeout=1s" "$LOCK" -- touch ran
	one_line 'moving'
	[[ ! -e ran ]]
	start "$DLOCK" run "$LOCK" -- echo ran
	pause 0.3
	move_keys "$NODE" "$OTHER"
	end_move "$NODE" "$OTHER"
	join "$PID" 5
	equal "$status $(<"$OUT")" "0 ran"
}

wait_in_line_of_node() {
	start "$DLOCK" run -w 30s "$LOCK" -- true
	wait_until 5 answers 1 "${NODE_PORTS[NODE]}" zcard "{$KEY}:queue"
}

# bats test_tags=more
@test "slot on its way for longer than the lease: the command is dead in time" {
	hold -t 4s -k 500ms -- "$TOOLS/witness" -i -l log
	begin_move "$NODE" "$OTHER"
	join "$HOLDER" 12
	equal "$status" 123
	ended "$COMMAND"
	move_keys "$NODE" "$OTHER"
	end_move "$NODE" "$OTHER"
}

# role N NAME: node N is a master or a slave
role() {
	answers "$2.*" "${NODE_PORTS[$1]}" role
}

# find_replica: sets MASTER to the node that has the replica, and REPLICA to that
find_replica() {
	local n id
	for n in 1 2 3 4; do
		if role "$n" slave; then
			REPLICA=$n
			id=$(on_node "$n" cluster nodes | awk '/myself/ { print $4 }')
		fi
	done
	for n in 1 2 3 4; do
		[[ $(node_id "$n") != "$id" ]] || MASTER=$n
	done
}

# choose_lock: sets LOCK and KEY to a lock of the node MASTER
choose_lock() {
	local n
	for ((n = 0; ; n++)); do
		node_of "dlock:$LOCK-$n"
		((NODE != MASTER)) || break
	done
	export LOCK=$LOCK-$n
	KEY=dlock:$LOCK
}

# renewed_at N: a lease of 9 s has more than 7 s left there
renewed_at() {
	local ttl
	ttl=$(on_node "$1" --raw eval 'return redis.call("PTTL", KEYS[1])' 1 "$KEY")
	((ttl > 7000)) && [[ $(on_node "$1" get "$KEY") == "$TOKEN" ]]
}

# bats test_tags=more
@test "master frozen: a lock that its replica does not have is lost, and the command is dead in time" {
	find_replica
	choose_lock
	hold -t 6s -k 500ms -- "$TOOLS/witness" -i -l log
	on_node "$REPLICA" config set replica-read-only no >/dev/null
	kill -STOP "${NODE_PIDS[MASTER]}"
	wait_until 10 role "$REPLICA" master
	on_node "$REPLICA" del "$KEY" >/dev/null
	kill -CONT "${NODE_PIDS[MASTER]}"
	join "$HOLDER" 8
	equal "$status" 123
	ended "$COMMAND"
	not answers "$TOKEN" "${NODE_PORTS[REPLICA]}" get "$KEY"
	wait_until 15 cluster_well
	on_node "$REPLICA" config set replica-read-only yes >/dev/null
}

# bats test_tags=more
@test "the password changes on all servers, and in its file: holder and waiter log in with the new one" {
	on_all() {
		local n
		for n in 1 2 3 4; do
			on_node "$n" "$@"
		done
	}
	outlives_password "redis+cluster://jobs@${URI#*//}"
}

# The last test: the node does not come back.
@test "master killed: the lock that its replica has stays held, and goes on to a waiter" {
	find_replica
	choose_lock
	hold -t 9s --
	start "$DLOCK" run -w 40s "$LOCK" -- echo "got it"
	wait_until 5 answers 1 "${NODE_PORTS[MASTER]}" zcard "{$KEY}:queue"
	server_stop "$BATS_FILE_TMPDIR/node.$MASTER"
	wait_until 10 role "$REPLICA" master
	# The waiter gets the lock only after the holder has renewed it there.
	wait_until 9 renewed_at "$REPLICA"
	alive "$COMMAND"
	release
	join "$PID" 10
	equal "$status $(<"$OUT")" "0 got it"
}
