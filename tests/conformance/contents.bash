# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What a backend stores and what dlock's keepers leave behind, for the suites that look for leaks.

# contents: prints all that the backend at $URI stores under names with $LOCK in them, one a line,
# with checksums of what is stored
contents() {
	local path stat
	case $URI in
	file:*)
		# `dlock check` takes a lock of its own, and leaves its file.
		(cd "$LOCKS" && find . -type f ! -name 'dlock-check.*' -exec sha256sum {} + | sort -k 2)
		;;
	redis*)
		rcli --scan | grep -F -- "$LOCK" | sort | while read -r key; do
			echo "$key $(rcli dump "$key" | sha256sum)"
		done
		;;
	redlock*)
		redlock_contents "$LOCK"
		;;
	zookeeper*)
		zn tree /dlock | grep -F -- "$LOCK" | while read -r path; do
			# The server is about to remove a directory that is empty.
			if stat=$(zn stat "$path" 2>/dev/null) && [[ $stat != *' children=0' || $stat != *=0x8* ]]; then
				echo "$path $(zn get "$path" | sha256sum) ${stat#* owner=}"
			fi
		done
		;;
	etcd:*)
		ec get --prefix "" --print-value-only --keys-only | grep -F -- "$LOCK" | sort
		;;
	mysql:*)
		mysql_contents "$LOCK"
		;;
	postgresql:*)
		postgres_contents "$LOCK"
		;;
	*)
		fail "contents: $URI is not known"
		;;
	esac
}

# socket_of TOKEN: sets SOCKET, the abstract address where its keeper listens, if any
socket_of() {
	SOCKET=dlock-keeper-${1:0:8}
}

# no_socket TOKEN...
no_socket() {
	local token
	for token; do
		socket_of "$token"
		not grep -q " @$SOCKET\$" /proc/net/unix || return 1
	done
}
