# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What the Redis suites share. Their assertions ask the server, and do not rely on what dlock
# prints.

# shellcheck source=tests/redis-server.bash
source "${BASH_SOURCE[0]%/*}/redis-server.bash"

prepare() {
	export DLOCK_BACKEND=$REDIS
}

# ---- a command that testifies (tools/witness.c)

# testify PORT [OPTION]...: holds $LOCK with a witness that ignores TERM and asks the server at PORT
# itself whether the lease still stands. The witness writes to ./log.
testify() {
	local port=$1
	shift
	hold "$@" -- sh -c 'exec "$TOOLS/witness" -i -l log -p "$0" -k "dlock:$DLOCK_NAME" -t "$DLOCK_TOKEN"' "$port"
	wait_until 5 has_line log ' held '
}

# lost_nothing: no reply of the server has told the witness that it ran without the lock
lost_nothing() {
	not has_line log LOST
}

# last_sign: sets SIGN to the time of the witness's last line
last_sign() {
	read -r SIGN _ < <(tail -n 1 log)
}

# lease: sets LEASE to the end of the last lease that the server reported
lease() {
	LEASE=$(awk '$2 == "held" && $1 + $3 > end { end = $1 + $3 } END { print end }' log)
}

# dead_in_time: the witness is dead, and wrote nothing after the end of its lease
dead_in_time() {
	ended "$COMMAND"
	lost_nothing
	last_sign
	lease
	((SIGN < LEASE)) || fail "lived until $SIGN, the lease ended at $LEASE"
}

# lives_on MS: the witness lives for MS more, under a lease that stands
lives_on() {
	holds_for "$1" alive "$COMMAND"
	lost_nothing
	last_sign
	lease
	((SIGN < LEASE)) || fail "lives at $SIGN, the lease ended at $LEASE"
}

# end_witness: ends the witness, which ignores TERM, and its dlock
end_witness() {
	kill -KILL "$COMMAND"
	join "$HOLDER" 10
	equal "$status" 137
	lost_nothing
}

key_is() {
	[[ $(rcli get "$KEY") == "$1" ]]
}

key_gone() {
	[[ $(rcli exists "$KEY") == 0 ]]
}

p_key_gone() {
	[[ $(redis_at "$P_DIR" exists "$KEY") == 0 ]]
}

# lock_keys: prints all keys of this test's lock
lock_keys() {
	rcli --scan | grep -F -- "$LOCK"
}

# only_fences: the server has nothing of this lock but its fence
only_fences() {
	key_gone && ! lock_keys | grep -qv '}:fence$'
}

waiters() {
	[[ $(rcli zcard "{$KEY}:queue") == "$1" ]]
}

# ---- the server of a single test

p_waiters() {
	[[ $(redis_at "$P_DIR" zcard "{$KEY}:queue") == "$1" ]]
}

# faked_redis [OPTION]...: a private server whose wall clock the test sets with `clock`
faked_redis() {
	clocked "$REDIS_SERVER"
	REDIS_SERVER=$T/clocked private_redis "$@"
}
