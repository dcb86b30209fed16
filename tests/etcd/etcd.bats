# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# etcd, one server: the keys, programs that share locks, errors and faults.

load ../lib/helpers
load etcd

setup_file() {
	etcd_for_file
}

teardown_file() {
	etcd_file_end
}

prepare() {
	export DLOCK_BACKEND=etcd://127.0.0.1:$ETCD_SERVER_PORT
}

# ---- what is stored

@test "the key has the lease, the fence is create_revision, and no token is stored" {
	hold -t 20s --
	keys >found
	matches "$(<found)" "^$LOCK/[0-9a-f]+\$"
	ec get "$(<found)" -w json >key
	equal "$(jq -r '.kvs[0].create_revision' key)" "$FENCE"
	# jq rounds numbers of 64 bits.
	equal "$(printf %x "$(sed 's/.*"lease":\([0-9]*\).*/\1/' key)")" "$(sed 's|.*/||' found)"
	matches "$(jq -r '.kvs[0].value' key | base64 -d)" '^dlock:x [0-9]+ ttl=20000&'
	not grep -q "${TOKEN:0:16}" <(jq -r '.kvs[0].value' key | base64 -d; cat found)
	release
	queued 0
	equal "$(ec lease list | grep -c "$(sed 's|.*/||' found)")" 0 leases
}

@test "a prefix is a part of the keys; a lock does not see the keys of another one below it" {
	local uri=$DLOCK_BACKEND
	hold -b "$uri/app//" --
	matches "$(ec get --prefix app/ --keys-only)" "^app/$LOCK/[0-9a-f]+"
	run -0 "$DLOCK" status --names -b "$uri/app"
	equal "$output" "$LOCK"
	run -0 "$DLOCK" run -n "$LOCK" -- true
	run -0 "$DLOCK" run -n "app" -- true
	run -124 "$DLOCK" run -n "app/$LOCK" -- true
	release
}

@test "a key without a lease or a number excludes nobody, and status names it" {
	ec put "$LOCK/12ab" nobody >/dev/null
	ec put "$LOCK/settings" nobody >/dev/null
	run -0 "$DLOCK" run -n "$LOCK" -- true
	run -0 "$DLOCK" status "$LOCK"
	matches "$output" 'ignored.*settings'
}

@test "a key that is no entry of the lock, between a holder and a waiter, lets nobody in" {
	local key
	for key in settings "below/12ab"; do
		hold --
		ec put "$LOCK/$key" nobody >/dev/null
		run -124 "$DLOCK" run -w 1s "$LOCK" -- true
		start "$DLOCK" run "$LOCK" -- true
		wait_until 5 queued 3
		release
		join "$PID"
		equal "$status" 0
		ec del "$LOCK/$key" >/dev/null
	done
}

# ---- other programs

@test "etcdctl lock holds: dlock waits, shows it, and gets the lock at once" {
	local holder
	etcdctl_holds
	holder=$PID
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line 'etcdctl'
	run --separate-stderr -124 "$DLOCK" run -n -s "$LOCK" -- true
	start "$DLOCK" run "$LOCK" -- touch ran
	wait_until 5 queued 2
	etcdctl_ends "$holder"
	join "$PID" 5
	equal "$status" 0
	[[ -e ran ]]
}

@test "dlock holds, alone or shared: etcdctl lock waits, and is in one queue with dlock" {
	local mode last
	for mode in '' -s; do
		rm -f order
		# shellcheck disable=SC2086 # an option or nothing
		hold $mode --
		etcdctl_waits 2 order
		start "$DLOCK" run "$LOCK" -- sh -c 'echo dlock >>order'
		wait_until 5 queued 3
		etcdctl_waits 4 order
		start "$DLOCK" run "$LOCK" -- sh -c 'echo dlock >>order'
		last=$PID
		wait_until 5 queued 5
		release
		join "$last" 10
		equal "$status" 0
		equal "$(paste -sd ' ' order)" "etcdctl dlock etcdctl dlock"
	done
}

@test "break takes the lock from etcdctl lock" {
	etcdctl_holds
	run -0 "$DLOCK" break --yes "$LOCK"
	run -0 "$DLOCK" run -n "$LOCK" -- true
	etcdctl_ends "$PID"
}

# bats test_tags=deeper
@test "dlock and etcdctl lock by turns: no two hold at once" {
	local rounds client pids=()
	rounds=$(long_or 65 6)
	for client in 1 2 3 4; do
		start sh -c 'for round in $(seq "$0"); do
			"$DLOCK" run -q "$1" -- sh -c "mkdir inside && rmdir inside && echo d >>log" || echo bad >>log
		done' "$rounds" "$LOCK"
		pids+=("$PID")
		start sh -c 'for round in $(seq "$0"); do
			ETCDCTL_API=3 "$2" --endpoints "127.0.0.1:$3" lock "$1" -- \
				sh -c "mkdir inside && rmdir inside && echo e >>log" || echo bad >>log
		done' "$rounds" "$LOCK" "$ETCDCTL" "$ETCD_SERVER_PORT"
		pids+=("$PID")
	done
	for client in "${pids[@]}"; do
		join "$client" 150
	done
	equal "$(sort log | uniq -c | awk '{ print $1 $2 }' | paste -sd ' ')" "$((4 * rounds))d $((4 * rounds))e"
}

# ---- losing the lock

@test "the key is removed, or the lease is revoked: the command is stopped at once" {
	hold -t 60s --
	ec del "$(keys)" >/dev/null
	lost 5
	hold -t 60s --
	ec lease revoke "$(keys | sed 's|.*/||')" >/dev/null
	lost 5
}

@test "a waiter whose key is removed is back in the queue, at its end" {
	hold --
	start "$DLOCK" run "$LOCK" -- touch ran
	wait_until 5 queued 2
	ec del "$(keys | tail -n 1)" >/dev/null
	wait_until 5 queued 2
	release
	join "$PID" 5
	equal "$status" 0
	[[ -e ran ]]
}

@test "compaction while one holds and others wait: they get the lock in order" {
	local second third
	hold --
	start "$DLOCK" run "$LOCK" -- sh -c 'echo second >>order'
	second=$PID
	wait_until 5 queued 2
	start "$DLOCK" run --slots 2 "$LOCK" -- sh -c 'echo third >>order'
	third=$PID
	wait_until 5 queued 3
	ec put other x >/dev/null
	ec compaction "$(ec get other -w json | jq .header.revision)" >/dev/null
	release
	join "$second" 5
	equal "$status" 0
	join "$third" 5
	equal "$status" 0
	equal "$(paste -sd ' ' order)" "second third"
}

# ---- the server

@test "restart of the server: a holder and a waiter go on" {
	private_etcd
	hold -b "$P_URI" -t 20s --
	start "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	wait_until 5 queued 2
	server_stop "$ETCD_DIR"
	etcd_restart "$ETCD_DIR"
	SERVICES+=("$(<"$ETCD_DIR/pid")")
	release
	join "$PID" 15
	equal "$status" 0
	[[ -e ran ]]
}

@test "the server is stopped: the command is dead before the lease ends" {
	private_etcd
	hold -b "$P_URI" -t 3s --
	kill -STOP "$P_PID"
	lost 10
	kill -CONT "$P_PID"
}

@test "replies lost at each request of a run: the command runs once, and nothing is left" {
	local lost requests
	tool proxy -l "$T/requests" "$ETCD_SERVER_PORT" "$T/proxy.ctl"
	export DLOCK_BACKEND=etcd://127.0.0.1:$TOOL_PORT
	run -0 "$DLOCK" run "$LOCK" -- sleep 0.3
	requests=$(wc -l <requests)
	between "$requests" 4 8
	for ((lost = 1; lost <= requests; lost++)); do
		proxy cut-after "$lost"
		run -0 "$DLOCK" run -t 10s "$LOCK" -- sh -c 'echo ran >>ran; sleep 0.3'
		equal "$(wc -l <ran)" "$lost"
		queued 0
		proxy pass
	done
}

@test "replies swallowed while one waits: it gets the lock, in its order" {
	local text
	tool proxy "$ETCD_SERVER_PORT" "$T/proxy.ctl"
	for text in lease/grant kv/txn v3/watch; do
		hold --
		proxy cut-on "$text"
		start "$DLOCK" run -b "etcd://127.0.0.1:$TOOL_PORT?timeout=1s" "$LOCK" -- touch "ran.$LOCK"
		wait_until 5 queued 2
		release
		join "$PID" 15
		equal "$status" 0
		[[ -e ran.$LOCK ]]
		rm "ran.$LOCK"
	done
}

@test "two requests for a free lock, and at most five for a handoff" {
	local before second
	tool proxy -l "$T/requests" "$ETCD_SERVER_PORT" "$T/proxy.ctl"
	export DLOCK_BACKEND=etcd://127.0.0.1:$TOOL_PORT
	hold --
	# A hold that lasts is watched, too.
	equal "$(grep 'POST /v3/' requests | grep -vc v3/watch)" 2 "requests for a free lock"
	start "$DLOCK" run "$LOCK" -- sleep 300
	second=$PID
	wait_until 5 queued 2
	pause 0.5
	before=$(grep -c 'POST /v3/' requests)
	release
	wait_until 5 queued 1
	pause 0.5
	between $(($(grep -c 'POST /v3/' requests) - before)) 2 5
	kill -TERM "$second"
	join "$second"
}

@test "a waiter at rest reads two keys, whatever the length of the queue" {
	local second whole
	tool proxy -l "$T/requests" "$ETCD_SERVER_PORT" "$T/proxy.ctl"
	hold --
	start "$DLOCK" run "$LOCK" -- true
	wait_until 5 queued 2
	second=$PID
	start "$DLOCK" run -b "etcd://127.0.0.1:$TOOL_PORT" -t 3s "$LOCK" -- touch ran
	wait_until 5 queued 3
	whole=$(grep -c 'range_end":"[^"]' requests)
	wait_until 15 eval '(($(grep -c keys_only requests) >= 4))'
	equal "$(grep -c 'range_end":"[^"]' requests)" "$whole" "requests that read the queue"
	release
	join "$PID" 5
	equal "$status" 0
	[[ -e ran ]]
	join "$second"
}

# ---- bad days

@test "error: nobody listens, a server that never answers, and other protocols" {
	local answer
	refused '127\.0\.0\.1:1[^0-9].*refused' etcd://127.0.0.1:1
	tool listener ''
	refused "127\\.0\\.0\\.1:$TOOL_PORT.*no answer" "etcd://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
	took "$MS" 900 4000
	for answer in $'HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found' $'SSH-2.0-OpenSSH_9.2\r\n' \
		'-ERR unknown command' $'\x15\x03\x01\x00\x02\x02\x16'; do
		tool listener "$answer"
		refused "127\\.0\\.0\\.1:$TOOL_PORT" "etcd://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
	done
}

@test "error: a server that means no good: each command ends in time, and takes little memory" {
	local how uri
	for how in drip body header trailer deep numbers $(long_or "chunk types orders queue" ''); do
		tool hostile_etcd.py "$how"
		uri="etcd://127.0.0.1:$TOOL_PORT?timeout=1s&connect-timeout=1s"
		hostile run -b "$uri" -n "$LOCK" -- touch ran
		harmless "$stderr"
		[[ ! -e ran ]]
	done
}

@test "check: members whose numbers are larger than those of C" {
	local leader=18446744073709551614 member body
	for member in 18446744073709551615 "$leader"; do
		body="{\"header\":{\"member_id\":\"$member\"},\"leader\":\"$leader\",\"version\":\"3.5.21\"}"
		tool listener -a "HTTP/1.1 200 OK"$'\r\n'"Content-Length: ${#body}"$'\r\n\r\n'"$body"
		run "$DLOCK" check -b "etcd://127.0.0.1:$TOOL_PORT?timeout=1s"
		equal "$(grep -c '^ok *member .* is the leader' <<<"$output")" "$((member == leader))" "$output"
	done
}

@test "error: the database is full: 122, and check has the alarm" {
	local timeout
	private_etcd --quota-backend-bytes 100000
	head -c 60000 /dev/zero | tr '\0' x >value
	until [[ -n $(ec alarm list) ]]; do
		ec put big <value >/dev/null 2>&1 || true
	done
	refused 'full.*NOSPACE' "$P_URI"
	run -122 "$DLOCK" check -b "$P_URI"
	matches "$output" 'NOSPACE'
	# The last try, for which no time is left, does not hide what the server has answered.
	tool proxy "$P_PORT" "$T/proxy.ctl"
	proxy hold 60
	for timeout in 150 190 230 270 310; do
		refused 'full.*NOSPACE' "etcd://127.0.0.1:$TOOL_PORT?timeout=${timeout}ms"
	done
}

# ---- users

@test "users: a role for the prefix is enough; a wrong password and a missing permission are refused" {
	private_etcd
	local port=$P_PORT uri
	uri=etcd://dlock:s3cret@127.0.0.1:$port/jobs
	ec user add root:root >/dev/null
	ec user grant-role root root >/dev/null
	ec user add dlock:s3cret >/dev/null
	"$DLOCK" setup --dry-run -b "$uri" >plan
	sed "s/etcdctl/ec/" plan >plan.sh
	# shellcheck source=/dev/null
	source plan.sh >/dev/null
	ec auth enable >/dev/null
	hold -b "$uri" --
	run --separate-stderr -124 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	run -0 "$DLOCK" status --names -b "$uri"
	equal "$output" "$LOCK"
	refused 'wrong user or password' "etcd://dlock:wrong@127.0.0.1:$port/jobs"
	not matches "$stderr" wrong@
	refused 'wants a user' "etcd://127.0.0.1:$port/jobs"
	refused 'lacks a permission' "etcd://dlock:s3cret@127.0.0.1:$port/other"
	# The server forgets its tokens.
	server_stop "$ETCD_DIR"
	etcd_restart "$ETCD_DIR"
	SERVICES+=("$(<"$ETCD_DIR/pid")")
	release
	run -0 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	# One member is a warning.
	run -1 "$DLOCK" check -b "$uri"
	not matches "$output" s3cret
}

@test "users: a token of the server ends while a lock is held, and a new one is got" {
	private_etcd --auth-token-ttl 1
	local uri=etcd://root:root@127.0.0.1:$P_PORT
	ec user add root:root >/dev/null
	ec user grant-role root root >/dev/null
	ec auth enable >/dev/null
	hold -b "$uri" -t 9s --
	pause 4.5
	alive "$COMMAND"
	pause 5.5
	alive "$COMMAND"
	release
}

# ---- TLS

@test "TLS: a server with a certificate, and clients with theirs" {
	local uri
	redis_certificates "$T/tls"
	SCHEME=https private_etcd --cert-file tls/server.pem --key-file tls/server.key \
		--client-cert-auth --trusted-ca-file tls/ca.pem
	uri="etcds://127.0.0.1:$P_PORT?ca=$T/tls/ca.pem&cert=$T/tls/client.pem&key=$T/tls/client.key"
	hold -b "$uri" --
	run -124 "$DLOCK" run -n -b "$uri" "$LOCK" -- true
	start "$DLOCK" run -b "$uri" "$LOCK" -- touch ran
	wait_until 5 has_line <("$DLOCK" status -b "$uri" "$LOCK") waiting 2>/dev/null || true
	release
	join "$PID" 5
	equal "$status" 0
	[[ -e ran ]]
	rm ran
	refused 'certificate' "etcds://127.0.0.1:$P_PORT?ca=$T/tls/other.pem"
	refused 'certificate' "etcds://127.0.0.1:$P_PORT?ca=$T/tls/ca.pem"
	refused 'TLS' "etcd://127.0.0.1:$P_PORT"
	refused 'TLS' "etcds://127.0.0.1:$ETCD_SERVER_PORT?insecure=yes"
}

# bats test_tags=more
@test "TLS: certificates change, in their files and the server: a holder connects with the new ones" {
	redis_certificates "$T/tls"
	SCHEME=https private_etcd --cert-file tls/server.pem --key-file tls/server.key
	start_proxy "$P_PORT"
	cp tls/ca.pem mine.pem
	hold -t 4s -b "etcds://127.0.0.1:$TOOL_PORT?ca=$T/mine.pem" --
	cp tls/other.pem mine.pem
	certificate "$T/tls" server other IP:127.0.0.1
	proxy cut
	holds_for 4500 alive "$COMMAND"
	release
}
