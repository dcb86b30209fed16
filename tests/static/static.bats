# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The one file of `make static`, in roots that hold nothing else, or busybox: as an image of
# scratch or of Alpine has it. DLOCK is this file in `make check-static`, which runs the conformance
# of each backend with it, too.

load ../lib/helpers
load ../redis/redis
load ../lib/services/etcd
load ../lib/services/mysql

setup_file() {
	make -s -C "$TOP" BUILD="$BUILD" static >&2 || return
	tls_redis_for_file
	zookeeper_for_file
	etcd_for_file
	export MYSQL_DIR=$BATS_FILE_TMPDIR/mysql
	mysql_start "$MYSQL_DIR"
}

teardown_file() {
	redis_file_end
	server_stop "$MYSQL_DIR"
	zookeeper_file_end
	etcd_file_end
}

prepare() {
	need_root
	ROOT=$T/root
	mkdir -p "$ROOT/etc" "$ROOT/locks"
	cp "$BUILD/dlock-static" "$ROOT/dlock"
	# A container has it, whatever the image.
	echo "127.0.0.1 store.example" >"$ROOT/etc/hosts"
}

# inside [-u UID] WORD...: runs the one file in $ROOT
inside() {
	local as=()
	if [[ $1 == -u ]]; then
		as=(--userspec="$2:$2")
		shift 2
	fi
	env -i /usr/sbin/chroot "${as[@]}" "$ROOT" /dlock "$@"
}

# bats test_tags=more
@test "a root with nothing but the file: a lock in a directory, as any user" {
	inside setup -b file:///locks
	run --separate-stderr -0 inside run -v -b file:///locks "$LOCK" -- /dlock version
	matches "$output" '^dlock [0-9]'
	matches "$stderr" 'acquired after'
	install -d -o 4321 -g 4321 -m 700 "$ROOT/mine"
	run --separate-stderr -0 inside -u 4321 run -b file:///mine "$LOCK" -- /dlock version
	run --separate-stderr -127 inside run -b file:///locks "$LOCK" -- /bin/sh
}

# bats test_tags=more
@test "a root with nothing but the file: servers by name, and by TLS with the file of an authority" {
	local plain=redis://store.example:$REDIS_PORT
	run --separate-stderr -1 inside run -b "$plain" "$LOCK" -- /dlock status -b "$plain" "$LOCK"
	matches "$output" "$LOCK +exclusive"
	cp "$CERTS/ca.pem" "$ROOT/ca.pem"
	echo "127.0.0.1 localhost" >>"$ROOT/etc/hosts"
	run --separate-stderr -0 inside run -b "rediss://localhost:$TLS_PORT?ca=/ca.pem" "$LOCK" -- /dlock version
	run --separate-stderr -122 inside run -b "rediss://localhost:$TLS_PORT" "$LOCK" -- /dlock version
	# The system's authorities, where other systems have them
	local file
	for file in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/ssl/ca-bundle.pem; do
		install -D "$CERTS/ca.pem" "$ROOT/$file"
		run --separate-stderr -0 inside run -b "rediss://localhost:$TLS_PORT" "$LOCK" -- /dlock version
		rm "$ROOT/$file"
	done
	run --separate-stderr -122 inside run -b redis://nowhere.example "$LOCK" -- /dlock version
	matches "$stderr" 'nowhere.example'
}

# bats test_tags=more
@test "a root with nothing but the file: the server of each store by its name, as any user" {
	local mysql uri
	mysql=$(mysql_uri "$MYSQL_DIR")
	for uri in "zookeeper://store.example:$ZK_PORT" "etcd://store.example:$ETCD_SERVER_PORT" \
		"${mysql/127.0.0.1/store.example}"; do
		run -0 inside setup -b "$uri"
		run --separate-stderr -1 inside -u 4321 run -b "$uri" "$LOCK" -- /dlock status -b "$uri" "$LOCK"
		matches "$output" "$LOCK +exclusive"
	done
}

# bats test_tags=more
@test "what the one file does not do, because the host's objects have another C library, it says" {
	local uri
	# Connector/C loads this plugin, which is on this host.
	mysql_at "$MYSQL_DIR" "INSTALL SONAME 'auth_ed25519'; CREATE USER ed@'127.0.0.1' IDENTIFIED VIA ed25519
		USING PASSWORD('pw'); GRANT ALL ON $MYSQL_DATABASE.* TO ed@'127.0.0.1'"
	uri=mysql://ed:pw@127.0.0.1:$(<"$MYSQL_DIR/port")/$MYSQL_DATABASE
	run -0 "$BUILD/dlock" run -b "$uri" "$LOCK" -- true
	DLOCK=$BUILD/dlock-static
	refused "in the way that this account wants \(2059: Plugin client_ed25519 .*one file.*loads no other" "$uri"
	for uri in {redis,zookeeper,etcd}://nowhere.invalid mysql://nowhere.invalid/d; do
		refused 'cannot resolve.*, here by /etc/hosts and DNS only' "$uri"
	done
}

# dns: answers each question for a name below .example with 127.0.0.1, at port 53
dns() {
	python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
open("dns", "w")
while True:
    query, client = s.recvfrom(512)
    end = query.index(b"\0", 12) + 5
    answers = query[end - 4:end - 2] == b"\0\1" and b"\7example\0" in query
    s.sendto(query[:2] + b"\x81\x80\0\1" + (b"\0\1" if answers else b"\0\0") + bytes(4) + query[12:end] +
        (b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if answers else b""), client)
' </dev/null &
}

# with_dns WORD...: runs the words in a network of its own, with this server and one of Redis
with_dns() {
	local status=0 servers=()
	ip link set lo up
	dns
	servers=("$!")
	"$REDIS_SERVER" --port 6379 --bind 127.0.0.1 --save '' --dir "$T" >/dev/null &
	servers+=("$!")
	timeout 20 sh -c 'until [ -e dns ] && "$REDIS_CLI" ping; do sleep 0.05; done' >/dev/null 2>&1
	"$@" || status=$?
	kill "${servers[@]}"
	wait
	return "$status"
}

# bats test_tags=more
@test "a root with nothing but the file: a server that only DNS knows, and a time of day in a zone" {
	need ip unshare
	: >"$ROOT/etc/hosts"
	echo "nameserver 127.0.0.1" >"$ROOT/etc/resolv.conf"
	export ROOT REDIS_SERVER REDIS_CLI
	export -f dns with_dns inside
	run --separate-stderr -1 unshare --net bash -c 'with_dns inside run -b redis://store.example zone -- \
		/dlock status -b redis://store.example zone'
	matches "$output" 'zone +exclusive'
	run --separate-stderr -121 env -i TZ="$(noon 2)" /usr/sbin/chroot "$ROOT" /dlock run -b file:///locks \
		--until 12:00 -w 1h "$LOCK" -- /dlock wait -b file:///locks "$LOCK"
}

# bats test_tags=more
@test "with busybox: the command's tree ends with it, and a script has a lock" {
	need busybox
	cp "$(type -P busybox)" "$ROOT/busybox"
	run --separate-stderr -3 inside run -b file:///locks "$LOCK" -- /busybox sh -c 'exit 3'
	run --separate-stderr -0 inside run -b file:///locks "$LOCK" -- /busybox sh -c '
		token=$(/dlock acquire -b file:///locks -t 20s script) &&
		/dlock verify -b file:///locks script "$token" &&
		/dlock release -b file:///locks script "$token"'
	run --separate-stderr -121 inside run -b file:///locks --max-run 300ms "$LOCK" -- /busybox sleep 310
}

# bats test_tags=more
@test "the file names what is in it, and prints the completions; licences stand beside it" {
	local name
	run --separate-stderr -0 inside version
	# Debian has no archive of all that libpq needs.
	equal "${lines[*]:0:2}" "$("$BUILD/dlock" version | sed 's/, postgresql//' | paste -sd ' ')"
	equal "${lines[*]:2}" 'postgresql: not installed; apt install dlock-postgres'
	equal "$(inside completion zsh)" "$(<"$TOP/completions/_dlock")"
	# It has no page, and says which file of the release has.
	run -0 inside help
	matches "$output" "$("$DLOCK" version | sed -n '1s/ /-/p')-docs\.tar\.gz"
	for name in libc6-dev libssl-dev libhiredis-dev; do
		has_line "$BUILD/dlock-static.LICENSES" "==== $name ===="
	done
	(($(stat -c %s "$BUILD/dlock-static") < 12 * 1024 * 1024))
	not grep -q NEEDED <(readelf -d "$BUILD/dlock-static")
}

# bats test_tags=more
@test "a store whose library is no archive here, as Oracle's for MySQL, is left out" {
	run make -s -C "$TOP" BUILD="$BUILD" -pn static MYSQL_LIBS=-lmysqlclient ZOOKEEPER_LIBS=-lzookeeper_mt
	has_line <(echo "$output") '^LINKED := tls etcd$'
}

# bats test_tags=more
@test "make rpm: its packages, installed into an empty root, have the program and all modules" {
	local name
	need rpmbuild
	make -s -C "$TOP" BUILD="$T/build" rpm >/dev/null 2>&1
	mkdir "$T/rpms"
	rpm --root "$T/rpms" --initdb 2>/dev/null
	rpm --root "$T/rpms" -i --nodeps "$T"/build/rpm/RPMS/*/*.rpm 2>/dev/null
	for name in "$BUILD"/dlock-*.so; do
		[[ -s $T/rpms/usr/lib/dlock/${name##*/} ]] || fail "no ${name##*/}"
	done
	equal "$("$T/rpms/usr/bin/dlock" version)" "$("$BUILD/dlock" version)"
	[[ -s $T/rpms/usr/share/man/man1/dlock.1 ]]
	# A module needs its libraries by soname, and this version of the program.
	rpm -qp --requires "$T"/build/rpm/RPMS/*/dlock-tls-*.rpm 2>/dev/null >needs
	has_line needs '^libssl\.so\.'
	has_line needs '^dlock = '
}
