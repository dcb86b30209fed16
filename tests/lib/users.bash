# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Other users.

# as USER COMMAND...: runs COMMAND as another user
as() {
	local user=$1
	shift
	setpriv --reuid="$user" --regid="$user" --clear-groups env -u DLOCK_BACKEND "$@"
}

# strangers: sets ALICE and BOB to two unused user ids, and OPEN to a directory that both can enter,
# with a copy of dlock in it
strangers() {
	need_root
	need setpriv
	ALICE=$((60000 + BASHPID % 2000))
	BOB=$((ALICE + 2500))
	# Other users cannot enter the tests' own directory.
	OPEN=$(mktemp -d /tmp/dlock-open.XXXXXX)
	chmod 0755 "$OPEN"
	cp "$DLOCK" "$OPEN/dlock"
	export HOME=$OPEN XDG_CONFIG_HOME=$OPEN
	cd "$OPEN" || return
}
