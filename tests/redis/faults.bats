# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# dlock keeps its promises about a lock on Redis when server, network or dlock fail.

load ../lib/helpers
load redis

@test "the witness, which these tests rely on, sees that a lease ends" {
	local token=0123456789abcdef
	rcli set "$KEY" $token px 5000
	start "$TOOLS/witness" -i -l log -p "$REDIS_PORT" -k "$KEY" -t $token
	wait_until 5 has_line log ' held '
	wait_until 10 has_line log ' LOST -$'
	rcli set "$KEY" other
	wait_until 5 has_line log ' LOST other$'
	rcli del "$KEY"
	kill -KILL "$PID"
	join "$PID"
}

# connections: prints how many the test's own server has had
connections() {
	redis_at "$P_DIR" info stats | awk -F: '/^total_connections_received/ { print $2 + 0 }'
}

# bats test_tags=more
@test "a connection that is ended again and again is opened again ten times a second" {
	local before after began
	private_redis
	hold -b "$P_URI" -t 30s --
	now
	began=$NOW
	before=$(connections)
	for _ in {1..200}; do
		echo "client kill type normal skipme yes"
		sleep 0.01
	done | redis_at "$P_DIR" >ended
	after=$(connections)
	now
	between $((after - before)) 5 $(((NOW - began) / 100 + 5))
	release
}

# p_asked: the test's own server, which is stopped, has been sent something
p_asked() {
	grep -Eq ":$(printf %04X "$P_PORT") [0-9A-F:]+ 01 [0-9A-F]+:0*[1-9A-F]" /proc/net/tcp
}

@test "ended before the reply to its request: it releases over the same connection" {
	local before after
	private_redis
	before=$(connections)
	kill -STOP "$P_PID"
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- touch never
	wait_until 5 p_asked
	kill -TERM "$PID"
	# A keeper that hangs for a second is replaced, and the next one has a connection of its own.
	sleep 0.05
	kill -CONT "$P_PID"
	join "$PID" 3
	equal "$status" 143
	after=$(connections)
	# that of dlock, and that of the second count
	equal $((after - before)) 2
	[[ ! -e never ]]
	wait_until 1 p_key_gone
}

# ---- the command is dead before the lease ends

# term_came TIME: the witness got TERM then. A slow machine makes it later, never
# earlier; the lease that the server told of counts from when it was granted, which is
# later than when it was asked for.
term_came() {
	local term
	term=$(awk '$2 == "TERM" { print $1; exit }' log)
	took "$term" $(($1 - 800)) $(($1 + 300)) "time of TERM"
}

@test "server frozen: the tree is dead before the lease ends; TERM came at its end less kill-after" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 6s -k 1s
	kill -STOP "$P_PID"
	lost
	dead_in_time
	# dlock allows 62 ms for the drift of the clocks.
	term_came $((LEASE - 1000 - 62))
	kill -CONT "$P_PID"
	wait_until 3 p_key_gone
}

# bats test_tags=more
@test "server frozen: the default of kill-after is capped at a third of the TTL" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 6s
	kill -STOP "$P_PID"
	lost
	dead_in_time
	term_came $((LEASE - 2000 - 62))
}

# bats test_tags=more
@test "server frozen: a daemon that closed everything and ignores TERM is dead in time" {
	private_redis
	hold -b "$P_URI" -t 4s -- sh -c 'exec "$TOOLS/daemonize" -c -w -p daemon "$TOOLS/witness" -i -l "$T/log" \
		-p "$0" -k "dlock:$DLOCK_NAME" -t "$DLOCK_TOKEN"' "$P_PORT"
	wait_until 5 has_line log ' held '
	kill -STOP "$P_PID"
	lost
	ended "$(<daemon)"
	dead_in_time
}

@test "server frozen for a moment: the command runs on" {
	private_redis
	testify "$P_PORT" -b "$P_URI?timeout=1s" -t 6s -k 1s
	kill -STOP "$P_PID"
	# A renewal is sent after 2 s, and TERM is due 3 s later.
	wait_until 5 p_asked
	holds_for 500 alive "$COMMAND"
	kill -CONT "$P_PID"
	lives_on 6000
	end_witness
}

# bats test_tags=more
@test "keeper stopped: the tree is dead before the lease ends" {
	testify "$REDIS_PORT" -t 4s
	keeper_of "$HOLDER"
	kill -STOP "$KEEPER"
	lost
	dead_in_time
	ended "$KEEPER"
	wait_until 3 only_fences
}

@test "keeper killed: the tree is dead before the lease ends" {
	testify "$REDIS_PORT" -t 4s
	keeper_of "$HOLDER"
	kill -KILL "$KEEPER"
	lost
	dead_in_time
	wait_until 3 only_fences
}

# bats test_tags=more
@test "keeper killed while the server is frozen: the tree is dead before the lease ends" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	keeper_of "$HOLDER"
	kill -STOP "$P_PID"
	kill -KILL "$KEEPER"
	lost
	dead_in_time
}

@test "dlock stopped: the lock stays held, or the tree is dead in time" {
	testify "$REDIS_PORT" -t 4s
	kill -STOP "$HOLDER"
	holds_for 5000 lost_nothing
	kill -CONT "$HOLDER"
	if alive "$COMMAND"; then
		end_witness
	else
		lost
	fi
}

# bats test_tags=more
@test "dlock stopped and server frozen: the tree is dead before the lease ends" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	kill -STOP "$HOLDER" "$P_PID"
	wait_until 10 ended "$COMMAND"
	dead_in_time
	kill -CONT "$HOLDER"
	lost
}

# bats test_tags=more
@test "guard stopped and server frozen: the tree is dead before the lease ends" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	guard_of "$HOLDER"
	kill -STOP "$GUARD" "$P_PID"
	lost
	dead_in_time
	ended "$GUARD"
}

# bats test_tags=more
@test "guard stopped for a while: the lock stays held" {
	testify "$REDIS_PORT" -t 4s
	guard_of "$HOLDER"
	kill -STOP "$GUARD"
	lives_on 5500
	kill -CONT "$GUARD"
	end_witness
}

# When dlock or the guard does not read, the socket between them has no room for messages any more.

# bats test_tags=more
@test "dlock stopped while the command stops and goes on 600 times, server frozen: dead in time" {
	local n
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 10s
	kill -STOP "$HOLDER"
	guard_of "$HOLDER"
	for ((n = 0; n < 600; n++)); do
		kill -STOP "$COMMAND"
		# The guard tells dlock of a stop only if it sees the stop.
		wait_until 5 stopped "$COMMAND"
		kill -CONT "$COMMAND"
	done
	# The witness was stopped for nearly all of that time, and has to see the last renewal.
	n=$(wc -l <log)
	wait_until 5 eval '(($(wc -l <log) > n + 2))'
	kill -STOP "$P_PID"
	wait_until 15 ended "$COMMAND"
	dead_in_time
	kill -CONT "$HOLDER"
	lost
}

# bats test_tags=more
@test "guard stopped while 2000 signals are sent to dlock, server frozen: dead in time" {
	local n stopper
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	guard_of "$HOLDER"
	while kill -STOP "$GUARD" 2>/dev/null; do :; done 3>&- 4>&- &
	stopper=$!
	STARTED+=("$stopper")
	kill -STOP "$P_PID"
	for ((n = 0; n < 2000; n++)); do
		kill -WINCH "$HOLDER" 2>/dev/null || break
		kill -URG "$HOLDER" 2>/dev/null || break
	done
	join "$HOLDER" 15
	matches "$status" '^(123|137)$' "status"
	dead_in_time
}

# bats test_tags=more
@test "dlock and guard stopped as the command ends: the lock stays held, and the keeper sleeps" {
	local before after
	# The kernel continues the guard after half of the lease.
	hold -t 30s --
	keeper_of "$HOLDER"
	guard_of "$HOLDER"
	kill -STOP "$HOLDER" "$GUARD"
	kill -KILL "$COMMAND"
	read -ra before <"/proc/$KEEPER/stat"
	sleep 1.5
	read -ra after <"/proc/$KEEPER/stat"
	# These are user and system time, in hundredths of a second.
	between $((after[13] + after[14] - before[13] - before[14])) 0 5
	equal "$(rcli exists "dlock:$LOCK")" 1
	kill -CONT "$HOLDER" "$GUARD"
	join "$HOLDER" 10
	equal "$status" 137
	equal "$(rcli exists "dlock:$LOCK")" 0
}

# bats test_tags=more
@test "dlock killed while the server is frozen: the tree dies, and the lock lapses" {
	private_redis
	hold -b "$P_URI" -t 3s -k 300ms --
	local family
	family=$(tree "$HOLDER")
	kill -STOP "$P_PID"
	kill -KILL "$HOLDER"
	wait_until 2 ended "$COMMAND"
	# shellcheck disable=SC2086 # words
	wait_until 10 ended $family
	kill -CONT "$P_PID"
	wait_until 5 p_key_gone
}

@test "no renewal: the tree is dead before the lease ends, however late the server replies" {
	# The server knows the scripts already, so the first request is the acquisition.
	"$DLOCK" run "$LOCK" -- true
	start_proxy "$REDIS_PORT"
	proxy hold 400
	testify "$REDIS_PORT" -b "$PROXY" -t 4s --no-renew
	not_renewed
	dead_in_time
}

# bats test_tags=more
@test "a renewal counts from when it was sent, however late the reply comes" {
	local sent
	# The server knows the scripts already, also the one for renewals.
	"$DLOCK" run -t 1s "$LOCK" -- sleep 0.5
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY" -t 12s
	keeper_of "$HOLDER"
	proxy hold 600
	proxy_stat requests
	sent=$VALUE
	wait_until 10 eval 'proxy_stat requests; ((VALUE == sent + 1))'
	# The reply has come, and the next renewal is due after a third of the TTL.
	holds_for 900 alive "$COMMAND"
	kill -STOP "$KEEPER"
	proxy_stat requests
	equal "$VALUE" $((sent + 1)) "requests up to then"
	lost
	dead_in_time
}

@test "a grant that arrives after the lease has ended starts nothing under it" {
	# The server knows the scripts already, so the first request is the acquisition.
	"$DLOCK" run "$LOCK" -- true
	start_proxy "$REDIS_PORT"
	proxy hold 1300
	start "$DLOCK" run -b "$PROXY?timeout=3s" -t 1s -w 4s -k 100ms "$LOCK" -- sh -c \
		'exec "$TOOLS/witness" -l log -f 500 -p "$0" -k "dlock:$DLOCK_NAME" -t "$DLOCK_TOKEN"' "$REDIS_PORT"
	join "$PID" 20
	[[ $status != 0 ]] || [[ -e log ]]
	not has_line log LOST
	wait_until 3 only_fences
}

# ---- the lock is lost on the server

@test "restart with data lost: the command ends, and the lock can be taken again" {
	private_redis
	hold -b "$P_URI" -t 3s --
	server_stop "$P_DIR"
	redis_launch "$P_DIR" "$P_PORT"
	SERVICES+=("$(<"$P_DIR/pid")")
	lost
	run -0 "$DLOCK" run -n -b "$P_URI" "$LOCK" -- true
}

@test "server gone for good: the tree is dead before the lease ends" {
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	server_stop "$P_DIR"
	lost
	ended "$COMMAND"
	last_sign
	lease
	((SIGN < LEASE))
}

@test "key deleted: the command ends within a TTL" {
	hold -t 1s --
	rcli del "$KEY"
	lost 2
	# The keys that tell of the holder end with the lease at the latest.
	wait_until 2 only_fences
}

@test "key deleted: a command that ignores TERM gets KILL after --kill-after" {
	testify "$REDIS_PORT" -t 3s -k 300ms
	rcli del "$KEY"
	lost
	has_line log ' TERM$'
}

@test "key taken over: the command ends, and the new holder is not touched" {
	hold -t 1s --
	rcli set "$KEY" stranger px 60000
	lost 2
	equal "$(rcli get "$KEY")" stranger
	between "$(rcli pttl "$KEY")" 50000 60000
	rcli del "$KEY"
}

@test "dlock and guard hang, and no SIGCONT helps: the command is dead before the lease ends" {
	local tracer
	private_redis
	testify "$P_PORT" -b "$P_URI" -t 4s
	guard_of "$HOLDER"
	start python3 -c '
import ctypes, sys, time
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
for pid in map(int, sys.argv[1:]):
    # PTRACE_SEIZE, PTRACE_INTERRUPT
    if ptrace(0x4206, pid, None, None) or ptrace(0x4207, pid, None, None):
        sys.exit(1)
print("traced", flush=True)
time.sleep(300)' "$HOLDER" "$GUARD"
	tracer=$PID
	wait_until 10 has_line "$OUT" traced
	kill -STOP "$P_PID"
	wait_until 10 ended "$COMMAND"
	dead_in_time
	kill -KILL "$tracer"
	kill -CONT "$P_PID"
	join "$HOLDER"
}

@test "key taken over at the very end: release does not touch it" {
	hold --
	rcli set "$KEY" stranger px 60000
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$(rcli get "$KEY")" stranger
	# The lock was lost before the command ended, and dlock has noticed it by now.
	equal "$status" 123
	rcli del "$KEY"
}

@test "--on-lost warn: the command goes on, dlock reports it, and exits with 123 at the end" {
	hold -t 1s --on-lost warn --
	rcli del "$KEY"
	wait_until 3 has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	holds_for 1500 alive "$COMMAND"
	equal "$(wc -l <"$HOLDER_ERR")" 1 "lines on stderr"
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 123
}

# bats test_tags=more
@test "--on-lost warn, server frozen: the command goes on" {
	private_redis
	hold -b "$P_URI" -t 1s --on-lost warn --
	kill -STOP "$P_PID"
	wait_until 5 has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	alive "$COMMAND"
	kill -TERM "$COMMAND"
	join "$HOLDER"
	equal "$status" 123
}

# bats test_tags=more
@test "a command that ends at the moment of the loss: dlock ends with 0 or 123, and does not hang" {
	local n
	for n in {0..14}; do
		start "$DLOCK" run -t 1s "$LOCK" -- sh -c 'echo in; sleep "$0"' "0.$((30 + 2 * n))"
		wait_until 5 has_line "$OUT" in
		rcli del "$KEY"
		join "$PID" 5
		matches "$status" '^(0|123)$' status
	done
	wait_until 2 only_fences
}

# ---- replies lost, connections cut

# [14]
@test "reply lost and connection cut at each request of a run: the command runs once, nothing is left" {
	local n
	# The server knows the scripts already, so each run sends the same requests.
	"$DLOCK" run "$LOCK" -- true
	start_proxy "$REDIS_PORT"
	for n in 1 2 3; do
		proxy cut-after $n
		run -0 "$DLOCK" run -b "$PROXY" "$LOCK" -- sh -c 'echo "$0" >>runs
			[ "$(redis-cli -p "$1" get "dlock:$DLOCK_NAME")" = "$DLOCK_TOKEN" ]' "$n" "$REDIS_PORT"
		only_fences
	done
	equal "$(tr '\n' ' ' <runs)" "1 2 3 "
	proxy_stat cut
	between "$VALUE" 2 3 "faults that happened"
}

# bats test_tags=more
@test "reply to the first try swallowed: no lock is left without a holder" {
	start_proxy "$REDIS_PORT"
	proxy drop
	start "$DLOCK" run -b "$PROXY?timeout=2s" -t 6s "$LOCK" -- echo ran
	wait_until 5 not key_gone
	proxy pass
	join "$PID" 15
	# dlock may try again, or give up and leave nothing.
	matches "$status $(<"$OUT")" '^(0 ran|122 )$'
	wait_until 8 only_fences
}

# [14]
@test "all replies swallowed: 122 in bounded time, and no lock without a holder after a TTL" {
	start_proxy "$REDIS_PORT"
	proxy drop
	run --separate-stderr -122 timeout 15 "$DLOCK" run -b "$PROXY?timeout=300ms" -t 2s "$LOCK" -- touch ran
	one_line
	[[ ! -e ran ]]
	wait_until 3 only_fences
}

# bats test_tags=more
@test "reply to a renewal lost, connection cut: the command runs on" {
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY" -t 6s
	proxy cut-after
	lives_on 5000
	proxy_stat cut
	equal "$VALUE" 1 "faults that happened"
	end_witness
	only_fences
}

@test "connections cut again and again: the command runs on" {
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY" -t 6s
	for _ in 1 2 3 4 5; do
		proxy cut
		lives_on 600
	done
	end_witness
	only_fences
}

@test "replies swallowed for a moment: the command runs on" {
	local sent
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY?timeout=1s" -t 6s -k 1s
	proxy_stat requests
	sent=$VALUE
	proxy drop
	# A renewal is sent after 2 s, and TERM is due 3 s later.
	wait_until 5 eval 'proxy_stat requests; ((VALUE > sent))'
	holds_for 500 alive "$COMMAND"
	proxy pass
	lives_on 6000
	end_witness
	only_fences
}

# bats test_tags=more
@test "replies swallowed for good: the tree is dead in time, although the server went on renewing" {
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY" -t 4s
	proxy drop
	lost
	dead_in_time
	wait_until 6 only_fences
}

@test "network gone: the tree is dead before the lease ends" {
	start_proxy "$REDIS_PORT"
	testify "$REDIS_PORT" -b "$PROXY" -t 4s
	proxy blackhole
	lost
	dead_in_time
	wait_until 6 only_fences
}

@test "reply to the release lost: the command's status, and the lock is free" {
	start_proxy "$REDIS_PORT"
	hold -b "$PROXY" --
	proxy cut-after
	release
	only_fences
	hold -b "$PROXY?timeout=1s" --
	proxy drop
	release
	only_fences
}

# bats test_tags=more
@test "scripts forgotten, or the connection closed, as the command ends: the lock is free" {
	local end
	for end in 'SCRIPT FLUSH' 'CLIENT KILL TYPE normal' 'SCRIPT FLUSH' 'CLIENT KILL TYPE normal'; do
		run --separate-stderr -0 "$DLOCK" run "$LOCK" -- \
			env REDIS_CLI="$REDIS_CLI" sh -c 'sleep 0.2; "$REDIS_CLI" -p "$REDIS_PORT" $0 >/dev/null' "$end"
		equal "$stderr" "" "after $end"
		only_fences
	done
}

@test "server unreachable at the release: dlock ends in bounded time, and the lock lapses" {
	start_proxy "$REDIS_PORT"
	hold -b "$PROXY?timeout=1s&connect-timeout=1s" -t 5s --
	proxy blackhole
	kill -TERM "$COMMAND"
	join "$HOLDER" 12
	matches "$status" '^(143|123)$'
	wait_until 8 only_fences
}

@test "slow replies: the command runs on, and the limit of the wait is kept" {
	start_proxy "$REDIS_PORT"
	proxy hold 150
	run -0 "$DLOCK" run -b "$PROXY" "$LOCK" -- true
	only_fences
	hold --
	timed "$DLOCK" run -b "$PROXY" -w 1s "$LOCK" -- true
	equal "$status" 124
	took "$MS" 990 2200
	release
	only_fences
}

# ---- the server's clock

server_seconds() {
	redis_at "$P_DIR" time | head -n 1
}

# bats test_tags=more
@test "reply to a nested acquisition lost, and to its release: it is asked again, and nothing changes" {
	start_proxy "$REDIS_PORT"
	local token
	token=$("$DLOCK" acquire -b "$REDIS" "$LOCK")
	export DLOCK_BACKEND=redis://127.0.0.1:$TOOL_PORT
	proxy cut-on EVALSHA
	run -0 env DLOCK_TOKEN="$token" "$DLOCK" acquire "$LOCK"
	equal "$output" "$token+1"
	proxy cut-on EVALSHA
	"$DLOCK" release "$LOCK" "$token+1"
	proxy_stat cut
	equal "$VALUE" 2 "replies lost"
	is_held
	"$DLOCK" release "$LOCK" "$token"
	is_free
}

@test "server's clock jumps ahead: the lock is lost, and dlock notices" {
	faked_redis
	hold -b "$P_URI" -t 3s --
	clock +3600
	wait_until 2 server_ahead 3600
	lost
	run -0 "$DLOCK" run -n -b "$P_URI" "$LOCK" -- true
}

@test "server's clock jumps back: the hold stands, and the fence still grows" {
	faked_redis
	local old
	hold -b "$P_URI" -t 4s --
	old=$FENCE
	clock -3600
	wait_until 2 server_ahead -3600
	holds_for 4000 alive "$COMMAND"
	run -124 "$DLOCK" run -n -b "$P_URI" "$LOCK" -- true
	release
	run -0 "$DLOCK" run -n -b "$P_URI" "$LOCK" -- printenv DLOCK_FENCE
	((output > old)) || fail "fence $output after $old"
}

# bats test_tags=more
@test "server's clock jumps ahead while others wait: one of them holds at a time" {
	faked_redis
	local n waiter=()
	hold -b "$P_URI" -t 6s --
	for n in 1 2 3; do
		start "$DLOCK" run -b "$P_URI" "$LOCK" -- sh -c 'mkdir in || echo overlap; echo ran; rmdir in'
		waiter+=("$PID")
	done
	wait_until 5 p_waiters 3
	clock +3600
	lost
	for n in "${waiter[@]}"; do
		join "$n" 15
		equal "$status" 0
	done
	equal "$(cat out.* | sort | uniq -c | tr -s ' \n' ' ')" " 3 ran "
}

# ---- a network that holds back what it was given

# cable: makes two hosts, OURS and THEIRS, whose cable `pull` and `plug` take out and put in
cable() {
	local host hosts=()
	need_root
	need ip nsenter unshare
	for host in ours theirs switch; do
		start setpriv --pdeathsig KILL unshare -n sh -c 'echo up; exec sleep 300'
		line "$OUT"
		hosts+=("$PID")
	done
	OURS=${hosts[0]} THEIRS=${hosts[1]} SWITCH=${hosts[2]}
	at "$SWITCH" ip link add name switch type bridge
	at "$SWITCH" ip link set switch up
	for host in 1 2; do
		at "$SWITCH" ip link add "port$host" type veth peer name eth0 netns "${hosts[host - 1]}"
		at "$SWITCH" ip link set "port$host" master switch up
		at "${hosts[host - 1]}" ip link set lo up
		at "${hosts[host - 1]}" ip addr add "10.77.0.$host/24" dev eth0
		at "${hosts[host - 1]}" ip link set eth0 up
	done
}

# at HOST COMMAND...
at() {
	nsenter -t "$1" -n "${@:2}"
}

# key: prints the value of the lock's key, read past the network
key() {
	redis-cli -s "$T/theirs" get "$KEY"
}

key_is() {
	[[ $(key) == "$1" ]]
}

# holds_back: our kernel still has something for the server that was sent and not acknowledged, or a
# connection that was closed before it was
holds_back() {
	at "$OURS" awk '$3 ~ /:18EB$/ && ($4 == "04" || $5 !~ /^0*:/) { found = 1 } END { exit !found }' \
		/proc/net/tcp
}

is_ours() {
	[[ $(key) =~ ^[0-9a-f]{32}$ ]]
}

# [14]
@test "a release that the network holds back does not end the next hold with its token" {
	cable
	start nsenter -t "$THEIRS" -n redis-server --port 6379 --bind 0.0.0.0 --protected-mode no \
		--unixsocket "$T/theirs" --save '' --dir "$T"
	wait_until 5 test -S "$T/theirs"
	redis-cli -s "$T/theirs" set "$KEY" another px 60000
	start nsenter -t "$OURS" -n "$DLOCK" run -v -t 30s \
		-b 'redis://10.77.0.2?timeout=1s&connect-timeout=1s' "$LOCK" -- sleep 300
	local late=$PID err=$ERR token
	wait_until 15 has_line "$err" ': waiting'
	# The lock comes, and nobody takes it: it is given back 3 s later.
	kill -STOP "$late"
	redis-cli -s "$T/theirs" del "$KEY"
	wait_until 5 is_ours
	token=$(key)
	# The reply has arrived, and most of the 3 s are left on a slow machine, too.
	pause 0.2
	at "$SWITCH" ip link set port2 down
	wait_until 5 holds_back
	wait_until 5 not holds_back
	kill -CONT "$late"
	# It is a waiter still, for which a server that is away is no reason to end.
	wait_until 15 has_line "$err" 'cannot connect'
	key_is "$token"
	at "$SWITCH" ip link set port2 up
	wait_until 15 has_line "$err" ': running '
	holds_for 4500 key_is "$token"
	kill -TERM "$late"
	join "$late"
	equal "$status" 143
}

# ---- dlock sleeps

# p_waits: somebody stands in line at this test's own server
p_waits() {
	[[ $(redis_at "$P_DIR" zcard "{$KEY}:queue") == 1 ]]
}

# bats test_tags=more
@test "server frozen: dlock that gives up, and whose guard is dead, sleeps" {
	private_redis
	hold -b "$P_URI" --
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- true
	guard_of "$PID"
	wait_until 5 p_waits
	kill -STOP "$P_PID" "$PID"
	kill -KILL "$GUARD"
	kill -TERM "$PID"
	kill -CONT "$PID"
	pause 0.7
	cpu_of "$PID"
	between "$CPU" 0 10 "ticks of dlock"
	kill -CONT "$P_PID"
	join "$PID"
}

# bats test_tags=more
@test "server frozen: dlock that has replaced a guard which was stopped again and again sleeps" {
	private_redis
	hold -b "$P_URI" --
	guard_of "$HOLDER"
	kill -STOP "$P_PID"
	while alive "$GUARD"; do
		kill -STOP "$GUARD" || :
		pause 0.05
	done
	ended "$COMMAND"
	idles "$HOLDER"
	kill -CONT "$P_PID"
	join "$HOLDER"
}

# owned [OPTION]...: acquires the lock for a new process, OWNER; sets TOKEN, and DAEMON to the keeper
owned() {
	start sleep 300
	OWNER=$PID
	TOKEN=$("$DLOCK" acquire "$@" --pid "$OWNER" --json "$LOCK" | tee acquired | jq -r .token)
	DAEMON=$(jq .keeper_pid acquired)
}

# bats test_tags=more
@test "a joined hold is lost, and then its daemon ends: the keeper of the run sleeps" {
	owned -t 6s
	DLOCK_TOKEN=$TOKEN hold --on-lost warn --
	keeper_of "$HOLDER"
	kill -STOP "$DAEMON"
	rcli del "$KEY"
	wait_until 5 has_line "$HOLDER_ERR" 'lock lost'
	kill -KILL "$DAEMON"
	wait_until 5 ended "$DAEMON"
	idles "$KEEPER"
	kill -TERM "$COMMAND"
	join "$HOLDER"
}

# bats test_tags=more
@test "a daemon without a descriptor for its callers sleeps, and answers later" {
	local free=3 limit
	need prlimit
	owned
	while [[ -e /proc/$DAEMON/fd/$free ]]; do
		((++free))
	done
	# With the second limit it may not even poll what it has.
	for limit in "$free" 3; do
		prlimit --pid "$DAEMON" --nofile="$limit:1024"
		start env DLOCK_TOKEN="$TOKEN" "$DLOCK" verify "$LOCK"
		pause 0.3
		idles "$DAEMON"
		prlimit --pid "$DAEMON" --nofile=1024:1024
		join "$PID"
		equal "$status" 0
	done
}

# bats test_tags=more
@test "slow replies, and signals while acquire leaves a daemon behind: it sleeps" {
	local ticks
	start sleep 300
	start_proxy "$REDIS_PORT"
	proxy hold 1000
	start "$DLOCK" acquire -b "$PROXY" --pid "$PID" "$LOCK"
	while alive "$PID"; do
		cpu_of "$PID"
		# nothing is read of a process that has just ended
		ticks=${CPU:-$ticks}
		kill -WINCH "$PID" || :
		pause 0.05
	done
	between "$ticks" 0 20 "ticks of dlock"
	join "$PID"
	equal "$status" 0
}

# bats test_tags=more
@test "slow replies, and Ctrl-C while acquire leaves a daemon behind: the lock is released" {
	local owner delay
	start sleep 300
	owner=$PID
	start_proxy "$REDIS_PORT"
	proxy hold 300
	for delay in 0 0.1 0.3; do
		start "$DLOCK" acquire -b "$PROXY" --pid "$owner" "$LOCK"
		wait_until 5 key_exists
		pause "$delay"
		kill -INT "$PID" || :
		join "$PID"
		if ((status == 0)); then
			# It was done before the signal came.
			"$DLOCK" release "$LOCK" "$(<"$OUT")"
		else
			equal "$status" 130
			equal "$(<"$OUT")" ''
		fi
		wait_until 3 is_free
	done
}

# key_exists: the server has the lock
key_exists() {
	[[ $(rcli exists "$KEY") == 1 ]]
}

# bats test_tags=more
@test "server frozen: Ctrl-C ends at once an acquire that has a hold already" {
	local token
	private_redis
	export DLOCK_BACKEND=$P_URI
	token=$("$DLOCK" acquire -t 5m "$LOCK")
	kill -STOP "$P_PID"
	DLOCK_TOKEN=$token start "$DLOCK" acquire "$LOCK"
	pause 0.5
	alive "$PID"
	timed_join INT 130
	kill -CONT "$P_PID"
}

# timed_join SIGNAL STATUS: ends PID within a second
timed_join() {
	now
	local start=$NOW
	kill "-$1" "$PID"
	join "$PID"
	equal "$status" "$2"
	now
	took "$((NOW - start))" 0 1000
}
