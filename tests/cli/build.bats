# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# How dlock is built: with any part left out, with flags that change, in any directory, without
# git, and with a library that is missing or lacks something. All build in one directory, where make
# makes again what must not stay, and without optimization, which is faster. Those with the tag
# "long" are for .ci/run.

load ../lib/helpers

prepare() {
	# What the make that runs these tests was told is not for the ones that they run.
	unset MAKEFLAGS MFLAGS MAKELEVEL BUILD SANITIZE DLOCK_BACKEND
	unset CC CPPFLAGS CFLAGS LDFLAGS PREFIX LIBDIR BINDIR DESTDIR SHARED
	unset WITH_REDIS WITH_TLS WITH_ZOOKEEPER WITH_MYSQL WITH_POSTGRES
	NOTHING=(WITH_REDIS=no WITH_ZOOKEEPER=no WITH_MYSQL=no WITH_POSTGRES=no WITH_ETCD=no)
	BUILT=$BATS_FILE_TMPDIR/built
	mkdir -p "$BUILT"
	ln -s "$BUILT" built
}

# build ARG...: in $TOP, into ./built
build() {
	make -s -C "$TOP" BUILD="$BUILT" CFLAGS='-O0 -Wno-cpp -Werror' "$@"
}

# copy DIR: the sources, without what has been built
copy() {
	mkdir -p "$1"
	tar -C "$TOP" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$1" -xf -
}

# without WHAT ARG...: a build with these flags knows what WHAT needs, but does not have it
without() {
	local uri=$1
	shift
	build "$@"
	run --separate-stderr -0 built/dlock run -b "file://$T/locks" "$LOCK" -- echo ran
	equal "$output" ran
	run --separate-stderr -125 built/dlock run -b "$uri" "$LOCK" -- true
	one_line 'built without'
	run -0 built/dlock version -v
	not matches "$output" "not installed"
}

# bats test_tags=more
@test "WITH_REDIS=no" {
	without redis://127.0.0.1 WITH_REDIS=no
}

# bats test_tags=more
@test "WITH_TLS=no" {
	without rediss://127.0.0.1 WITH_TLS=no
}

# bats test_tags=more
@test "WITH_ZOOKEEPER=no" {
	without zookeeper://127.0.0.1 WITH_ZOOKEEPER=no
}

# bats test_tags=more
@test "WITH_ETCD=no" {
	without etcd://127.0.0.1 WITH_ETCD=no
}

# bats test_tags=more
@test "WITH_MYSQL=no" {
	without mysql://127.0.0.1/db WITH_MYSQL=no
}

# bats test_tags=more
@test "WITH_POSTGRES=no" {
	without postgresql://127.0.0.1/db WITH_POSTGRES=no
}

# bats test_tags=more
@test "all parts left out, and then one of them after all" {
	without mysql://127.0.0.1/db "${NOTHING[@]}"
	equal "${lines[1]}" "with file"
	build WITH_REDIS=no WITH_MYSQL=no WITH_POSTGRES=no
	run -0 built/dlock version
	equal "${lines[1]}" "with file, zookeeper, etcd, TLS"
}

# bats test_tags=more
@test "SHARED=yes: no library is in the program or in a module" {
	build SHARED=yes
	run -0 built/dlock version -v
	readelf -d built/dlock built/dlock-*.so >needed
	for library in hiredis zookeeper_mt ssl; do
		has_line needed "NEEDED.*lib$library"
	done
	grep -Eq 'NEEDED.*lib(mariadb|mysqlclient)' needed
	run -1 sh -c 'nm built/dlock-mysql.so | grep -E " T (SSL_new|deflate)$"'
}

# bats test_tags=more
@test "CC=clang, eight jobs, and the linkers gold and lld" {
	local linker
	build -j8 CC=clang
	for linker in gold lld; do
		# Debian has gold in a package of its own since version 13.
		[[ $linker == lld ]] || type -P ld.gold >/dev/null || continue
		build CC=clang LDFLAGS="-fuse-ld=$linker"
		run -0 built/dlock version -v
		matches "$output" 'MariaDB|MySQL'
		run -5 built/dlock run -b "file://$T/locks" "$LOCK" -- sh -c 'exit 5'
	done
}

# of_check REGEX: the program of a process that belongs to a tests/check in $T matches
of_check() {
	grep -lzs "^TMPDIR=$T/" /proc/[0-9]*/environ | sed 's/environ$/exe/' | xargs -r readlink |
		grep -q "$1"
}

# bats test_tags=more
@test "make check that is interrupted: no process or file of it stays" {
	start env -i PATH="$PATH" TMPDIR="$T" SLOW=1 BUILD="${DLOCK%/*}" setsid "$TOP/tests/check" \
		"$TOP/tests/redis/waiting.bats"
	wait_until 60 of_check '/dlock$'
	kill -INT -- "-$PID"
	join "$PID"
	equal "$status" 130
	not of_check /
	not compgen -G "$T/dlock.*"
}

@test "make demo shows a lock, and leaves nothing outside of the build" {
	run -0 build "${NOTHING[@]}" demo
	matches "$output" "on file:$BUILT/demo"
	matches "$output" 'I hold the lock demo, fence [0-9]+'
}

# bats test_tags=more
@test "what is built twice is made once; other flags make it again" {
	local before
	build "${NOTHING[@]}"
	before=$(stat -c %y built/cmd/main.o built/dlock)
	build "${NOTHING[@]}"
	equal "$(stat -c %y built/cmd/main.o built/dlock)" "$before"
	build "${NOTHING[@]}" LDFLAGS=-Wl,-O1
	equal "$(stat -c %y built/cmd/main.o)" "${before%%$'\n'*}"
	not equal "$(stat -c %y built/dlock)" "${before#*$'\n'}"
	build "${NOTHING[@]}" CPPFLAGS=-DNOBODY_ASKS "$BUILT/cmd/main.o"
	not equal "$(stat -c %y built/cmd/main.o)" "${before%%$'\n'*}"
}

# bats test_tags=more
@test "BINDIR and LIBDIR with spaces, given to make install alone" {
	local parts=(WITH_REDIS=no WITH_MYSQL=no WITH_POSTGRES=no) before
	build "${parts[@]}"
	before=$(stat -c %y built/cmd/main.o)
	build "${parts[@]}" PREFIX="$T/a prefix" BINDIR="$T/a bin" LIBDIR="$T/a lib" install
	equal "$(stat -c %y built/cmd/main.o)" "$before" "only one object depends on LIBDIR"
	run --separate-stderr -0 "$T/a bin/dlock" version -v
	matches "$output" 'ZooKeeper C client'
}

# bats test_tags=more
@test "a directory with a space; two builds give the same files" {
	local file
	copy "a tree"
	copy "$T/elsewhere/tree"
	make -s -j2 -C "a tree" CFLAGS='-O0 -g -Wno-cpp' all
	# In another order, for another user and language, and at another time.
	TZ=Pacific/Auckland LC_ALL=C HOME=/nonexistent bash -c "umask 077 &&
		make -s -j3 -C elsewhere/tree CFLAGS='-O0 -g -Wno-cpp' all"
	run -0 "a tree/build/dlock" run -b "file://$T/locks" "$LOCK" -- echo ran
	equal "$output" ran
	for file in dlock dlock-tls.so dlock-mysql.so dlock-postgres.so dlock-zookeeper.so dlock-etcd.so; do
		cmp "a tree/build/$file" "elsewhere/tree/build/$file"
	done
	make -s -C "a tree" CFLAGS='-O0 -g -Wno-cpp' BUILD="$T/a tree/build" PREFIX="$T/a prefix" install
	run -0 "a prefix/bin/dlock" version
}

# bats test_tags=more
@test "a module that does not load fails the build, with its name" {
	run -2 build MYSQL_LIBS= WITH_REDIS=no WITH_ZOOKEEPER=no WITH_POSTGRES=no
	matches "$output" 'mysql.*undefined symbol'
}

@test "a library or compiler that is missing is named in one line, with its package" {
	mkdir bin
	printf '#!/bin/sh\nexit 1\n' | tee bin/dpkg-query >bin/pkg-config
	chmod 755 bin/*
	PATH=$T/bin:$PATH run -2 build WITH_ZOOKEEPER=no WITH_MYSQL=no WITH_POSTGRES=no
	matches "$output" 'apt install libhiredis-dev libssl-dev'
	not matches "$output" 'fatal error'
	equal "${#lines[@]}" 2 "lines, the last one of make"
	PATH=$T/bin:$PATH run -2 build CC=no-such-compiler WITH_ZOOKEEPER=no WITH_MYSQL=no WITH_POSTGRES=no
	matches "$output" 'apt install gcc libhiredis-dev libssl-dev'
	equal "${#lines[@]}" 2 "lines, the last one of make"
}

# bats test_tags=more
@test "a user who cannot become root gets the line to run as root" {
	strangers
	mkdir bin
	printf '#!/bin/sh\nexit 1\n' | tee bin/dpkg-query bin/sudo >bin/pkg-config
	cp "$TOP/tests/packages" bin/packages
	chmod -R go+rX,a+x bin
	# Nobody can type a password here.
	run --separate-stderr -1 as "$ALICE" env PATH="$PWD/bin:$PATH" bin/packages redis tls
	equal "$stderr" "Needed and not found; please run: sudo apt install libhiredis-dev libssl-dev"
	equal "$output" ""
}

# bats test_tags=more
@test "make dist: a tarball that builds without git, and packs itself again" {
	local version
	version=$(sed -n 's/^#define DLOCK_VERSION "\(.*\)"$/\1/p' "$TOP/src/base/version.h")
	build dist
	mkdir unpacked
	tar -C unpacked -xf "built/dlock-$version.tar.gz"
	cd "unpacked/dlock-$version"
	make -s CFLAGS='-O0 -Wno-cpp' "${NOTHING[@]}" all dist
	run -0 build/dlock version
	equal "${lines[0]}" "dlock $version"
	if [[ -e $TOP/.git ]]; then
		cmp "build/dlock-$version.tar.gz" "$BUILT/dlock-$version.tar.gz"
	fi
}

# bats test_tags=more
@test "make release: the packages of the tag, with their sums, and of nothing else" {
	need git
	local version sources made=built/release
	version=$(sed -n 's/^#define DLOCK_VERSION "\(.*\)"$/\1/p' "$TOP/src/base/version.h")
	make -s -C "$TOP" BUILD="$T/dist" dist
	tar -xf "dist/dlock-$version.tar.gz"
	cd "dlock-$version"
	# Packages take minutes: what builds and installs them here only says what it has got.
	mkdir "$T/bin"
	cat >"$T/bin/dpkg-buildpackage" <<-'END'
		#!/bin/sh
		name=dlock_$(sed -n 's/^dlock (\(.*\)) .*/\1/p' debian/changelog | head -n 1)
		cp README.md "../${name}_all.deb"
		touch "../$name.dsc" "../$name.debian.tar.xz" "../$name.changes"
	END
	printf '#!/bin/sh\n' >tests/packages
	printf '#!/bin/sh\nmkdir build/arm64 && echo "$@" >build/arm64/dlock-static\n' >tests/cross
	chmod +x "$T/bin/dpkg-buildpackage" tests/packages
	export PATH=$T/bin:$PATH GIT_CONFIG_GLOBAL=/dev/null CFLAGS='-O0 -Wno-cpp' "${NOTHING[@]}"
	run -2 make -s BUILD=built release
	matches "$output" 'needs a clone'
	git init -q
	git config user.name x
	git config user.email x@example.com
	git add -A
	git commit -qm tagged
	run -2 make -s BUILD=built release
	matches "$output" "there is no v$version; tag the commit, or try it with REF=HEAD"
	git tag "v$version"
	git tag v0.0.1
	echo later >README.md
	git commit -qam later
	echo uncommitted >README.md
	run -0 make -s BUILD=built release
	# the placeholder in debian/control is noticed
	matches "$output" 'maintainer'
	(cd "$made" && sha256sum --check --strict --quiet SHA256SUMS)
	equal "$(cd "$made" && sed 's/^[0-9a-f]* [ *]//' SHA256SUMS | sort | xargs)" \
		"dlock-$version-docs.tar.gz dlock-$version-linux-aarch64 dlock-$version-linux-$(uname -m) dlock-$version.tar.gz dlock-static.LICENSES dlock_$version-1.debian.tar.xz dlock_$version-1.dsc dlock_$version-1_all.deb dlock_$version.orig.tar.gz"
	equal "$(<"$made/dlock-$version-linux-aarch64")" -s
	run -0 "$made/dlock-$version-linux-$(uname -m)" run file:locks/x -- echo ran
	equal "$output" ran
	tar -tf "$made/dlock-$version-docs.tar.gz" | grep -qx "dlock-$version-docs/index.html"
	cmp "$made/dlock_$version-1_all.deb" "$TOP/README.md"
	run -0 make -s BUILD=built release REF=HEAD
	equal "$(<"$made/dlock_$version-1_all.deb")" later
	run -2 make -s BUILD=built release REF=v0.0.1
	matches "$output" "v0.0.1 has the version $version"
}

# bats test_tags=more
@test "make format formats the lines that have changed, and no other" {
	need git-clang-format
	copy tree
	cd tree
	git init -q .
	git add .
	git -c user.name=A -c user.email=a@b commit -qm all
	echo 'int  old( void );' >>src/base/clock.h
	git -c user.name=A -c user.email=a@b commit -qam old
	echo 'int  changed( void );' >>src/base/clock.h
	make -s BASE=HEAD format
	equal "$(tail -n 2 src/base/clock.h)" "int  old( void );"$'\n'"int changed(void);"
	equal "$(git status --porcelain)" " M src/base/clock.h"
}

@test "the changelogs have the version of the program" {
	run -0 "$DLOCK" version
	local version=${lines[0]#dlock }
	# a release has its date behind its version
	matches "$(grep '^## ' "$TOP/CHANGELOG.md" | grep -v Unreleased | head -n 1)" \
		"^## $version - 20[0-9]{2}-[01][0-9]-[0-3][0-9]$" CHANGELOG.md
	matches "$(head -n 1 "$TOP/debian/changelog")" "^dlock \($version-[0-9]+\) "
}
