# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Outside of cgroups the kernel gives each session the same share of the processor (sched(7), autogroup):
# the keeper of each dlock, which has a session, as much as all servers and tests together. Servers,
# which have a machine of their own elsewhere, then miss the times that tests allow.

# share_alike: moves this shell, with what it starts, into a cgroup, where each process has its share; if
# that is not possible, it stays where it is
share_alike() {
	local group=/sys/fs/cgroup/cpu/dlock-tests.$$
	if grep -Eq '^[0-9]+:([^:]+,)?cpu(,[^:]+)?:/$' /proc/self/cgroup && mkdir "$group" 2>/dev/null; then
		echo $$ >"$group/tasks"
		FAIR_GROUP=$group
	fi
}

# leave_alike: undoes this; what still runs in it leaves it, too
leave_alike() {
	local pid
	[[ -n ${FAIR_GROUP-} ]] || return 0
	while read -r pid; do
		echo "$pid" >"$FAIR_GROUP/../tasks"
	done <"$FAIR_GROUP/tasks" 2>/dev/null
	# What was just killed may be in it for a moment.
	for pid in 1 2 3 4 5 6 7 8 9 10; do
		! rmdir "$FAIR_GROUP" 2>/dev/null || return 0
		sleep 0.2
	done
	rmdir "$FAIR_GROUP"
}
