# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# When the Redis server fails or refuses, dlock ends with 122, one line that names it, and no lock.

load helpers
load redis

# refused REGEX URI [OPTION]...: dlock ends with 122 and one line that matches, and runs nothing
refused() {
	local regex=$1 uri=$2
	shift 2
	timed "$DLOCK" run -b "$uri" "$@" "$LOCK" -- touch ran
	equal "$status" 122
	equal "$output" ""
	one_line "$regex"
	[[ ! -e ran ]]
}

nothing_on_private() {
	equal "$(redis_at "$P_DIR" dbsize)" "${P_SIZE:-0}" "keys on the server"
}

@test "error: no server listens at the port" {
	refused '127\.0\.0\.1:1.*(refused|Refused)' redis://127.0.0.1:1
	refused "$T/none" "redis+unix://$T/none"
	touch plain
	refused "$T/plain" "redis+unix://$T/plain"
}

@test "error: the host's name does not resolve" {
	refused 'no-such-host\.invalid' redis://no-such-host.invalid
}

@test "error: a host that answers no packet ends the run within connect-timeout" {
	tool listener
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?connect-timeout=400ms"
	took "$MS" 390 3500
}

@test "error: a server that accepts a connection and never answers ends the run within timeout" {
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?timeout=400ms"
	took "$MS" 390 3500
}

@test "error: the server speaks another protocol than Redis" {
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT"
	tool listener $'SSH-2.0-OpenSSH_9.2\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT"
	# These are replies in the protocol of Redis, but not to what was asked.
	tool listener $'*-1\r\n*-1\r\n*-1\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT"
	tool listener $'+OK\r\n+OK\r\n+OK\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT"
	tool listener $':9223372036854775807\r\n$-5\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT"
	tool listener $'*3\r\n:1\r\n*99999999\r\n'
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?timeout=500ms"
}

@test "error: the password is missing, is wrong, or is not wanted" {
	private_redis --requirepass Sesame8
	refused 'NOAUTH|password' "$P_URI"
	refused WRONGPASS "redis://:wrong@127.0.0.1:$P_PORT"
	refused WRONGPASS "redis://nobody:Sesame8@127.0.0.1:$P_PORT"
	REDISCLI_AUTH=Sesame8 nothing_on_private
	refused 'AUTH|password' "redis://:pw@127.0.0.1:$REDIS_PORT"
}

@test "error: the user has not all privileges" {
	private_redis
	redis_at "$P_DIR" acl setuser noscript on '>pw' '~*' '&*' +@all -@scripting
	redis_at "$P_DIR" acl setuser nokeys on '>pw' '~other:*' '&*' +@all
	redis_at "$P_DIR" acl setuser nothing on '>pw'
	refused NOPERM "redis://noscript:pw@127.0.0.1:$P_PORT"
	refused 'NOPERM|permission' "redis://nokeys:pw@127.0.0.1:$P_PORT"
	refused NOPERM "redis://nothing:pw@127.0.0.1:$P_PORT"
	refused NOPERM "redis://nothing:pw@127.0.0.1:$P_PORT/1"
	nothing_on_private
}

@test "error: the database does not exist" {
	refused 'DB|database|99' "$REDIS/99"
	only_fences
}

@test "error: the server is a replica that takes no writes" {
	private_redis --replicaof 127.0.0.1 "$REDIS_PORT"
	wait_until 10 eval 'redis_at "$P_DIR" info replication | grep -q master_link_status:up'
	refused READONLY "$P_URI"
	only_fences
}

@test "error: the server is a replica that has lost its master" {
	private_redis --replicaof 127.0.0.1 1 --replica-serve-stale-data no
	refused 'MASTERDOWN|READONLY' "$P_URI"
}

@test "error: the server is out of memory" {
	private_redis --maxmemory 1 --maxmemory-policy noeviction
	refused OOM "$P_URI"
	nothing_on_private
}

@test "error: the server refuses to write because it cannot save" {
	private_redis --dbfilename dump
	redis_at "$P_DIR" config set save '3600 1'
	redis_at "$P_DIR" set a b
	# Nobody can make this file, not even root.
	mkdir "$P_DIR/dump"
	redis_at "$P_DIR" bgsave
	wait_until 10 eval 'redis_at "$P_DIR" info persistence | grep -q rdb_last_bgsave_status:err'
	refused MISCONF "$P_URI"
	P_SIZE=1 nothing_on_private
}

@test "error: the server is loading its data" {
	private_redis
	redis_at "$P_DIR" eval 'for i = 1, 1000 do redis.call("set", i, string.rep("x", 2000)) end' 0
	redis_at "$P_DIR" save
	redis_stop "$P_DIR"
	redis_launch_loading
	refused LOADING "$P_URI"
}

# redis_launch_loading: the private server again; it takes half a minute to load
redis_launch_loading() {
	"$REDIS_SERVER" --port "$P_PORT" --bind 127.0.0.1 --unixsocket "$P_DIR/sock" --dir "$P_DIR" \
		--logfile '' --save '' --key-load-delay 30000 \
		--loading-process-events-interval-bytes 1024 </dev/null >"$T/loading" 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 10 eval 'redis_at "$P_DIR" ping 2>&1 | grep -q LOADING'
}

@test "error: the server has too many clients" {
	private_redis --maxclients 1
	redis_at "$P_DIR" subscribe x </dev/null >subscribed 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 5 has_line subscribed subscribe
	refused 'max number of clients' "$P_URI"
}

@test "error while waiting: the server begins to refuse commands" {
	private_redis
	redis_at "$P_DIR" set "$KEY" stranger px 3000
	start "$DLOCK" run -b "$P_URI?timeout=500ms" -w 20s "$LOCK" -- touch ran
	wait_until 5 p_waiters 1
	redis_at "$P_DIR" config set requirepass Sesame8
	redis_at "$P_DIR" -a Sesame8 --no-auth-warning client kill type normal
	redis_at "$P_DIR" -a Sesame8 --no-auth-warning client kill type pubsub
	join "$PID" 15
	equal "$status" 122 "status ($(<"$ERR"))"
	has_line "$ERR" '^dlock: .*(NOAUTH|password)'
	equal "$(wc -l <"$ERR")" 1 "lines on stderr"
}
