# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2094 # the log is named for the server and appended to
#
# Real Redis servers for the tests. Each listens on a free port of 127.0.0.1 and on a unix
# socket, has a directory of its own, and stores nothing unless an option asks for it. Needs
# wait_until and alive from helpers.bash. REDIS_SERVER and REDIS_CLI may name other programs,
# such as those of Valkey.

REDIS_SERVER=${REDIS_SERVER:-redis-server}
REDIS_CLI=${REDIS_CLI:-redis-cli}

# redis_start DIR [OPTION VALUE]...: starts a server and returns when it takes commands. Its pid is
# in DIR/pid, its port in DIR/port, and its socket at DIR/sock.
redis_start() {
	local dir=$1 attempt PORT
	shift
	mkdir -p "$dir"
	for attempt in 1 2 3 4 5 6 7 8 9 10; do
		free_port
		if redis_launch "$dir" "$PORT" "$@"; then
			return 0
		fi
		if ! grep -q 'Address already in use' "$dir/log"; then
			break
		fi
	done
	echo "redis-server did not start in $attempt attempts; its log:" >&2
	cat "$dir/log" >&2
	return 1
}

# redis_launch DIR PORT [OPTION VALUE]...: one attempt to start a server, or to restart one on its
# port
redis_launch() {
	local dir=$1 port=$2
	shift 2
	: >"$dir/log"
	# The server dies with bats, even if bats is killed.
	# shellcheck disable=SC2086 # words
	$AHEAD setpriv --pdeathsig KILL "$REDIS_SERVER" --port "$port" --bind 127.0.0.1 --unixsocket "$dir/sock" \
		--dir "$dir" --logfile "$dir/log" --daemonize no --save '' \
		--repl-diskless-sync-delay 0 "$@" \
		</dev/null >>"$dir/log" 2>&1 3>&- 4>&- &
	echo $! >"$dir/pid"
	disown $!
	echo "$port" >"$dir/port"
	wait_until 10 redis_settled "$dir"
	redis_ready "$dir"
}

redis_ready() {
	grep -q 'Ready to accept connections' "$1/log"
}

redis_settled() {
	redis_ready "$1" || ! alive "$(<"$1/pid")"
}

# elder COMMAND...: runs a function that starts servers, which say that they have been up for half a day
elder() {
	LD_PRELOAD=$BUILD/tests/preload/elder.so "$@"
}

# redis_sentinel_start DIR PORT LINE...: starts a sentinel with these lines in its configuration, and
# returns when it answers. Its pid is in DIR/pid.
redis_sentinel_start() {
	local dir=$1 port=$2
	shift 2
	mkdir -p "$dir"
	printf '%s\n' "port $port" 'bind 127.0.0.1' "dir $dir" "logfile $dir/log" "$@" >"$dir/conf"
	setpriv --pdeathsig KILL "$REDIS_SERVER" "$dir/conf" --sentinel </dev/null >"$dir/out" 2>&1 3>&- 4>&- &
	echo $! >"$dir/pid"
	disown $!
	wait_until 10 "$REDIS_CLI" -p "$port" ping >/dev/null
}

# redis_for_file [OPTION VALUE]..., redis_file_end: for setup_file and teardown_file. One server for
# all tests of a file, as REDIS_DIR and REDIS_PORT.
redis_for_file() {
	export REDIS_DIR=$BATS_FILE_TMPDIR/redis
	redis_start "$REDIS_DIR" "$@" || return
	REDIS_PORT=$(<"$REDIS_DIR/port")
	export REDIS_PORT
}

redis_file_end() {
	if [[ -f $REDIS_DIR/pid ]]; then
		server_stop "$REDIS_DIR"
	fi
}

# redis_certificates DIR: makes what a server with TLS needs and clients may be refused for, all for
# a day. Each is NAME.pem with the key in NAME.key:
#
#	ca, other	authorities
#	server		for localhost, 127.0.0.1 and ::1
#	elsewhere	for elsewhere.test, and for a host whose name, not address, is 127.0.0.1
#	expired		as server, but its time is over
#	client		a client's, which ca has signed
#	stranger	a client's, which other has signed
redis_certificates() {
	local dir=$1
	mkdir -p "$dir"
	certificate "$dir" ca '' CA:TRUE
	certificate "$dir" other '' CA:TRUE
	certificate "$dir" server ca DNS:localhost,IP:127.0.0.1,IP:::1
	certificate "$dir" elsewhere ca DNS:elsewhere.test,DNS:127.0.0.1
	# a certificate for no time at all is over as soon as it is made
	certificate "$dir" expired ca DNS:localhost,IP:127.0.0.1,IP:::1 0
	certificate "$dir" client ca DNS:client.test
	certificate "$dir" stranger other DNS:client.test
}

# certificate DIR NAME AUTHORITY SUBJECTS [DAYS]: makes NAME.pem and NAME.key. Without an authority
# it is one, and SUBJECTS is what it may do.
certificate() {
	local dir=$1 name=$2 authority=$3 extension days=${5:-1}
	extension=subjectAltName=$4
	local sign=(-CA "$dir/$authority.pem" -CAkey "$dir/$authority.key")
	if [[ -z $authority ]]; then
		sign=(-signkey "$dir/$name.key")
		extension=basicConstraints=critical,$4
	fi
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
		-keyout "$dir/$name.key" -out "$dir/$name.csr" 2>>"$dir/log"
	openssl x509 -req -in "$dir/$name.csr" "${sign[@]}" -set_serial "$RANDOM$RANDOM" \
		-days "$days" -extfile <(echo "$extension") -out "$dir/$name.pem" 2>>"$dir/log" ||
		fail "no certificate for $name: $(<"$dir/log")"
}

# tls_options DIR PORT: sets TLS_OPTIONS to those of a server that speaks TLS at PORT with the
# certificates of DIR
tls_options() {
	# shellcheck disable=SC2034 # for the caller
	TLS_OPTIONS=(--tls-port "$2" --tls-cert-file "$1/server.pem" --tls-key-file "$1/server.key"
		--tls-ca-cert-file "$1/ca.pem" --tls-auth-clients no)
}

# tls_redis_for_file: as redis_for_file, a server that speaks TLS at TLS_PORT, too, with the certificates
# in CERTS
tls_redis_for_file() {
	local attempt
	export CERTS=$BATS_FILE_TMPDIR/certs TLS_PORT
	redis_certificates "$CERTS"
	for attempt in 1 2 3 4 5; do
		# below the range of the other servers of the tests
		TLS_PORT=$((4000 + RANDOM % 6000))
		tls_options "$CERTS" "$TLS_PORT"
		if redis_for_file "${TLS_OPTIONS[@]}"; then
			return 0
		fi
	done
	return 1
}

# redis_at DIR ARG...: redis-cli to the server in DIR, over its unix socket
redis_at() {
	local dir=$1
	shift
	"$REDIS_CLI" -s "$dir/sock" "$@"
}
