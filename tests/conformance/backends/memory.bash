# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The backend in memory (tests/conformance/memory), for run.bats.

# shellcheck source=tests/lib/services/memory.bash
source "$TOP/tests/lib/services/memory.bash"

FIFO=1
LEASES=1

setup_file() {
	need socat
	export DLOCK=$BUILD/tests/conformance/memory/dlock
	memory_for_file
}

teardown_file() {
	memory_file_end
}

backend_prepare() {
	URI=memory://$MEMORY_SOCKET
}

backend_nothing_left() {
	"$DLOCK" status -b "$URI" --names >"$T/names" && ! grep -qF -- "$LOCK" "$T/names"
}

backend_waiters() {
	"$DLOCK" status -b "$URI" --json "$LOCK" | jq '.waiters | length'
}

# Gives the process a table that is all 0: one message, of which it reads no more than a table.
backend_wipe() {
	head -c 200000 /dev/zero >zeros
	socat -b 200000 -t1 OPEN:zeros \
		"ABSTRACT-CONNECT:$MEMORY_SOCKET,type=5,unix-tightsocklen=0" >wiped 2>&1 || :
	equal "$("$DLOCK" status -b "$URI" --names)" "" names
}
