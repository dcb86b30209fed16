# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The process that has the rows of memory:///SOCKET (tests/conformance/memory). Its pid file and its log are at
# that path, too. Needs wait_until from helpers.bash.

# memory_start SOCKET [FAULT]: starts it, and returns when it can be reached. Its pid is in SOCKET.pid.
memory_start() {
	setpriv --pdeathsig KILL "$BUILD/oracle" -m "$@" </dev/null >"$1.log" 2>&1 3>&- 4>&- &
	echo $! >"$1.pid"
	disown $!
	wait_until 5 memory_ready "$1"
}

memory_ready() {
	"$BUILD/tests/conformance/memory/dlock" status --names -b "memory://$1" >/dev/null 2>&1
}

# memory_for_file, memory_file_end: for setup_file and teardown_file. One for all tests of a file,
# at MEMORY_SOCKET.
memory_for_file() {
	export MEMORY_SOCKET=$BATS_FILE_TMPDIR/memory
	memory_start "$MEMORY_SOCKET"
}

memory_file_end() {
	kill "$(<"$MEMORY_SOCKET.pid")"
}
