# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# What the Redis suites share. Their assertions ask the server, and do not rely on what dlock
# prints.
#
# A number in brackets above a test of Redis or Redlock names what a rewrite may forget:
#
#	1	the lock is written last, so that a refusal shows before anything is taken
#	2	release and renewal work while the memory is full
#	3	a key of another type, or with members of others, is another program's hold
#	4	a waiter keeps its place through lost connections, restarts and clocks set back
#	5	numbers beyond 2^31; Redis 5 and 6 wrap the errors of a script
#	5b	a late waiter's time counts from the first call, and not while there is no room
#	6	other programs wake nobody, so the first waiter looks; its rhythm is random
#	7	who leaves as the first wakes the next, also when it was just called
#	8	each shared hold or slot that is taken lets the next one in
#	9	a waiter subscribes before the try that puts it in the queue, at the same server
#	10	slots that differ are named; -n is not refused because of the dead
#	11	names in braces, and names that are patterns
#	12	Redisson's sharded messages in a cluster
#	13	AUTH, SELECT, ROLE travel with the first request, and their refusal is the answer
#	14	a late release does not end the next hold; one resend, never after a timeout
#	15	READONLY: the name in the URI is looked up again
#	16	WAIT never for ever, never over a new connection, and the hold is given back
#	17	TLS: who speaks it and who does not, late refusals, no passphrase asked for, no SNI
#		with an address
#	18	an old master's word does not count, sentinels may be wrong
#	19	MOVED and ASK without a host, in circles; ASKING right before the command
#	20	answers of an ended round are dropped
#	21	a release follows each request that may be carried out late
#	22	a round ends with its majority
#	23	nodes that may have forgotten do not vote, and two names of one server are one
#	24	who does not wait is not refused because others try at the same moment
#	25	a majority has the fence before the command starts, and learns the greatest
#	26	the lease is what is left of the TTL; a renewal takes nothing from others

# shellcheck source=tests/redis/server.bash
source "${BASH_SOURCE[0]%/*}/server.bash"

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
