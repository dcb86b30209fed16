# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Several Redis servers that are one backend: a master, a replica and three sentinels, or a cluster.
# All of them are fast to give a server up, and to put another one in its place.

# shellcheck source=tests/redis/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"

# at PORT ARG...: redis-cli to the server at this port
at() {
	local port=$1
	shift
	"$REDIS_CLI" -p "$port" "$@"
}

# answers WANTED PORT ARG...: the server's answer is this text, or matches it as a regular expression
answers() {
	local wanted=$1
	shift
	[[ $(at "$@" 2>&1) =~ ^$wanted$ ]]
}

# permit PORT: makes the user jobs at this server, as dlock-redis.7 says, without what operators
# need
permit() {
	local word words
	for word in +evalsha +role +asking; do
		mapfile -t words < <(redis_acl "$word" | xargs -n 1)
		equal "${words[*]:0:4}" "redis-cli acl setuser jobs"
		at "$1" "${words[@]:1}" >/dev/null
	done
}

# ---- Sentinel

# sentinels [LINE]...: a master, a replica and three sentinels that know each other from the start,
# each with these lines in its configuration. Sets M_PORT, M_PID, M_DIR, the same with R, the arrays
# S_PORTS and S_PIDS, and URI.
sentinels() {
	local n other known ports=()
	private_redis
	M_PORT=$P_PORT M_PID=$P_PID M_DIR=$P_DIR
	private_redis --replicaof "127.0.0.1 $M_PORT" --repl-timeout 5
	R_PORT=$P_PORT R_PID=$P_PID R_DIR=$P_DIR
	wait_until 10 has_link "$R_PORT"
	for n in 1 2 3; do
		free_port
		ports+=("$PORT")
	done
	S_PORTS=("${ports[@]}") S_PIDS=()
	for n in 0 1 2; do
		known=()
		for other in 0 1 2; do
			((other == n)) ||
				known+=("sentinel known-sentinel m 127.0.0.1 ${ports[other]} $(sentinel_id "$other")")
		done
		redis_sentinel_start "$T/sentinel.$n" "${ports[n]}" "sentinel myid $(sentinel_id "$n")" \
			"sentinel monitor m 127.0.0.1 $M_PORT 2" 'sentinel down-after-milliseconds m 400' \
			'sentinel failover-timeout m 3000' "sentinel known-replica m 127.0.0.1 $R_PORT" \
			"${known[@]}" "$@"
		S_PIDS+=("$(<"$T/sentinel.$n/pid")")
	done
	SERVICES+=("${S_PIDS[@]}")
	for n in 0 1 2; do
		wait_until 10 sees_all "${ports[n]}"
	done
	URI=redis+sentinel://127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}/m
	export DLOCK_BACKEND=$URI
}

sentinel_id() {
	printf '%040d' "$(($1 + 1))"
}

has_link() {
	at "$1" info replication | grep -q '^master_link_status:up'
}

sees_all() {
	at "$1" info sentinel 2>/dev/null |
		grep -q 'status=ok,address=.*,slaves=1,sentinels=3' || answers 'NOAUTH.*' "$1" ping
}

# master_is PORT: the sentinels agree on it
master_is() {
	local port
	for port in "${S_PORTS[@]}"; do
		[[ $(at "$port" sentinel get-master-addr-by-name m) == 127.0.0.1*"$1" ]] || return 1
	done
}

# ---- Cluster

# How many nodes a cluster has: three masters, the nodes 1 to 3, and replicas; node 4 is one of 1,
# and so on.
CLUSTER_COUNT=4

# cluster_for_file: for setup_file
cluster_for_file() {
	local n dir ports=()
	for ((n = 1; n <= CLUSTER_COUNT; n++)); do
		dir=$BATS_FILE_TMPDIR/node.$n
		# the port of the cluster's bus is larger by 10,000
		redis_start "$dir" "${CLUSTER_OPTIONS[@]}"
		ports+=("$(<"$dir/port")")
		at "${ports[-1]}" cluster set-config-epoch "$n" >/dev/null
	done
	at "${ports[0]}" cluster addslots {0..5460} >/dev/null
	at "${ports[1]}" cluster addslots {5461..10922} >/dev/null
	at "${ports[2]}" cluster addslots {10923..16383} >/dev/null
	for ((n = 1; n < CLUSTER_COUNT; n++)); do
		at "${ports[n]}" cluster meet 127.0.0.1 "${ports[0]}" >/dev/null
	done
	for ((n = 3; n < CLUSTER_COUNT; n++)); do
		wait_until 10 answers OK "${ports[n]}" cluster replicate "$(at "${ports[n - 3]}" cluster myid)"
	done
	cluster_load
	wait_until 15 cluster_well
}

CLUSTER_OPTIONS=(--cluster-enabled yes --cluster-node-timeout 1000 --cluster-replica-validity-factor 0)

cluster_file_end() {
	local n
	for ((n = 1; n <= CLUSTER_COUNT; n++)); do
		if [[ -f $BATS_FILE_TMPDIR/node.$n/pid ]]; then
			server_stop "$BATS_FILE_TMPDIR/node.$n"
		fi
	done
}

# cluster_load: sets the arrays NODE_PORTS and NODE_PIDS, from 1 on, and URI
cluster_load() {
	local n
	NODE_PORTS=(0) NODE_PIDS=(0) URI=
	for ((n = 1; n <= CLUSTER_COUNT; n++)); do
		NODE_PORTS[n]=$(<"$BATS_FILE_TMPDIR/node.$n/port")
		NODE_PIDS[n]=$(<"$BATS_FILE_TMPDIR/node.$n/pid")
		URI+=,127.0.0.1:${NODE_PORTS[n]}
	done
	URI=redis+cluster://${URI#,}
}

# cluster_well: all nodes see all slots served, and all nodes there, with the replicas
cluster_well() {
	local n nodes
	for ((n = 1; n <= CLUSTER_COUNT; n++)); do
		at "${NODE_PORTS[n]}" cluster info 2>/dev/null | grep -q '^cluster_state:ok' || return 1
		nodes=$(at "${NODE_PORTS[n]}" cluster nodes)
		[[ $(grep -c ' connected' <<<"$nodes") == "$CLUSTER_COUNT" && $nodes != *fail* && $nodes != *handshake* ]] ||
			return 1
		[[ $(grep -c slave <<<"$nodes") == $((CLUSTER_COUNT - 3)) ]] || return 1
	done
	for ((n = 1; n <= CLUSTER_COUNT; n++)); do
		if answers 'slave.*' "${NODE_PORTS[n]}" role; then
			has_link "${NODE_PORTS[n]}" || return 1
		fi
	done
}

# node_of KEY: sets NODE to the number of the master that has this key's slot, and SLOT
node_of() {
	SLOT=$(at "${NODE_PORTS[2]}" cluster keyslot "$1")
	for NODE in 1 2 3 4; do
		# any other node sends on to that one
		if answers '[01]' "${NODE_PORTS[NODE]}" exists "$1"; then
			return 0
		fi
	done
	return 1
}

# node_id N: prints it
node_id() {
	at "${NODE_PORTS[$1]}" cluster myid
}

# begin_move N TO: begins to move $SLOT from one node to another
begin_move() {
	at "${NODE_PORTS[$2]}" cluster setslot "$SLOT" importing "$(node_id "$1")" >/dev/null
	at "${NODE_PORTS[$1]}" cluster setslot "$SLOT" migrating "$(node_id "$2")" >/dev/null
}

# move_keys N TO: moves the keys that $SLOT has
move_keys() {
	local keys
	mapfile -t keys < <(at "${NODE_PORTS[$1]}" cluster getkeysinslot "$SLOT" 100)
	if ((${#keys[@]})) && [[ -n ${keys[0]} ]]; then
		at "${NODE_PORTS[$1]}" migrate 127.0.0.1 "${NODE_PORTS[$2]}" '' 0 2000 keys "${keys[@]}" >/dev/null
	fi
}

# end_move N TO: the slot is at its new node, and all masters know
end_move() {
	local n id
	id=$(node_id "$2")
	at "${NODE_PORTS[$2]}" cluster setslot "$SLOT" node "$id" >/dev/null
	at "${NODE_PORTS[$1]}" cluster setslot "$SLOT" node "$id" >/dev/null
}

# move_slot N TO: all of it
move_slot() {
	begin_move "$1" "$2"
	move_keys "$1" "$2"
	end_move "$1" "$2"
}
