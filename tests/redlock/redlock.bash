# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Five real Redis servers for Redlock. They write each change to disk before they answer, and say
# that they have been up for half a day, so that they vote at once. They are younger than a day, for
# which an acquisition waits for the answers of all.

# redlock_start DIR COUNT [OPTION VALUE]...: servers in DIR/1, DIR/2 and so on. Sets HOSTS to what
# stands in a URI.
redlock_start() {
	local dir=$1 count=$2 node
	shift 2
	HOSTS=
	for ((node = 1; node <= count; node++)); do
		redis_start "$dir/$node" "$@"
		HOSTS+=${HOSTS:+,}127.0.0.1:$(<"$dir/$node/port")
	done
}

# redlock_for_file, redlock_file_end: for setup_file and teardown_file
redlock_for_file() {
	export NODES=$BATS_FILE_TMPDIR/nodes
	elder redlock_start "$NODES" 5 --appendonly yes --appendfsync always
	export REDLOCK=redlock://$HOSTS
}

redlock_file_end() {
	local dir
	for dir in "$NODES"/*; do
		server_stop "$dir"
	done
}

# private_redlock COUNT [OPTION VALUE]...: servers of this test alone, in P_NODES. Sets P_URI.
private_redlock() {
	local dir
	P_NODES=$T/nodes.${#SERVICES[@]}
	redlock_start "$P_NODES" "$@"
	for dir in "$P_NODES"/*; do
		SERVICES+=("$(<"$dir/pid")")
	done
	P_URI=redlock://$HOSTS
}

# at NODE ARG...: redis-cli to one of the servers
at() {
	redis_at "${P_NODES-$NODES}/$1" "${@:2}"
}

# everywhere ARG...: what each server says
everywhere() {
	local node
	for node in "${P_NODES-$NODES}"/*; do
		redis_at "$node" "$@"
	done
}

# votes TOKEN N: N nodes have the lock for this token
votes() {
	[[ $(everywhere get "$KEY" | grep -cx -- "$1") == "$2" ]]
}

# redlock_leftovers: prints what is not a fence, and channels that somebody listens to
redlock_leftovers() {
	everywhere --scan | grep -F -- "$LOCK" | grep -v '}:fence$'
	everywhere pubsub channels "*$LOCK*"
}

nothing_on_nodes() {
	everywhere ping >"$T/pong" && [[ -z $(redlock_leftovers) ]]
}

# redlock_waiters: prints how many living waiters stand in the longest line of all nodes
redlock_waiters() {
	everywhere eval "local count = 0
		for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
			if redis.call('PUBSUB', 'NUMSUB', ARGV[1] .. who)[2] > 0 then count = count + 1 end
		end
		return count" 1 "{$KEY}:queue" "{$KEY}:wake:" | sort -n | tail -n 1
}

# redlock_contents TEXT: see contents in conformance/contents.bash
redlock_contents() {
	local node key
	for node in "$NODES"/*; do
		redis_at "$node" --scan | grep -F -- "$1" | sort | while read -r key; do
			echo "${node##*/} $key $(redis_at "$node" dump "$key" | sha256sum)"
		done
	done
}
