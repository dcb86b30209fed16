# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# How the program is put together: one dynamically linked dlock, a module beside it or in
# LIBDIR for a backend whose library costs time to load, and a copy of dlock alone that has
# the backends file and redis.

load helpers
load redis-server

prepare() {
	TOP=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	# dlock does not take this name for an IP address, but the resolver does.
	NAMED=redis://127.1:$REDIS_PORT
	unset DLOCK_BACKEND
}

@test "a host by name: the command runs under the lock, and is told all that it should" {
	run --separate-stderr "$DLOCK" run -b "$NAMED" "$LOCK" -- \
		sh -c 'echo "$DLOCK_NAME $DLOCK_BACKEND"; exit 3'
	equal "$status" 3
	equal "$output" "$LOCK $NAMED"
	equal "$stderr" ""
}

@test "a host by name and one by address share their locks" {
	hold -b "$NAMED" --
	run --separate-stderr "$DLOCK" run -n -b "$REDIS" "$LOCK" -- true
	equal "$status" 124
	release
	run --separate-stderr "$DLOCK" run -n -b "$REDIS" "$LOCK" -- true
	equal "$status" 0
}

@test "a host by name: its password is blanked" {
	hold -b "$NAMED" --
	redis_at "$REDIS_DIR" acl setuser "$LOCK" on '>open-sesame' '~*' '&*' +@all
	start "$DLOCK" run -b "redis://$LOCK:open-sesame@127.1:$REDIS_PORT" "$LOCK" -- true
	keeper_of "$PID"
	has_line "/proc/$PID/cmdline" "$LOCK:\\*+@127.1"
	not has_line "/proc/$PID/cmdline" open-sesame
	release
	join "$PID"
	equal "$status" 0
}

@test "an unknown host is named" {
	run --separate-stderr "$DLOCK" run -b redis://no-such-host.invalid "$LOCK" -- true
	equal "$status" 122
	one_line no-such-host.invalid resolve
}

@test "dlock alone, copied elsewhere: file and redis work, names included; a module that is missing is named" {
	local backend
	mkdir bin
	cp "$DLOCK" bin/dlock
	for backend in "file://$T/locks" "$REDIS" "$NAMED"; do
		run --separate-stderr bin/dlock run -b "$backend" "$LOCK" -- true
		equal "$status" 0
	done
	for backend in zookeeper mysql; do
		run --separate-stderr bin/dlock run -b "$backend://127.0.0.1/" "$LOCK" -- true
		equal "$status" 125
		one_line "dlock-$backend.so"
	done
	run --separate-stderr bin/dlock run -b rediss://127.0.0.1 "$LOCK" -- true
	equal "$status" 125
	one_line 'module for TLS .*dlock-tls.so'
}

@test "version -v names the libraries; a part that is not installed is no failure" {
	local part
	run --separate-stderr "$DLOCK" version -v
	equal "$status" 0
	equal "$stderr" ""
	for part in 'redis: hiredis' 'zookeeper: ZooKeeper C client' 'mysql: .*' 'TLS: OpenSSL'; do
		grep -Eq "^$part [0-9]+\.[0-9]+" <<<"$output" || fail "no line for $part"
	done
	mkdir bin
	cp "$DLOCK" bin/dlock
	run --separate-stderr bin/dlock version -v
	equal "$status" 0
	equal "$stderr" ""
	equal "$(grep 'not installed' <<<"$output")" \
		$'zookeeper: not installed\nmysql: not installed\nTLS: not installed'
}

@test "version -v fails when a module is there and does not load" {
	mkdir bin
	cp "$DLOCK" bin/dlock
	cat >module.c <<-END
		void no_library_has_this(void);
		void (*dlock_backend_module)(void) = no_library_has_this;
	END
	cc -shared -fPIC -o bin/dlock-mysql.so module.c
	run --separate-stderr bin/dlock version -v
	equal "$status" 125
	one_line 'mysql .*no_library_has_this'
	matches "$output" 'redis: hiredis'
}

@test "a module of another version is refused" {
	mkdir bin
	cp "$DLOCK" bin/dlock
	cat >module.c <<-END
		#include "lock/backend.h"
		const struct backend_module dlock_backend_module = { .version = "x" };
	END
	cc -shared -fPIC -I"$TOP/src" -o bin/dlock-mysql.so module.c
	run --separate-stderr bin/dlock run -b mysql://127.0.0.1/ "$LOCK" -- true
	equal "$status" 125
	one_line "another version"
}

@test "installed: bin/dlock finds its modules in lib/dlock, and all of it can be uninstalled" {
	make -s -o all -C "$TOP" BUILD="$BUILD" DESTDIR="$T/root" PREFIX=/opt install
	# Nothing listens there: the error shows that dlock has tried to connect.
	local uri
	for uri in mysql://127.0.0.1:1/none rediss://127.0.0.1:1; do
		run --separate-stderr "$T/root/opt/bin/dlock" run -b "$uri" "$LOCK" -- true
		equal "$status" 122
		one_line 127.0.0.1:1
	done
	make -s -C "$TOP" DESTDIR="$T/root" PREFIX=/opt uninstall
	run find "$T/root" ! -type d
	equal "$output" ""
}

@test "a privileged dlock loads no module that lies beside it" {
	need_root
	local as=(env -i PATH="$PATH" setpriv --reuid 65534 --clear-groups) open
	# This is a directory that a user without rights can enter.
	open=$(mktemp -d)
	chmod 755 "$open"
	cp "$DLOCK" "$open/dlock"
	: >module.c
	cc -shared -fPIC -o "$open/dlock-mysql.so" module.c
	run --separate-stderr "${as[@]}" "$open/dlock" run -b mysql://127.0.0.1/ "$LOCK" -- true
	matches "$stderr" "no dlock_backend_module" "of a program like any other"
	chmod 4755 "$open/dlock"
	run --separate-stderr "${as[@]}" "$open/dlock" run -b mysql://127.0.0.1/ "$LOCK" -- true
	rm -r "$open"
	equal "$status" 125
	not matches "$stderr" "no dlock_backend_module"
}
