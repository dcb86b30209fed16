# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Holders and waiters on each strategy, for tests of clusters that lose a member.

STRATEGIES=(strategy=lease strategy=insert strategy=row strategy=advisory strategy=table
	dialect=shedlock)

# What each command does first: it leaves "overlap" if another one is inside. It is not atomic
# that a command is killed and its mark is removed, so a mark has the pid.
INSIDE='for other in inside.$0.*; do
		[ ! -e "$other" ] || ! kill -0 "${other##*.}" 2>/dev/null || echo "$other" >>overlap
	done
	touch "inside.$0.$$"; echo "$DLOCK_FENCE" >>"fences.$0"; '

# hold_all DIR TTL URI HOLDER WAITER [URI]: of each strategy a lock is held, until there is a file "end",
# and waited for, over the second URI if there is one. HOLDER and WAITER are dlock. DIR is of a server
# that takes writes. Sets HOLDERS, WAITERS and ERRS.
hold_all() {
	local strategy name
	HOLDERS=() WAITERS=() ERRS=()
	for strategy in "${STRATEGIES[@]}"; do
		name=$LOCK-${strategy#*=}
		mysql_at "$1" "CREATE TABLE IF NOT EXISTS \`$name\` (id INT PRIMARY KEY)"
		"$4" setup -b "$3?$strategy"
		start "$4" run -t "$2" -b "$3?$strategy" "$name" -- \
			sh -c "$INSIDE"'touch "held.$0"; while [ ! -e end ]; do sleep 0.1; done' "$name"
		HOLDERS+=("$PID") ERRS+=("$ERR")
		wait_until 10 test -e "held.$name"
		start "$5" run -v -t "$2" -w 100s -b "${6-$3}?$strategy" "$name" -- \
			sh -c "$INSIDE"'touch "got.$0"' "$name"
		WAITERS+=("$PID")
		wait_until 10 has_line "$ERR" 'waiting'
	done
}

# lost_all SECONDS STRATEGIES: the holders of strategies that are like this have lost their locks, and
# the others end well, within SECONDS
lost_all() {
	local i expected
	for i in "${!HOLDERS[@]}"; do
		expected=0
		[[ ! ${STRATEGIES[i]#*=} =~ ^($2)$ ]] || expected=123
		join "${HOLDERS[i]}" "$1"
		equal "$status" "$expected" "${STRATEGIES[i]}: $(<"${ERRS[i]}")"
	done
}

# got_all: then each waiter gets its lock, and never were two commands inside
got_all() {
	local i name
	for i in "${!WAITERS[@]}"; do
		join "${WAITERS[i]}" 60
		equal "$status" 0 "waiter, ${STRATEGIES[i]}"
	done
	[[ ! -e overlap ]] || fail "two commands at once: $(<overlap)"
	for name in fences.*; do
		sort -n -C "$name" || fail "fences of $name: $(<"$name")"
	done
}
