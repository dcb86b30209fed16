# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The ports of the servers that tests start.

# free_port [COUNT]: sets PORT to the first of COUNT (1) consecutive ports of 127.0.0.1 that nobody listens
# at and that this bats has not had before. Those of a server that is down for a moment look free, so that
# each suite has a range of its own, PORT_RANGE: its first port, and how many there are. All are below the
# ports that the kernel hands out to clients; the bus of a Redis cluster is 10000 above.
free_port() {
	local count=${1:-1} ports offset tries=0
	read -ra ports <<<"${PORT_RANGE:-10000 10000}"
	while :; do
		# A suite may have had all of them.
		((++tries % 10000)) || rmdir "$BATS_RUN_TMPDIR"/port.*
		PORT=$((ports[0] + RANDOM % (ports[1] - count)))
		for ((offset = 0; offset < count; offset++)); do
			mkdir "$BATS_RUN_TMPDIR/port.$((PORT + offset))" 2>/dev/null || continue 2
			# A connection would count as a client's failure.
			if grep -qis "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$((PORT + offset))") " /proc/net/tcp /proc/net/tcp6; then
				continue 2
			fi
		done
		return 0
	done
}
