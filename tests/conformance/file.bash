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

# In a container /proc/locks hides those who wait for a lock whose process it cannot name, as
# that of acquire has ended: then by where they sleep.
backend_waiters() {
	local inode count wchan fd
	inode=$(stat -c %i "$(lock_file)")
	count=$(awk -v inode=":$inode" '$2 == "->" && $7 ~ inode "$"' /proc/locks | wc -l)
	if ((count == 0)); then
		while read -r wchan; do
			for fd in "${wchan%/*}/fd/"*; do
				if [[ $fd -ef $(lock_file) ]]; then
					((++count))
					break
				fi
			done
		done < <(grep -ls lock_inode_wait /proc/[0-9]*/wchan)
	fi
	echo "$count"
}

backend_wipe() {
	rm "$(lock_file)"
}
