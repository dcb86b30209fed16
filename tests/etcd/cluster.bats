# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# etcd, three members: a lock is kept, and waited for, while leaders and others fail and come back.

load ../lib/helpers
load etcd

# All tests share a cluster.
setup_file() {
	export CLUSTER=$BATS_FILE_TMPDIR/cluster
	etcd_cluster_start "$CLUSTER"
	begin_starter "$CLUSTER" etcd etcd_resume
}

teardown_file() {
	end_starter "$CLUSTER"
	etcd_cluster_stop "$CLUSTER"
}

prepare() {
	come_back
	ETCD_DIR=$CLUSTER/1
	DLOCK_BACKEND=etcd://$(<"$CLUSTER/hosts")
	export DLOCK_BACKEND
}

# come_back: all members serve
come_back() {
	local member
	for member in 1 2 3; do
		if server_runs "$CLUSTER/$member"; then
			kill -CONT "$(<"$CLUSTER/$member/pid")"
		else
			echo none >"$CLUSTER/$member/pid"
			echo "$member" >"$CLUSTER/start"
			wait_until 5 has_line "$CLUSTER/$member/pid" '^[0-9]+$'
		fi
	done
	wait_until 30 etcd_cluster_serves "$CLUSTER"
	wait_until 10 etcd_leader "$CLUSTER"
}

# fails HOW MEMBER: HOW is a signal, KILL or STOP
fails() {
	kill "-$1" "$(<"$CLUSTER/$2/pid")"
}

# survives HOW: the leader fails while one holds and another one waits. The holder goes on for longer
# than its lease, and the waiter gets the lock when it is released, but not before.
survives() {
	local waiter
	wait_until 10 etcd_leader "$CLUSTER"
	hold -t 6s --
	start "$DLOCK" run -t 6s "$LOCK" -- touch ran
	waiter=$PID
	wait_until 5 queued 2
	fails "$1" "$LEADER"
	holds_for 8000 alive "$COMMAND"
	[[ ! -e ran ]]
	release
	join "$waiter" 15
	equal "$status" 0
	[[ -e ran ]]
	rm ran
}

@test "the leader is killed: a holder and a waiter go on" {
	survives KILL
}

@test "the leader is stopped: a holder and a waiter go on" {
	survives STOP
}

# LEADER_FAULTS=20 TEST_SECONDS=900 repeats it more often.
# bats test_tags=more
@test "the leader is killed, stopped, and comes back: no two hold at once" {
	local round how
	for ((round = 0; round < ${LEADER_FAULTS:-6}; round += 2)); do
		for how in KILL STOP; do
			survives "$how"
			come_back
		done
	done
}

# bats test_tags=more
@test "while members fail and come back, each buyer has its turn, and no two at once" {
	local buyer buyers=() how
	for buyer in 1 2 3 4; do
		start sh -c 'for turn in 1 2 3 4 5 6 7 8 9 10; do
			"$DLOCK" run -q -t 5s --if-down wait -w 60s "$0" -- \
				sh -c "mkdir inside && sleep 0.2 && rmdir inside && echo turn >>log" || exit
		done' "$LOCK"
		buyers+=("$PID")
	done
	for how in KILL STOP KILL STOP; do
		pause 1
		wait_until 10 etcd_leader "$CLUSTER"
		fails "$how" "$LEADER"
		pause 1
		come_back
	done
	for buyer in "${buyers[@]}"; do
		join "$buyer" 100
		equal "$status" 0
	done
	equal "$(wc -l <log)" 40
}

@test "without a majority: nobody gets the lock (122, not 124), and the command is dead before its lease ends" {
	hold -t 4s --
	wait_until 10 etcd_leader "$CLUSTER"
	fails STOP "${FOLLOWERS[0]}"
	fails STOP "${FOLLOWERS[1]}"
	run --separate-stderr timeout 30 "$DLOCK" run -n -E 99 "$LOCK" -- touch ran
	equal "$status" 122
	[[ ! -e ran ]]
	lost 15
}

@test "members in the URI that are down, or unknown, cost a share of the time" {
	local down up
	# While a leader is elected nobody could answer.
	wait_until 10 etcd_leader "$CLUSTER"
	down=$(<"$CLUSTER/${FOLLOWERS[0]}/port") up=$(<"$CLUSTER/$LEADER/port")
	fails STOP "${FOLLOWERS[0]}"
	timed "$DLOCK" run -b "etcd://no-such-host.invalid,127.0.0.1:1,127.0.0.1:$down,127.0.0.1:$up" "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 7000
}

@test "check names the members, the leader and the versions" {
	run -1 "$DLOCK" check
	equal "$(grep -c '^ok *member' <<<"$output")" 3
	equal "$(grep -c 'is the leader' <<<"$output")" 1
	matches "$output" $'\nok *quorum .*3 of 3 members'
	fails STOP 2
	run -1 "$DLOCK" check -b "$DLOCK_BACKEND?timeout=1s&connect-timeout=1s"
	matches "$output" 'warning *member .*no answer'
	equal "$(grep -c '^warning *version' <<<"$output")" 1 "the same warning"
}
