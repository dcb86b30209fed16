# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Redis through TLS works as without. Also: whom dlock trusts, and what it says when it does not.

load ../lib/helpers
load redis

setup_file() {
	type -P openssl >/dev/null || return 0
	tls_redis_for_file
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

# shows DIR CERTIFICATE: what a private server shows from now on
shows() {
	equal "$(redis_at "$1" config set tls-cert-file "$CERTS/$2.pem" tls-key-file "$CERTS/$2.key")" OK
}

# replace_certificates AUTHORITY CLIENT: what is in ./ca.pem, ./mine.pem and ./mine.key
replace_certificates() {
	cp "$CERTS/$1.pem" ca.pem
	cp "$CERTS/$2.pem" mine.pem
	cp "$CERTS/$2.key" mine.key
}

private_waits() {
	[[ $(redis_at "$P_DIR" client list type pubsub) == *addr=* ]]
}

# without_tls_params URI: dlock does not take parameters of TLS without tls=yes
without_tls_params() {
	run --separate-stderr -125 "$DLOCK" run -b "$1?ca=$CERTS/ca.pem" "$LOCK" -- touch ran
	one_line '\?ca= is for TLS: add tls=yes'
	run --separate-stderr -125 "$DLOCK" run -b "$1?tls=yes&ca=none" "$LOCK" -- touch ran
	one_line 'ca=: .*none.*No such file'
	[[ ! -e ran ]]
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

# tls_port: sets PORT to one that nobody listens at. It, and the port of a cluster's bus, which is
# larger by 10,000, are below the range of the other servers of the tests.
tls_port() {
	while :; do
		PORT=$((4000 + RANDOM % 6000))
		(: <>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null || return 0
	done
}

# private_tls [OPTION VALUE]...: a private server that speaks TLS at a port of its own; sets P_PLACE
# to where, and P_TLS to its URI
private_tls() {
	tls_port
	P_PLACE=127.0.0.1:$PORT
	tls_options "$CERTS" "$PORT"
	private_redis "${TLS_OPTIONS[@]}" "$@"
	P_TLS="rediss://$P_PLACE?ca=$CERTS/ca.pem"
}

# ---- as without TLS

@test "runs a command, excludes, wakes a waiter, and keeps the order of waiters" {
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
	# A waiter that is not woken looks after 5 s.
	took $((NOW - start)) 0 3500 "ms until all had it"
	equal "$(tr '\n' ' ' <order)" "1 2 3 "
	only_fences
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

@test "a connection that the server ends under a hold is opened again; a relative ?ca= stays valid" {
	local token
	cp "$CERTS/ca.pem" ca.pem
	token=$("$DLOCK" acquire -b "$TLS?ca=ca.pem" --pid $$ -t 3s "$LOCK")
	rcli client kill type normal skipme yes
	holds_for 4500 key_is "$token"
	# The URI means the same keeper, whatever files it names.
	"$DLOCK" release -b "valkeys://127.0.0.1:$TLS_PORT?ca=$CERTS/ca.pem" "$LOCK" "$token"
	wait_until 2 no_strays
	only_fences
}

# bats test_tags=more
@test "replies of many records are read to their end" {
	# A record has 16 kB at most, and this reply has twice as much.
	rcli eval 'for n = 1, 200 do redis.call("set", "dlock:" .. ARGV[1] .. string.rep("x", 160) .. n, "t", "px", 60000) end' 0 "$LOCK"
	run "$DLOCK" status
	equal "$(grep -c "$LOCK" <<<"$output")" 200
	rcli flushall
}

# bats test_tags=more
@test "the server dies under a running command: the command is dead before the lease ends" {
	private_tls
	testify_tls -t 4s -k 500ms
	server_stop "$P_DIR"
	lost
	dead_in_time
}

testify_tls() {
	export DLOCK_BACKEND=$P_TLS
	testify "$P_PORT" "$@"
}

# bats test_tags=more
@test "the server freezes under a running command: the command is dead before the lease ends" {
	private_tls
	testify_tls -t 4s -k 500ms
	kill -STOP "$P_PID"
	lost
	kill -CONT "$P_PID"
	ended "$COMMAND"
}

# ---- whom dlock trusts

@test "an authority that is not trusted is refused, and so is that of the system where none is named" {
	refused 'authority.*\?ca=' "$TLS?ca=$CERTS/other.pem"
	refused 'authority.*\?ca=' "$TLS"
	only_fences
}

# [17]
@test "a certificate for another name is refused, unless ?sni= names it; an address is no name" {
	serve elsewhere
	refused "not for '127.0.0.1'" "$DLOCK_BACKEND"
	accepted "$DLOCK_BACKEND&sni=elsewhere.test"
	serve server
	refused "not for 'elsewhere.test'" "$DLOCK_BACKEND&sni=elsewhere.test"
	accepted "$DLOCK_BACKEND&sni=::1"
	refused "not for '127.0.0.2'" "$DLOCK_BACKEND&sni=127.0.0.2"
}

# bats test_tags=more
@test "a certificate that has expired is refused" {
	serve expired
	refused 'expired' "$DLOCK_BACKEND"
}

# bats test_tags=more
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

# [17]
@test "a server that wants a certificate gets it; none and a stranger's are refused" {
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

@test "certificates change, in their files and the server: a holder and a waiter connect with the new ones" {
	private_tls --tls-auth-clients yes
	certificate "$CERTS" renewed other IP:127.0.0.1
	replace_certificates ca client
	hold -t 4s -b "rediss://$P_PLACE?ca=$T/ca.pem&cert=$T/mine.pem&key=$T/mine.key" --
	start "$DLOCK" run -b "rediss://$P_PLACE?ca=$T/ca.pem&cert=$T/mine.pem&key=$T/mine.key" "$LOCK" -- true
	wait_until 5 private_waits
	replace_certificates other stranger
	equal "$(redis_at "$P_DIR" config set tls-cert-file "$CERTS/renewed.pem" tls-key-file "$CERTS/renewed.key" \
		tls-ca-cert-file "$CERTS/other.pem")" OK
	redis_at "$P_DIR" client kill type normal
	redis_at "$P_DIR" client kill type pubsub
	holds_for 4500 alive "$COMMAND"
	release
	join "$PID" 5
	equal "$status" 0
}

# [17]
# bats test_tags=more
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
	one_line "unknown parameter 'ca'"
}

# bats test_tags=more
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

# [17]
@test "a server without TLS behind rediss:, and one with TLS behind redis:" {
	refused 'server without TLS.*rediss:' "rediss://127.0.0.1:$REDIS_PORT?connect-timeout=1s"
	refused 'TLS.*rediss:' "redis://127.0.0.1:$TLS_PORT"
	tool listener $'HTTP/1.1 400 Bad Request\r\n\r\n'
	refused 'does not speak TLS' "rediss://127.0.0.1:$TOOL_PORT"
	# a handshake that is none, and an alert
	tool listener $'\x16\x03\x03\x01\x05hello'
	refused 'TLS' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=1s"
	tool listener $'\x15\x03\x03'
	refused 'TLS' "redis://127.0.0.1:$TOOL_PORT"
}

# bats test_tags=more
@test "a handshake without an answer ends with connect-timeout, or with a signal" {
	tool listener ''
	refused 'handshake' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=1s"
	took "$MS" 990 4000
	start "$DLOCK" run -b "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=30s" "$LOCK" -- true
	# once it has connected
	wait_until 5 eval 'ss -Htn state established "( dport = :$TOOL_PORT )" | grep -q .'
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143
	equal "$(<"$ERR")" ""
	# The first host answers no packet, and on the second one no server listens.
	tool listener
	refused '' "rediss://127.0.0.1:$TOOL_PORT?connect-timeout=1s"
	refused 'refused' rediss://127.0.0.1:1
}

@test "no message has the password" {
	local uri
	for uri in "rediss://joe:Sesame9@127.0.0.1:$TLS_PORT" "rediss://:Sesame9@127.0.0.1:$REDIS_PORT?connect-timeout=1s" \
		"rediss://:Sesame9@127.0.0.1:$TLS_PORT?ca=$CERTS/ca.pem" \
		"rediss://:Sesame9@127.0.0.1:$TLS_PORT?ca=none" "valkeys://:Sesame9@127.0.0.1:x"; do
		run --separate-stderr timeout 20 "$DLOCK" run -v -b "$uri" "$LOCK" -- true
		matches "$status" '^12[25]$'
		not matches "$output$stderr" Sesame9
	done
}

# ---- several servers, with ?tls=yes

# tls_sentinels: a master with TLS, and three sentinels with and without; sets the arrays S_PLAIN and
# S_TLS to their places
tls_sentinels() {
	local n tls
	private_tls
	S_PLAIN=() S_TLS=()
	for n in 1 2 3; do
		tls_port
		tls=$PORT
		S_TLS+=("127.0.0.1:$tls")
		free_port
		redis_sentinel_start "$T/sentinel.$n" "$PORT" "tls-port $tls" 'tls-replication yes' \
			"tls-cert-file $CERTS/server.pem" "tls-key-file $CERTS/server.key" \
			"tls-ca-cert-file $CERTS/ca.pem" 'tls-auth-clients no' \
			"sentinel monitor m ${P_PLACE/:/ } 2"
		S_PLAIN+=("127.0.0.1:$PORT")
		SERVICES+=("$(<"$T/sentinel.$n/pid")")
	done
}

# places PLACE...: sets HOSTS to what stands in a URI
places() {
	local IFS=,
	HOSTS=$*
}

@test "Sentinel: the sentinels and the master that they name have TLS; the sentinels may do without" {
	local tls plain
	tls_sentinels
	places "${S_TLS[@]}"
	tls=redis+sentinel://$HOSTS/m
	places "${S_PLAIN[@]}"
	plain=redis+sentinel://$HOSTS/m
	export DLOCK_BACKEND="$tls?tls=yes&ca=$CERTS/ca.pem"
	# each renewal asks a sentinel
	hold -t 3s --
	run -124 "$DLOCK" run -n -b "$plain?tls=yes&sentinel-tls=no&ca=$CERTS/ca.pem" "$LOCK" -- true
	holds_for 4500 eval '[[ $(redis_at "$P_DIR" get "$KEY") == "$TOKEN" ]]'
	release
	run "$DLOCK" check
	matches "$output" 'ok +transport +encrypted.*verified'
	refused 'sentinel 127.*authority.*\?ca=' "$tls?tls=yes&ca=$CERTS/other.pem"
	refused 'redis 127.*authority.*\?ca=' "$plain?tls=yes&sentinel-tls=no&ca=$CERTS/other.pem"
	refused 'requires TLS .*\?tls=yes' "$tls"
	refused 'requires TLS .*\?sentinel-tls=' "$tls?tls=yes&sentinel-tls=no&ca=$CERTS/ca.pem"
	refused 'without TLS .*\?sentinel-tls=' "$plain?tls=yes&ca=$CERTS/ca.pem&connect-timeout=1s"
	shows "$P_DIR" elsewhere
	refused "not for '127.0.0.1'" "$DLOCK_BACKEND"
	without_tls_params "$tls"
	run --separate-stderr -125 "$DLOCK" run -b "$plain?sentinel-tls=no" "$LOCK" -- true
	one_line '\?sentinel-tls= is for TLS: add tls=yes'
}

@test "Cluster: the nodes of the URI, and those that they send dlock to, have TLS" {
	local first name n=0
	private_tls --tls-cluster yes --cluster-enabled yes
	first=$P_DIR
	places "$P_PLACE"
	redis_at "$P_DIR" cluster addslots {0..8191}
	private_tls --tls-cluster yes --cluster-enabled yes
	redis_at "$P_DIR" cluster set-config-epoch 2
	redis_at "$P_DIR" cluster addslots {8192..16383}
	redis_at "$P_DIR" cluster meet "${HOSTS%:*}" "${HOSTS#*:}"
	wait_until 15 eval '[[ $(redis_at "$first" cluster info) == *state:ok* &&
		$(redis_at "$P_DIR" cluster info) == *state:ok* ]]'
	export DLOCK_BACKEND="redis+cluster://$HOSTS?tls=yes&ca=$CERTS/ca.pem"
	until (($(redis_at "$P_DIR" cluster keyslot "dlock:$LOCK.$n") > 8191)); do
		n=$((n + 1))
	done
	name=$LOCK.$n
	run --separate-stderr -0 "$DLOCK" run "$name" -- redis-cli -s "$P_DIR/sock" exists "dlock:$name"
	equal "$output" 1
	equal "$stderr" ""
	"$DLOCK" acquire -t 10s "$name"
	run "$DLOCK" status
	matches "$output" "$name"
	start "$DLOCK" run -w 10s "$name" -- true
	wait_until 5 eval '[[ $(redis_at "$P_DIR" zcard "{dlock:$name}:queue") == 1 ]]'
	"$DLOCK" break --yes "$name"
	join "$PID" 3
	equal "$status" 0
	refused 'authority.*\?ca=' "redis+cluster://$HOSTS?tls=yes&ca=$CERTS/other.pem"
	refused 'requires TLS .*\?tls=yes' "redis+cluster://$HOSTS"
	# the second node
	shows "$P_DIR" elsewhere
	LOCK=$name refused "not for '127.0.0.1'" "$DLOCK_BACKEND"
	shows "$first" elsewhere
	"$DLOCK" run -b "$DLOCK_BACKEND&sni=elsewhere.test" "$name" -- true
	without_tls_params "redis+cluster://$HOSTS"
}

# tls_nodes: five for Redlock; sets the array N_DIRS, and the places N_TLS and N_PLAIN
tls_nodes() {
	local n tls=() plain=()
	N_DIRS=()
	for n in 1 2 3 4 5; do
		elder private_tls --appendonly yes --appendfsync always
		N_DIRS+=("$P_DIR")
		tls+=("$P_PLACE")
		plain+=("127.0.0.1:$P_PORT")
	done
	places "${plain[@]}"
	N_PLAIN=$HOSTS
	places "${tls[@]}"
	N_TLS=$HOSTS
}

# nodes_with TOKEN: how many of them have the lock for it
nodes_with() {
	local dir count=0
	for dir in "${N_DIRS[@]}"; do
		[[ $(redis_at "$dir" get "$KEY") != "$1" ]] || count=$((count + 1))
	done
	echo "$count"
}

@test "Redlock: all nodes are asked at once through TLS, of which two may freeze or show another certificate" {
	local dir token
	tls_nodes
	# as long as a handshake on a busy machine may take
	export DLOCK_BACKEND="redlock://$N_TLS?tls=yes&ca=$CERTS/ca.pem&node-timeout=1s"
	token=$("$DLOCK" acquire -t 10s "$LOCK")
	equal "$(nodes_with "$token")" 5 "nodes with the lock"
	run -124 "$DLOCK" run -n "$LOCK" -- true
	"$DLOCK" renew "$LOCK" "$token"
	"$DLOCK" verify "$LOCK" "$token"
	start "$DLOCK" run -w 10s "$LOCK" -- true
	wait_until 5 eval '[[ $(redis_at "$P_DIR" zcard "{$KEY}:queue") == 1 ]]'
	"$DLOCK" release "$LOCK" "$token"
	# by a message, because it polls after 5 s
	join "$PID" 3
	equal "$status" 0
	equal "$(nodes_with '')" 5 "nodes without the lock"
	run "$DLOCK" check
	matches "$output" 'ok +transport +127.*encrypted.*verified'
	# frozen before the connection, and while it is used
	hold -b "${DLOCK_BACKEND/=1s/=300ms}" -t 6s -k 1s --
	kill -STOP "$(<"${N_DIRS[0]}/pid")" "$(<"${N_DIRS[3]}/pid")"
	holds_for 4000 alive "$COMMAND"
	timed "$DLOCK" run -n "$LOCK" -- true
	equal "$status" 124
	release
	kill -CONT "$(<"${N_DIRS[0]}/pid")" "$(<"${N_DIRS[3]}/pid")"
	shows "${N_DIRS[1]}" elsewhere
	shows "${N_DIRS[2]}" expired
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- true
	equal "$stderr" ""
	shows "${N_DIRS[4]}" elsewhere
	refused 'no majority: 2 of 5 nodes.*certificate' "$DLOCK_BACKEND"
	refused 'no majority: 0 of 5 nodes.*authority.*\?ca=' "${DLOCK_BACKEND/ca.pem/other.pem}"
}

# bats test_tags=more
@test "Redlock: nodes without TLS behind ?tls=yes, with TLS where it is missing, and silent ones" {
	local silent
	tls_nodes
	refused 'requires TLS .*\?tls=yes' "redlock://$N_TLS"
	refused 'no majority: 0 of 5 .*server without TLS.*\?tls=yes' \
		"redlock://$N_PLAIN?tls=yes&ca=$CERTS/ca.pem&connect-timeout=1s&timeout=1s"
	without_tls_params "redlock://$N_TLS"
	# a handshake that has no answer, and a host that swallows everything
	tool listener ''
	silent=127.0.0.1:$TOOL_PORT
	tool listener
	silent+=,127.0.0.1:$TOOL_PORT
	timed "$DLOCK" run -b "redlock://$silent,${N_TLS%,*,*}?tls=yes&ca=$CERTS/ca.pem&node-timeout=100ms" "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 3000
}

# ---- what operators see

# bats test_tags=more
@test "check says whether the certificate was verified" {
	run "$DLOCK" check
	matches "$output" 'ok +transport +encrypted.*verified'
	run "$DLOCK" check -b "$TLS?insecure=yes"
	matches "$output" 'ok +transport +does not leave'
}

# [33]
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
	one_line "unknown backend 'valkeyss:'"
}
