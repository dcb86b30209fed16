# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# When the Redis server fails or refuses, dlock ends with 122, one line that names it, and no lock.

load ../lib/helpers
load redis

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
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?connect-timeout=1s"
	took "$MS" 990 4000
}

@test "error: a server that accepts a connection and never answers ends the run within timeout" {
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?timeout=1s"
	took "$MS" 990 4000
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
	refused "127\\.0\\.0\\.1:$TOOL_PORT" "redis://127.0.0.1:$TOOL_PORT?timeout=1s"
}

# measured: sets DLOCK to a script that writes how many KiB of memory dlock, or a process of its, took
measured() {
	cat >measured <<-END
		#!/usr/bin/python3
		import resource, subprocess, sys
		status = subprocess.run(["$DLOCK", *sys.argv[1:]]).returncode
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=open("$T/memory", "w"))
		sys.exit(status)
	END
	chmod +x measured
	DLOCK=$T/measured
}

# is_small: what ran last took less than 64 MiB; a sanitizer takes more
is_small() {
	grep -q __asan_init "$BUILD/dlock" || between "$(<memory)" 1 65536 "KiB of memory"
}

# floods REGEX [URI]: each command that asks this server ends in time, with one line that matches; in the
# core of the tests these are run, and a command that lists locks
floods() {
	local regex=$1 uri=${2:-redis://127.0.0.1:$TOOL_PORT?} command commands=(status)
	uri+='&timeout=200ms&connect-timeout=1s'
	uri=${uri/\?&/?}
	refused "$regex" "$uri" -n
	took "$MS" 0 3500
	is_small
	in_core || commands+=('acquire -n NAME' 'status NAME' 'wait NAME' check
		'break --yes NAME' 'verify NAME TOKEN' 'renew NAME TOKEN' 'release NAME TOKEN')
	for command in "${commands[@]}"; do
		command=${command/NAME/$LOCK}
		# shellcheck disable=SC2086 # words
		timed "$DLOCK" ${command/TOKEN/0123456789abcdef0123456789abcdef} -b "$uri"
		equal "$status" 122 "status of $command"
		# check reports what it finds on standard output
		matches "$stderr$output" "$regex" "what $command says"
		took "$MS" 0 3500 "ms of $command"
		is_small
	done
}

# On a busy machine the time is up before the bound is reached.
TOO_LARGE='sends a reply that is too large|no answer'

# bats test_tags=more
@test "error: a reply that never ends is not read for longer than timeout, nor kept" {
	measured
	tool listener '+' "$(head -c 1000 /dev/zero | tr '\0' A)" 0
	floods "$TOO_LARGE"
	tool listener $'*100000000\r\n' $':1\r\n' 0
	floods "$TOO_LARGE"
	tool listener $'*200000\r\n' $'*200000\r\n:1\r\n' 0
	floods "$TOO_LARGE"
	tool listener $'$2000000000\r\n' "$(head -c 1000 /dev/zero | tr '\0' A)" 0
	floods "$TOO_LARGE"
	tool listener $'*2147483647\r\n'
	floods "$TOO_LARGE"
}

# bats test_tags=more
@test "error: a server that sends a byte now and then does not move the end of timeout" {
	measured
	tool listener '+' A 30
	floods 'no answer'
	tool listener '' '+' 1000
	floods 'no answer'
}

# bats test_tags=deeper
@test "error: a reply that never ends, through a socket, TLS, a sentinel, and in a cluster" {
	local uri
	measured
	tool listener '+' "$(head -c 1000 /dev/zero | tr '\0' A)" 0
	socat "UNIX-LISTEN:$T/sock,fork" "TCP:127.0.0.1:$TOOL_PORT" </dev/null >/dev/null 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	wait_until 5 test -S sock
	for uri in "redis+cluster://127.0.0.1:$TOOL_PORT?" $(long_or "redis+unix://$T/sock? \
		redis+sentinel://127.0.0.1:$TOOL_PORT/m?" ''); do
		floods "$TOO_LARGE" "$uri"
	done
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=s -keyout key.pem -out cert.pem 2>openssl.log
	cat key.pem >>cert.pem
	free_port
	socat "OPENSSL-LISTEN:$PORT,bind=127.0.0.1,reuseaddr,fork,verify=0,cert=cert.pem" "TCP:127.0.0.1:$TOOL_PORT" \
		</dev/null >/dev/null 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	wait_until 5 eval '(: <>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null'
	floods "$TOO_LARGE" "rediss://127.0.0.1:$PORT?insecure=yes"
}

# bats test_tags=more
@test "error: messages that never end do not keep a waiter from its timeout" {
	measured
	tool listener '' $'*5\r\n:0\r\n:100000\r\n:0\r\n$1\r\n0\r\n:0\r\n' 0
	timed "$DLOCK" run -b "redis://127.0.0.1:$TOOL_PORT?timeout=1s" -w 2s "$LOCK" -- touch ran
	equal "$status" 124
	took "$MS" 1900 5000
	is_small
	[[ ! -e ran ]]
	# as replies, these say that the lock is held
	tool listener '' $'*3\r\n$1\r\n0\r\n*1\r\n*7\r\n$0\r\n\r\n:0\r\n$1\r\nx\r\n:0\r\n$0\r\n\r\n$1\r\n5\r\n:100000\r\n*0\r\n' 0
	timed "$DLOCK" wait -b "redis://127.0.0.1:$TOOL_PORT?timeout=1s" -w 2s "$LOCK"
	equal "$status" 124
	took "$MS" 1900 5000
	is_small
}

# bats test_tags=more
@test "error: a fence that no later one could exceed is refused by name" {
	local fence
	private_redis
	for fence in 9007199254740991 9007199254740992 9223372036854775807; do
		redis_at "$P_DIR" set "{$KEY}:fence" "$fence"
		refused 'the fence would be 9[0-9]*, which no clock gives: .*somebody' "$P_URI"
		run --separate-stderr -122 "$DLOCK" acquire -b "$P_URI" "$LOCK"
		run -0 "$DLOCK" status -b "$P_URI" "$LOCK"
		equal "$(redis_at "$P_DIR" --scan)" "{$KEY}:fence" "what is left"
	done
	redis_at "$P_DIR" set "{$KEY}:fence" 9007199254740990
	run -0 "$DLOCK" run -b "$P_URI" "$LOCK" -- printenv DLOCK_FENCE
	equal "$output" 9007199254740991
	refused 'which no clock gives' "$P_URI"
}

# bats test_tags=more
@test "error: impossible ages and leases are shown as possible times" {
	tool listener -a $'*3\r\n$1\r\n0\r\n*2\r\n*7\r\n$0\r\n\r\n:0\r\n$1\r\nx\r\n:9223372036854775807\r\n$0\r\n\r\n$1\r\n5\r\n:9223372036854775807\r\n*7\r\n$0\r\n\r\n:0\r\n$1\r\nx\r\n:-9223372036854775808\r\n$0\r\n\r\n$1\r\n5\r\n:-9223372036854775808\r\n*0\r\n'
	run --separate-stderr -1 "$DLOCK" status --json -b "redis://127.0.0.1:$TOOL_PORT" "$LOCK"
	equal "$(jq -c '[.holders[] | .held_for_ms, .expires_in_ms]' <<<"$output")" \
		'[3153600000000,3153600000000,null,null]'
}

@test "error: the password is missing, is wrong, or is not wanted" {
	private_redis --requirepass Sesame8
	refused 'NOAUTH|password' "$P_URI"
	refused WRONGPASS "redis://:wrong@127.0.0.1:$P_PORT"
	refused WRONGPASS "redis://nobody:Sesame8@127.0.0.1:$P_PORT"
	REDISCLI_AUTH=Sesame8 nothing_on_private
	refused 'AUTH|password' "redis://:pw@127.0.0.1:$REDIS_PORT"
}

# answers REPLY...: starts a server that sends these replies, whatever it is asked
answers() {
	printf -v REPLIES '%s\r\n' "$@"
	tool listener "$REPLIES"
	export DLOCK_BACKEND="redis://127.0.0.1:$TOOL_PORT?timeout=1s"
}

# said STATUS REGEX ARG...: dlock ends with STATUS, and its one line matches and is harmless
said() {
	local regex=$2
	run --separate-stderr "-$1" "$DLOCK" "${@:3}" </dev/null
	harmless "$stderr$output"
	one_line "$regex"
}

@test "error: the error of a server is shown in one line without control characters" {
	local arguments
	answers "-ERR no such thing $EVIL"
	for arguments in "run -n $LOCK -- true" "acquire $LOCK" status "wait $LOCK" "break --yes $LOCK" \
		'check -q'; do
		# shellcheck disable=SC2086 # words
		said 122 'ERR no such thing .*dlock: forged' $arguments
	done
	run --separate-stderr -122 "$DLOCK" run --log json -n "$LOCK" -- true
	harmless "$stderr"
	jq -e '.message | test("ERR no such thing \u001b]0;x\u0007.*\u009b31m \u007f \ufffd"; "s")' <<<"$stderr"
}

# bats test_tags=more
@test "the type of a key, as a server reports it, is one line without control characters" {
	answers '*3' '$1' 0 '*1' '*7' '$0' '' :0 '$1' x :0 '$0' '' '$1' 0 :-1 '*0' '*1' "\$${#EVIL}" "$EVIL"
	said 122 "is a .* of another program" break --yes "$LOCK"
}

# bats test_tags=more
@test "check shows INFO and CONFIG of a server without control characters, a line for each finding" {
	local version='redis_version:7' aof='aof_enabled:1' info
	info=$version.${EVIL%%$'\n'*}$'\r\n'$aof
	LC_ALL=C
	answers '*2' '$1' 1 '$1' 0 "\$${#info}" "$info" \
		'*2' '$11' appendfsync "\$${#EVIL}" "$EVIL"
	run --separate-stderr -122 "$DLOCK" check
	equal "$stderr" ""
	harmless "$output"
	matches "$output" $'\nok +version +Redis 7\\..*31m'
	matches "$output" $'\nnote +persistence +append-only file, appendfsync .*31m'
	equal "$(grep -cvE '^(ok|note|warning|error) ' <<<"$output")" 0 "lines that are no finding"
	run --separate-stderr -122 "$DLOCK" check --json
	harmless "$output"
	jq -e '.findings | any(.finding | contains("\u001b[31m"))' <<<"$output"
}

# [1]
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

# replies SCAN SUBSCRIBE: starts a server that refuses scripts for now, and answers SCAN and SUBSCRIBE
# with these replies; "" closes the connection
replies() {
	cat >replies.py <<-'END'
		import socketserver, sys
		class Client(socketserver.StreamRequestHandler):
		    def handle(self):
		        while line := self.rfile.readline():
		            words = []
		            for _ in range(int(line[1:])):
		                words.append(self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2])
		            verb = words[0].upper()
		            reply = b"*5\r\n:0\r\n:9000\r\n:0\r\n$1\r\n5\r\n:0\r\n"
		            if verb in (b"SCAN", b"SUBSCRIBE"):
		                reply = sys.argv[1 + (verb == b"SUBSCRIBE")].encode().decode("unicode_escape").encode()
		            if not reply:
		                return
		            self.wfile.write(reply)
		class Server(socketserver.ThreadingTCPServer):
		    daemon_threads = True
		with Server(("127.0.0.1", 0), Client) as server:
		    print(server.server_address[1], file=open("port", "w"), flush=True)
		    server.serve_forever()
	END
	setpriv --pdeathsig KILL python3 replies.py "$@" 3>&- 4>&- &
	REPLIES=$!
	wait_until 20 test -s port
	DLOCK_BACKEND="redis://127.0.0.1:$(<port)?timeout=1s"
	export DLOCK_BACKEND
}

@test "error: a list of locks that never ends is refused in time" {
	replies '*2\r\n$1\r\n7\r\n*1\r\n$17\r\n{dlock:a}:holders\r\n' ''
	# 15 times ?timeout=, or 2^18 names, whichever is sooner
	timed "$DLOCK" status -b "${DLOCK_BACKEND%timeout=*}timeout=500ms"
	equal "$status" 122
	one_line 'list of locks does not end'
	[[ $stderr == *': 262145 names '* ]] || took "$MS" 7000 15000
	took "$MS" 0 15000
	kill "$REPLIES"
}

@test "error: a proxy that closes the connection at SUBSCRIBE is reported as such" {
	replies '' ''
	run --separate-stderr -122 "$DLOCK" run -w 10s "$LOCK" -- true
	one_line 'SUBSCRIBE.*pub/sub'
	kill "$REPLIES"
}

@test "a server that is full or fails over is down, and one that refuses is not" {
	private_redis
	redis_at "$P_DIR" config set maxmemory 1
	run --separate-stderr -0 "$DLOCK" run --if-down run -b "$P_URI" "$LOCK" -- touch full
	[[ -e full ]]
	redis_at "$P_DIR" config set maxmemory 0
	redis_at "$P_DIR" replicaof 127.0.0.1 1
	run --separate-stderr -0 "$DLOCK" run --if-down run -b "$P_URI" "$LOCK" -- touch replica
	[[ -e replica ]]
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused 'Redis protocol' "redis://127.0.0.1:$TOOL_PORT" --if-down run
}

@test "messages about URIs that are almost right name the remedy" {
	run --separate-stderr -125 "$DLOCK" status -b redis
	one_line 'redis://HOST'
	run --separate-stderr -125 "$DLOCK" status -b 'redis://h?tls=yes'
	one_line 'rediss://'
	run --separate-stderr -125 "$DLOCK" status -b redis://Sesame8@h
	one_line '://:PASSWORD@'
	[[ $stderr != *Sesame* ]]
	private_redis
	run --separate-stderr -122 "$DLOCK" status -b "redis+cluster://127.0.0.1:$P_PORT"
	one_line 'no cluster.*redis:'
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

# bats test_tags=more
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
	server_stop "$P_DIR"
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

# bats test_tags=more
@test "error: the server has too many clients" {
	private_redis --maxclients 1
	redis_at "$P_DIR" subscribe x </dev/null >subscribed 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 5 has_line subscribed subscribe
	refused 'max number of clients' "$P_URI"
}

@test "while waiting: the server begins to refuse commands, and a waiter goes on until it takes them again" {
	private_redis
	redis_at "$P_DIR" set "$KEY" stranger
	start "$DLOCK" run --if-down run -b "$P_URI?timeout=1s" -w 40s "$LOCK" -- touch ran
	wait_until 5 p_waiters 1
	redis_at "$P_DIR" config set requirepass Sesame8
	redis_at "$P_DIR" -a Sesame8 --no-auth-warning client kill type normal
	redis_at "$P_DIR" -a Sesame8 --no-auth-warning client kill type pubsub
	wait_until 10 has_line "$ERR" '^dlock: .*(NOAUTH|password).*; trying again$'
	[[ ! -e ran ]]
	redis_at "$P_DIR" -a Sesame8 --no-auth-warning config set requirepass ''
	redis_at "$P_DIR" del "$KEY"
	join "$PID" 15
	equal "$status" 0 "status ($(<"$ERR"))"
	[[ -e ran ]]
	equal "$(wc -l <"$ERR")" 1 "lines on stderr"
}

# bats test_tags=more
@test "error: a server that runs no scripts is refused by name, and nothing is taken" {
	private_redis --rename-command EVAL '' --rename-command EVALSHA ''
	refused 'runs no scripts, which dlock needs' "redis://127.0.0.1:$P_PORT" -n
	equal "$(redis_at "$P_DIR" dbsize)" 0
}
