# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The file backend, for run.bats.

FIFO=
LEASES=

backend_prepare() {
	URI=$FILE
}

# lock_file: prints the path of the lock's file; the names of test locks need no encoding
lock_file() {
	echo "$LOCKS/$LOCK.lock"
}

# Nobody holds the lock or waits for it. The file itself stays.
backend_nothing_left() {
	[[ ! -e $(lock_file) ]] || flock -n "$(lock_file)" true
}

# Waiters are counted in /proc/locks. In a container that file leaves out the waiters for a lock
# whose own process has ended, as that of acquire has. Then the processes count that sleep in
# flock(2).
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
