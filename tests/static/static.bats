# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The one file of `make static`, in roots that hold nothing else, or busybox: as an image of
# scratch or of Alpine has it. DLOCK is this file in `make check-static`, which runs the conformance
# of each backend with it, too.

load ../lib/helpers
load ../redis/redis

setup_file() {
	make -s -C "$TOP" BUILD="$BUILD" static >&2 || return
	tls_redis_for_file
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
	run --separate-stderr -122 inside run -b redis://nowhere.example "$LOCK" -- /dlock version
	matches "$stderr" 'nowhere.example'
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
	for name in libc6-dev libssl-dev libhiredis-dev; do
		has_line "$BUILD/dlock-static.LICENSES" "==== $name ===="
	done
	(($(stat -c %s "$BUILD/dlock-static") < 12 * 1024 * 1024))
	not grep -q NEEDED <(readelf -d "$BUILD/dlock-static")
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
