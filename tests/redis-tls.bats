# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redis through TLS: that it works as without, whom dlock trusts, and what it says where it does not.

load helpers
load redis

setup_file() {
	local attempt
	type -P openssl >/dev/null || return 0
	export CERTS=$BATS_FILE_TMPDIR/certs TLS_PORT
	redis_certificates "$CERTS"
	for attempt in 1 2 3 4 5; do
		# below the range of the other servers of the tests
		TLS_PORT=$((14000 + RANDOM % 6000))
		tls_options "$CERTS" "$TLS_PORT"
		if redis_for_file "${TLS_OPTIONS[@]}"; then
			return 0
		fi
	done
	return 1
}

prepare() {
	need openssl
	TLS=rediss://127.0.0.1:$TLS_PORT
	export DLOCK_BACKEND="$TLS?ca=$CERTS/ca.pem"
	serve server
}

# serve CERTIFICATE [WANTED [PROTOCOL]]: what the server shows, whether it wants a certificate (yes,
# no), and what it speaks, from now on
serve() {
	equal "$(rcli config set tls-cert-file "$CERTS/$1.pem" tls-key-file "$CERTS/$1.key" \
		tls-auth-clients "${2:-no}" tls-protocols "${3-}")" OK
}

# refused REGEX URI: status 122, one line that names the server and the reason, nothing run
refused() {
	timed timeout 20 "$DLOCK" run -b "$2" "$LOCK" -- touch ran
	equal "$status" 122
	equal "$output" ""
	one_line '127\.0\.0\.1:[0-9]' "$1"
	[[ ! -e ran ]]
}

# unusable REGEX PARAMETERS: status 125 and one line; the URI cannot be used
unusable() {
	run --separate-stderr -125 timeout 20 "$DLOCK" run -b "$TLS?$2" "$LOCK" -- touch ran
	one_line "$1"
	[[ ! -e ran ]]
}

accepted() {
	run --separate-stderr -0 timeout 20 "$DLOCK" run -b "$1" "$LOCK" -- redis-cli -p "$REDIS_PORT" exists "$KEY"
	equal "$output" 1
	equal "$stderr" ""
}

# a private server that speaks TLS only; sets P_TLS to its URI
private_tls() {
	local port=$((14000 + RANDOM % 6000))
	tls_options "$CERTS" "$port"
	private_redis "${TLS_OPTIONS[@]}"
	P_TLS="rediss://127.0.0.1:$port?ca=$CERTS/ca.pem"
}

# ---- as without TLS

@test "runs a command, excludes, wakes a waiter, hands over in order" {
	hold --
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "held by"
	local n all=()
	for n in 1 2 3; do
		wait_in_line "$n" -- sh -c 'echo "$0" >>order' "$n"
		all+=("$PID")
	done
	now
	local start=$NOW
	release
	for n in "${all[@]}"; do
		join "$n" 4
		equal "$status" 0
	done
	now
	# a waiter that is not woken looks after 5 s
	between $((NOW - start)) 0 3500 "ms until all had it"
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	only_fences
	# a message that came with other bytes, of wait(1)'s channel
	hold --
	start "$DLOCK" wait "$LOCK"
	wait_until 5 eval '[[ -n $(rcli pubsub channels "*$LOCK*free") ]]'
	release
	join "$PID" 3
	equal "$status" 0
}

@test "TLS 1.2 and 1.3, names, IPv6, a directory of authorities, user, password and database" {
	local password=p%40s%2Fs protocol
	for protocol in TLSv1.2 TLSv1.3; do
		serve server no "$protocol"
		accepted "$DLOCK_BACKEND"
	done
	serve server
	accepted "rediss://localhost:$TLS_PORT?ca=$CERTS/ca.pem"
	accepted "valkeys://LOCALHOST:$TLS_PORT?ca=$CERTS/ca.pem&sni=localhost."
	mkdir authorities
	cp "$CERTS/ca.pem" authorities
	openssl rehash authorities
	accepted "$TLS?ca=authorities"
	rcli acl setuser joe on '>p@s/s' '~*' '&*' +@all
	run -0 "$DLOCK" run -b "rediss://joe:$password@127.0.0.1:$TLS_PORT/3?ca=$CERTS/ca.pem" "$LOCK" -- \
		redis-cli -p "$REDIS_PORT" -n 3 exists "$KEY"
	equal "$output" 1
	rcli acl deluser joe
	if [[ -e /proc/net/if_inet6 ]] && grep -q ' lo$' /proc/net/if_inet6; then
		rcli config set bind '127.0.0.1 ::1'
		accepted "rediss://[::1]:$TLS_PORT?ca=$CERTS/ca.pem"
		rcli config set bind 127.0.0.1
	fi
}

@test "a connection that the server ends under a hold is made anew; a relative ?ca= stays valid" {
	local token
	cp "$CERTS/ca.pem" ca.pem
	token=$("$DLOCK" acquire -b "$TLS?ca=ca.pem" --pid $$ -t 1500ms "$LOCK")
	rcli client kill type normal skipme yes
	holds_for 2500 key_is "$token"
	"$DLOCK" release -b "valkeys://127.0.0.1:$TLS_PORT?ca=ca.pem" "$LOCK" "$token"
	only_fences
}

@test "replies of many records are read to their end" {
	# a record has 16 kB at most, and this is twice as much
	rcli eval 'for n = 1, 200 do redis.call("set", "dlock:" .. ARGV[1] .. string.rep("x", 160) .. n, "t", "px", 60000) end' 0 "$LOCK"
	run "$DLOCK" status
	equal "$(grep -c "$LOCK" <<<"$output")" 200
	rcli flushall
}

@test "the server dies under a running command: the command is dead before the lease ends" {
	private_tls
	testify_tls -t 2s -k 500ms
	redis_stop "$P_DIR"
	lost 8
	dead_in_time
}

testify_tls() {
	export DLOCK_BACKEND=$P_TLS
	testify "$P_PORT" "$@"
}

@test "the server freezes under a running command: the command is dead before the lease ends" {
	private_tls
	testify_tls -t 2s -k 500ms
	kill -STOP "$P_PID"
	lost 8
	kill -CONT "$P_PID"
	ended "$COMMAND"
}

# ---- whom dlock trusts

@test "an authority that is not trusted is refused, and so is that of the system where none is named" {
	refused 'authority.*\?ca=' "$TLS?ca=$CERTS/other.pem"
	refused 'authority.*\?ca=' "$TLS"
	only_fences
}

@test "a certificate for another name is refused, unless ?sni= names it; an address is no name" {
	serve elsewhere
	refused "not for '127.0.0.1'" "$DLOCK_BACKEND"
	accepted "$DLOCK_BACKEND&sni=elsewhere.test"
	serve server
	refused "not for 'elsewhere.test'" "$DLOCK_BACKEND&sni=elsewhere.test"
	accepted "$DLOCK_BACKEND&sni=::1"
	refused "not for '127.0.0.2'" "$DLOCK_BACKEND&sni=127.0.0.2"
}

@test "a certificate that has expired is refused" {
	serve expired
	refused 'expired' "$DLOCK_BACKEND"
}

@test "?insecure=yes accepts any certificate, and not together with ?ca=" {
	local name
	for name in expired elsewhere; do
		serve "$name"
		accepted "$TLS?insecure=yes"
	done
	refused 'authority' "$TLS?insecure=no"
	unusable 'insecure.*ca' "insecure=yes&ca=$CERTS/ca.pem"
	unusable 'yes or no' 'insecure=1'
}

@test "a server that wants a certificate gets it, and says no to none and to a stranger's" {
	local protocol
	cat "$CERTS/client.pem" "$CERTS/client.key" >both.pem
	for protocol in TLSv1.2 TLSv1.3; do
		serve server yes "$protocol"
		refused 'wants a certificate.*\?cert=|wants a certificate, with \?cert=' "$DLOCK_BACKEND"
		accepted "$DLOCK_BACKEND&cert=$CERTS/client.pem&key=$CERTS/client.key"
		accepted "$DLOCK_BACKEND&cert=both.pem"
		refused 'rejects the certificate of \?cert=' "$DLOCK_BACKEND&cert=$CERTS/stranger.pem&key=$CERTS/stranger.key"
	done
	only_fences
}

@test "files that cannot be used are named, and nobody is asked for a passphrase" {
	unusable 'ca=: .*none.*No such file' "ca=none"
	unusable 'ca=: .*no certificates' "ca=$CERTS/ca.key"
	unusable 'cert=: .*none' "cert=none"
	unusable 'cert=: .*no certificate' "cert=$CERTS/ca.key&key=$CERTS/ca.key"
	unusable 'key=: .*none.*No such file' "cert=$CERTS/client.pem&key=none"
	unusable 'key=: .*not the key' "cert=$CERTS/client.pem&key=$CERTS/stranger.key"
	unusable 'key= without' "key=$CERTS/client.key"
	unusable 'ca.*empty' "ca="
	mkfifo fifo
	unusable 'not a regular file' "ca=fifo"
	unusable 'not a regular file' "cert=$CERTS/client.pem&key=$T"
	openssl ec -in "$CERTS/client.key" -aes128 -passout pass:x -out locked.key 2>log
	unusable 'passphrase' "cert=$CERTS/client.pem&key=locked.key"
	unusable 'unknown parameter' "ssl-ca=x"
	run --separate-stderr -125 "$DLOCK" run -b "redis://127.0.0.1?ca=x" "$LOCK" -- true
	one_line 'unknown parameter "ca"'
}

@test "a key that only others may read is named" {
	strangers
	local dir
	dir=$(mktemp -d "$OPEN/XXXXXX")
	cp "$CERTS"/{ca,client}.{pem,key} "$dir"
	chmod 755 "$dir"
	chmod 644 "$dir"/*.pem
	chmod 600 "$dir/client.key"
	# dlock finds its modules beside it
	cp "$BUILD/dlock-tls.so" "$OPEN"
	run --separate-stderr -125 as "$ALICE" "$OPEN/dlock" run -b \
		"$TLS?ca=$dir/ca.pem&cert=$dir/client.pem&key=$dir/client.key" "$LOCK" -- true
	one_line 'key=: .*client\.key: Permission denied'
}

# ---- what else may be at a port

@test "a server without TLS behind rediss:, and one with TLS behind redis:" {
	refused 'server without TLS.*redis:' "rediss://127.0.0.1:$REDIS_PORT?connect-timeout=500ms"
	refused 'TLS.*rediss:' "redis://127.0.0.1:$TLS_PORT"
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused 'does not speak TLS' "rediss://127.0.0.1:$TOOL_PORT"
	# a handshake that is none, and an alert
	tool listener $'\x16\x03\x03\x01\x05hello'
	refused 'TLS' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=500ms"
	tool listener $'\x15\x03\x03'
	refused 'TLS' "redis://127.0.0.1:$TOOL_PORT"
}

@test "a handshake without an answer ends with connect-timeout, or with a signal" {
	tool listener ''
	refused 'handshake' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=400ms"
	between "$MS" 390 3500
	start "$DLOCK" run -b "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=30s" "$LOCK" -- true
	# once it has connected
	wait_until 5 eval 'ss -Htn state established "( dport = :$TOOL_PORT )" | grep -q .'
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143
	equal "$(<"$ERR")" ""
	# a host that swallows everything, and one where nobody listens
	tool listener
	refused '' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=400ms"
	refused 'refused' rediss://127.0.0.1:1
}

@test "no message has the password" {
	local uri
	for uri in "rediss://joe:Sesame9@127.0.0.1:$TLS_PORT" "rediss://:Sesame9@127.0.0.1:$REDIS_PORT?connect-timeout=300ms" \
		"rediss://:Sesame9@127.0.0.1:$TLS_PORT?ca=$CERTS/ca.pem" \
		"rediss://:Sesame9@127.0.0.1:$TLS_PORT?ca=none" "valkeys://:Sesame9@127.0.0.1:x"; do
		run --separate-stderr timeout 20 "$DLOCK" run -vv -b "$uri" "$LOCK" -- true
		matches "$status" '^12[25]$'
		not matches "$output$stderr" Sesame9
	done
}

# ---- what operators see

@test "check says whether the certificate was verified" {
	run "$DLOCK" check
	matches "$output" 'ok +transport +encrypted.*verified'
	run "$DLOCK" check -b "$TLS?insecure=yes"
	matches "$output" 'ok +transport +does not leave'
}

@test "valkey: is redis: in each scheme" {
	local token
	accepted "valkey://127.0.0.1:$REDIS_PORT"
	run -0 "$DLOCK" run -b "valkey+unix://$REDIS_DIR/sock?db=4" "$LOCK" -- redis-cli -p "$REDIS_PORT" -n 4 exists "$KEY"
	equal "$output" 1
	# it is the same place to a keeper, too
	token=$("$DLOCK" acquire -b "valkey://127.0.0.1:$REDIS_PORT" --pid $$ "$LOCK")
	run -0 "$DLOCK" release -b "redis://127.0.0.1:$REDIS_PORT" "$LOCK" "$token"
	wait_until 2 no_strays
	run --separate-stderr -125 "$DLOCK" run -b valkeyss://h "$LOCK" -- true
	one_line 'valkeys:'
}
