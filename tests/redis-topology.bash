# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Several Redis servers that are one backend: a master, a replica and three sentinels, which are fast
# to give a server up, and to put another one in its place.

# shellcheck source=tests/redis.bash
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

# ---- Sentinel

# sentinels [LINE]...: a master, a replica and three sentinels that know each other from the start,
# each with these lines in its configuration. Sets M_PORT, M_PID, R_PORT, R_PID, the arrays S_PORTS
# and S_PIDS, and URI.
sentinels() {
	local n other known ports=()
	private_redis
	M_PORT=$P_PORT M_PID=$P_PID
	private_redis --replicaof "127.0.0.1 $M_PORT" --repl-timeout 5
	R_PORT=$P_PORT R_PID=$P_PID
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
