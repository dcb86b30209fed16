# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# How the program is put together (src/linkage.h): what is started is static, and becomes the
# dynamic dlock-full when a URI needs a loader.

load helpers

prepare() {
	# no IP address as dlock knows them, but one to the resolver, whatever it knows
	NAMED=redis://127.1:$REDIS_PORT
	FULL=$BUILD/dlock-full
	unset DLOCK_BACKEND
}

# the programs are two, unless sanitizers or a missing archive made them one
two_programs() {
	[[ -e $FULL ]]
}

interpreter() {
	readelf -l "$1" | grep -q INTERP
}

@test "the program that is started needs no loader; where it does, it is the only one" {
	if two_programs; then
		not interpreter "$DLOCK"
		interpreter "$FULL"
	else
		interpreter "$DLOCK"
	fi
}

@test "what a run executes of the libraries stands together, not one page in each corner" {
	local size rest
	if ! two_programs; then
		# only the static program has libraries in it
		return
	fi
	size=$(size_of .text.startup_first)
	rest=$(size_of .text)
	# a library's members have other names after a time: tests/bench/startup
	((size > 100000 && size < rest))
}

# size_of SECTION
size_of() {
	readelf -SW "$DLOCK" | awk -v section="$1" '{ sub(/^ *\[ *[0-9]+\] */, "") }
		$1 == section { print "0x" $5 }'
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

@test "a host by name: it is called dlock, and its password is blanked" {
	hold -b "$NAMED" --
	redis_at "$REDIS_DIR" acl setuser "$LOCK" on '>open-sesame' '~*' '&*' +@all
	start "$DLOCK" run -b "redis://$LOCK:open-sesame@127.1:$REDIS_PORT" "$LOCK" -- true
	keeper_of "$PID"
	proc_stat "$PID"
	equal "$PROC_COMM" dlock
	has_line "/proc/$PID/cmdline" "$LOCK:\\*+@127.1"
	not has_line "/proc/$PID/cmdline" open-sesame
	release
	join "$PID"
	equal "$status" 0
}

@test "an unknown host is named, whoever looked it up" {
	run --separate-stderr "$DLOCK" run -b redis://no-such-host.invalid "$LOCK" -- true
	equal "$status" 122
	one_line no-such-host.invalid resolve
}

@test "a token on standard input is not lost on the way" {
	token=$("$DLOCK" acquire -b "$NAMED" "$LOCK")
	run --separate-stderr bash -c 'echo "$1" | "$DLOCK" verify -b "$2" "$3" -' _ "$token" "$NAMED" "$LOCK"
	equal "$status" 0
	run --separate-stderr bash -c 'echo "$1" | "$DLOCK" release -b "$2" "$3" -' _ "$token" "$NAMED" "$LOCK"
	equal "$status" 0
}

@test "without dlock-full: what needs it says so, the rest works" {
	two_programs || return 0
	mkdir bin
	cp "$DLOCK" bin/dlock
	run --separate-stderr bin/dlock run -b "$NAMED" "$LOCK" -- true
	equal "$status" 125
	one_line dlock-full
	run --separate-stderr bin/dlock run -b "$REDIS" "$LOCK" -- true
	equal "$status" 0
}

@test "installed: bin/dlock finds its other half in lib/dlock" {
	local static=no
	if two_programs; then
		static=yes
	fi
	make -s -C "$BATS_TEST_DIRNAME/.." BUILD="$BUILD" STATIC=$static DESTDIR="$T/root" \
		PREFIX=/opt install
	run --separate-stderr "$T/root/opt/bin/dlock" run -b "$NAMED" "$LOCK" -- echo ran
	equal "$status" 0
	equal "$output" ran
	make -s -C "$BATS_TEST_DIRNAME/.." DESTDIR="$T/root" PREFIX=/opt uninstall
	run find "$T/root" ! -type d
	equal "$output" ""
}

@test "a privileged dlock starts no dlock-full that lies beside it" {
	need_root
	two_programs || return 0
	local as=(env -i PATH="$PATH" setpriv --reuid 65534 --clear-groups) open
	# where a user without rights can go
	open=$(mktemp -d)
	chmod 755 "$open"
	cp "$DLOCK" "$open/dlock"
	printf '#!/bin/sh\necho evil\n' >"$open/dlock-full"
	chmod 755 "$open/dlock-full"
	run --separate-stderr "${as[@]}" "$open/dlock" run -b "$NAMED" "$LOCK" -- true
	equal "$output" evil "of a program like any other"
	chmod 4755 "$open/dlock"
	run --separate-stderr "${as[@]}" "$open/dlock" run -b "$NAMED" "$LOCK" -- true
	rm -r "$open"
	not matches "$output" evil
}
