# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# A program that is not dlock and takes the same locks. It reads lines, and says lines.

# For tests/lib/peer.py, which the peers in Python are written with.
export PYTHONPATH=$TOP/tests/lib

# start_peer SECONDS COMMAND...: starts it, and waits until it is ready
start_peer() {
	local lines=$T/peer.$STARTED_COUNT
	mkfifo "$lines"
	exec {TO_PEER}<>"$lines"
	start sh -c 'exec "$@" <"$0"' "$lines" "${@:2}"
	PEER=$PID PEER_OUT=$OUT PEER_ERR=$ERR
	hears ready "$1"
}

# tell WORD...: sends it a line
tell() {
	echo "$*" >&"$TO_PEER"
}

# hears LINE [SECONDS]: it says that, now or before
hears() {
	wait_until "${2:-20}" heard "$1" ||
		fail "the peer has not said '$1': $(cat "$PEER_OUT" "$PEER_ERR")"
}

heard() {
	has_line "$PEER_OUT" "^$1\$"
}

# kill_peer: it crashes
kill_peer() {
	kill -KILL "$PEER"
	wait_until 5 ended "$PEER"
	tidy
}

tidy() {
	if [[ -n ${TO_PEER-} ]]; then
		exec {TO_PEER}>&-
		unset TO_PEER
	fi
}
