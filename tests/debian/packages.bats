# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The Debian packages: built in a tree of Debian, then installed, used, upgraded and purged in a
# fresh one, one test after the other, with apt; then judged by lintian, built a second time, and
# tested by their own tests. DEBIAN names the suite, which is that of this machine unless it is
# given, and DEBS the directory that `make deb` has left on that suite, if there is one. The servers
# are those of this machine, and those that the packages' tests start in their tree. Needs root, and
# what apt needs; it is run by `make check-deb`, and not by `make check`.

load ../lib/helpers
load ../lib/services/mysql

setup_file() {
	local suite
	suite=${DEBIAN:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
	export DIR=$BATS_FILE_TMPDIR/fresh TREE ENTER=$BATS_TEST_DIRNAME/enter
	export BUILD_DIR=$BATS_FILE_TMPDIR/build BUILD_TREE
	TREE=$("$BATS_TEST_DIRNAME/tree" "$suite")
	BUILD_TREE=$("$BATS_TEST_DIRNAME/tree" "$suite" build deb)
	empty "$BUILD_DIR"
	mkdir "$BUILD_DIR/tmp/dlock"
	# What `make deb` leaves: the packages, what they were made from, and the tree they were built in.
	BUILT=$BUILD_DIR/tmp/dlock/build/deb
	export BUILT
	if [[ -n ${DEBS-} ]]; then
		mkdir "${BUILT%/*}"
		cp -R "$DEBS" "$BUILT"
	else
		build
	fi
	empty "$DIR"
	mkdir "$DIR/tmp/old" "$DIR/tmp/new"
	cp "$BUILT"/*.deb "$DIR/tmp/new/"
	rm -f "$DIR"/tmp/new/*-dbgsym_*
	older
	quietly in_tree apt-get -qq update
	redis_for_file
	export MYSQL_DIR=$BATS_FILE_TMPDIR/mysql ZOOKEEPER_DIR=$BATS_FILE_TMPDIR/zookeeper
	mysql_start "$MYSQL_DIR"
	zookeeper_start "$ZOOKEEPER_DIR"
}

# quietly COMMAND...: runs it, and shows what it wrote if it fails
quietly() {
	"$@" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
		tail -n 40 "$BATS_FILE_TMPDIR/log" >&2
		return 1
	}
}

# empty DIR: makes a directory for tests/debian/enter
empty() {
	mkdir "$1"
	mkdir -m 1777 "$1/tmp"
}

# as_nobody COMMAND...: runs COMMAND, in the tree, as a user who owns nothing, not even a home
AS_NOBODY='as_nobody() {
	setpriv --reuid nobody --regid nogroup --clear-groups env -i PATH="$PATH" HOME=/nonexistent "$@"
}
'

# build: makes the packages, in a tree that has what they are built with, without root and without
# any network: not even that of the machine itself
build() {
	local top
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	env -u MAKEFLAGS -u MFLAGS make -s -C "$top" dist BUILD="$BUILD_DIR/dist"
	tar -C "$BUILD_DIR/tmp/dlock" --strip-components=1 -xf "$BUILD_DIR"/dist/*.tar.gz
	quietly in_build unshare --net sh -euc "$AS_NOBODY"'
		chown -R nobody:nogroup dlock
		as_nobody make -C dlock deb'
}

teardown_file() {
	redis_file_end
	if [[ -f ${MYSQL_DIR-}/pid ]]; then
		server_stop "$MYSQL_DIR"
	fi
	if [[ -f ${ZOOKEEPER_DIR-}/pid ]]; then
		server_stop "$ZOOKEEPER_DIR"
	fi
	rm -rf --one-file-system "$DIR" "$BUILD_DIR"
}

# older: the packages in new, with a version before theirs, in old
older() {
	local deb unpacked=$BATS_FILE_TMPDIR/unpacked
	for deb in "$DIR"/tmp/new/*.deb; do
		dpkg-deb -R "$deb" "$unpacked"
		sed -i -E 's/^Version: .*/Version: 0.1-1/; s/^(Depends: .*dlock \(= )[^)]*/\10.1-1/' \
			"$unpacked/DEBIAN/control"
		quietly dpkg-deb --root-owner-group -b "$unpacked" "$DIR/tmp/old/$(basename "${deb%%_*}").deb"
		rm -rf "$unpacked"
	done
}

# in_tree COMMAND...: runs it in the fresh tree, which keeps what it changes
in_tree() {
	"$ENTER" "$TREE" "$DIR" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# in_build COMMAND...: the same in the tree that the packages were built in
in_build() {
	"$ENTER" "$BUILD_TREE" "$BUILD_DIR" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# dlock_packages: prints "NAME VERSION" of the installed packages of dlock
dlock_packages() {
	in_tree dpkg-query -W -f '${db:Status-Abbrev}${Package} ${Version}\n' 'dlock*' 2>/dev/null |
		sed -n 's/^ii *//p'
}

# uris: prints a backend of each server
uris() {
	echo "redis://127.0.0.1:$(<"$REDIS_DIR/port")"
	mysql_uri "$MYSQL_DIR"
	echo "zookeeper://127.0.0.1:$(<"$ZOOKEEPER_DIR/port")"
}

@test "the package dlock alone has the backends for a directory and for Redis" {
	run -0 in_tree sh -c 'apt-get -qq install --no-install-recommends /tmp/new/dlock_*.deb'
	equal "$(dlock_packages | cut -d ' ' -f 1)" dlock
	run -0 in_tree dlock run "$LOCK" -- sh -c 'echo "$DLOCK_NAME"'
	equal "${lines[-1]}" "$LOCK"
	run -0 in_tree dlock run -b "redis://127.0.0.1:$(<"$REDIS_DIR/port")" "$LOCK" -- echo held
	equal "${lines[-1]}" held
	run in_tree dlock run -b "$(mysql_uri "$MYSQL_DIR")" "$LOCK" -- echo held
	equal "$status" 125
	matches "$output" 'dlock-mysql'
	run -0 in_tree apt-get -qq purge dlock
}

@test "README: the packages of a release install as it says" {
	local line
	line=$(grep -oE 'sudo apt install [^`]*\.deb' "$BATS_TEST_DIRNAME/../../README.md")
	equal "$(wc -l <<<"$line")" 1 lines
	run -0 in_tree sh -c "cd /tmp/new && ${line/sudo apt/apt-get -qq}"
	equal "$(dlock_packages | cut -d ' ' -f 1 | tr '\n' ' ')" \
		"dlock dlock-etcd dlock-mysql dlock-postgres dlock-tls dlock-zookeeper "
	run -0 in_tree dlock run "$LOCK" -- echo held
	equal "${lines[-1]}" held
	run -0 in_tree apt-get -qq purge dlock dlock-etcd dlock-mysql dlock-postgres dlock-tls dlock-zookeeper
}

@test "with what it recommends, from the version before: a run on each server" {
	run -0 in_tree sh -c 'apt-get -qq install /tmp/old/*.deb'
	equal "$(dlock_packages | tr '\n' ' ')" \
		"dlock 0.1-1 dlock-etcd 0.1-1 dlock-mysql 0.1-1 dlock-postgres 0.1-1 dlock-tls 0.1-1 dlock-zookeeper 0.1-1 "
	run -0 in_tree dlock version -v
	not matches "$output" 'not installed'
	local uri
	for uri in $(uris); do
		run -0 in_tree dlock run -b "$uri" "$LOCK" -- echo held
		equal "${lines[-1]}" held "$uri"
	done
}

@test "an upgrade does not touch the locks that are held" {
	cat >"$DIR/tmp/upgrade" <<-'END'
		set -eu
		n=0
		while read -r uri; do
			n=$((n + 1))
			dlock run -b "$uri" -t 3s upgraded -- sh -c 'echo >"$0.held"; sleep 300' "/tmp/$n" &
			until [ -e "/tmp/$n.held" ]; do
				kill -0 $!
				sleep 0.1
			done
			echo $! >"/tmp/$n.pid"
		done </tmp/uris
		apt-get -qq install /tmp/new/*.deb
		# For longer than the lease of the locks.
		sleep 4
		n=0
		while read -r uri; do
			n=$((n + 1))
			code=0
			dlock run -n -b "$uri" upgraded -- true || code=$?
			kill -TERM "$(cat "/tmp/$n.pid")"
			wait "$(cat "/tmp/$n.pid")" || ended=$?
			dlock run -w 5s -b "$uri" upgraded -- true
			echo "result $code $ended"
		done </tmp/uris
	END
	uris >"$DIR/tmp/uris"
	run -0 in_tree sh /tmp/upgrade
	equal "$(grep -c '^result 124 143$' <<<"$output")" 3 'locks that were held by the version before'
	not matches "$(dlock_packages)" ' 0\.1-1'
	equal "$(dlock_packages | wc -l)" 5
}

@test "lists and completions are in place" {
	run -0 in_tree dpkg -L dlock dlock-etcd dlock-mysql dlock-postgres dlock-tls dlock-zookeeper
	# The tree leaves out what is in /usr/share/doc.
	matches "$output" '/usr/share/doc/dlock/examples/lock.conf'
	local file
	for file in /usr/bin/dlock /usr/share/bash-completion/completions/dlock \
		/usr/share/zsh/vendor-completions/_dlock /usr/share/fish/vendor_completions.d/dlock.fish \
		/usr/lib/systemd/system/dlock-status.{service,timer}; do
		in_tree test -f "$file" || fail "not installed: $file"
	done
	for file in "$BATS_TEST_DIRNAME"/../../man/*; do
		in_tree test -f "/usr/share/man/man${file##*.}/${file##*/}.gz" || fail "not installed: $file"
	done
	# The timer is not enabled.
	run -0 in_tree find /etc -name 'dlock*.timer'
	equal "$output" ""
}

@test "purging leaves nothing" {
	run -0 in_tree apt-get -qq purge dlock dlock-etcd dlock-mysql dlock-postgres dlock-tls dlock-zookeeper
	run in_tree dpkg-query -W -f '${db:Status-Abbrev}\n' 'dlock*'
	not matches "$output" '^[ih]'
	# Lock files stay; the system removes them when it starts.
	run -0 in_tree find / -xdev -name '*dlock*' -not -name padlock.so -not -path '/tmp/*' \
		-not -path '/run/dlock*'
	equal "$output" ""
}

@test "lintian finds no error and nothing to warn of" {
	run in_build sh -euc '
		apt-get -qq update
		apt-get -qq install --no-install-recommends lintian
		lintian -EvIL +pedantic --fail-on error,warning dlock/build/deb/*.changes'
	equal "$status" 0 "status of lintian, which says: $output"
	not matches "$output" $'(^|\n)[EW]: '
}

@test "the same packages come out elsewhere, a year later, in another language" {
	run -0 in_build sh -euc "$AS_NOBODY"'
		apt-get -qq update
		apt-get -qq install --no-install-recommends faketime
		mkdir -p elsewhere/and/deeper
		cd elsewhere/and/deeper
		tar -xf /tmp/dlock/build/deb/*.orig.tar.gz
		cd dlock-*
		tar -xf /tmp/dlock/build/deb/*.debian.tar.xz
		chown -R nobody:nogroup /tmp/elsewhere
		umask 027
		as_nobody TZ=Pacific/Auckland LC_ALL=C DEB_BUILD_OPTIONS="nocheck parallel=3" \
			NO_FAKE_STAT=1 faketime -f +400d make deb
		mv build/deb /tmp/again'
	local file count=0
	for file in "$BUILT"/*.deb "$BUILT"/*.tar.* "$BUILT"/*.dsc; do
		cmp "$file" "$BUILD_DIR/tmp/again/${file##*/}"
		count=$((count + 1))
	done
	equal "$count" 11 'packages, with their symbols and sources'
}

# debian_test NAME: runs a test of debian/tests with the packages, in a fresh tree, into which
# autopkgtest installs what the test depends on
debian_test() {
	local dir=$BATS_TEST_TMPDIR/fresh
	empty "$dir"
	cp "$DIR"/tmp/new/*.deb "$dir/tmp/"
	cp -R "$BUILT"/dlock-*/ "$dir/tmp/built"
	run -0 "$ENTER" "$TREE" "$dir" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 sh -euc '
		apt-get -qq update
		apt-get -qq install --no-install-recommends autopkgtest
		autopkgtest --test-name="$1" built// ./*.deb -- null' sh "$1"
	matches "$output" "$1 +PASS"
	rm -rf --one-file-system "$dir"
}

@test "debian/tests: file" {
	debian_test file
}

@test "debian/tests: redis" {
	debian_test redis
}

@test "debian/tests: mysql" {
	debian_test mysql
}

@test "debian/tests: postgres" {
	debian_test postgres
}

@test "debian/tests: zookeeper" {
	debian_test zookeeper
}

@test "debian/tests: etcd" {
	debian_test etcd
}
