# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The file backend, for suite.bats.

FIFO=
LEASES=

backend_prepare() {
	URI=$FILE
}

# the file of a lock whose name needs no encoding
lock_file() {
	echo "$LOCKS/$LOCK.lock"
}

# nobody holds it, nobody waits; the file itself stays
backend_nothing_left() {
	[[ ! -e $(lock_file) ]] || flock -n "$(lock_file)" true
}

backend_waiters() {
	local inode
	inode=$(stat -c %i "$(lock_file)")
	awk -v inode=":$inode" '$2 == "->" && $7 ~ inode "$"' /proc/locks | wc -l
}

backend_wipe() {
	rm "$(lock_file)"
}
