# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
# What the suites of etcd share.

# shellcheck source=tests/lib/services/etcd.bash
source "$TOP/tests/lib/services/etcd.bash"

# keys: prints the keys of $LOCK, in the order of the queue
keys() {
	ec get --prefix "$LOCK/" --keys-only --sort-by CREATE --order ASCEND | sed '/^$/d'
}

queued() {
	[[ $(keys | wc -l) == "$1" ]]
}

# etcdctl_holds [SECONDS]: starts `etcdctl lock`, whose command sleeps, and returns when it runs. Sets
# PID and OUT.
etcdctl_holds() {
	start env ETCDCTL_API=3 "$ETCDCTL" --endpoints "127.0.0.1:$(<"$ETCD_DIR/port")" lock --ttl 5 \
		"$LOCK" -- sh -c 'echo holds; exec sleep "$0"' "${1-300}"
	wait_until 10 has_line "$OUT" '^holds'
}

# etcdctl_ends PID: ends its command. etcdctl itself does not heed TERM before that.
etcdctl_ends() {
	local command
	command=$(pgrep -P "$1")
	kill -TERM "$command"
	wait_until 10 ended "$1"
}

# etcdctl_waits N FILE: starts one that writes its turn to FILE, and returns when there are N keys
etcdctl_waits() {
	start env ETCDCTL_API=3 "$ETCDCTL" --endpoints "127.0.0.1:$(<"$ETCD_DIR/port")" lock --ttl 5 \
		"$LOCK" -- sh -c 'echo etcdctl >>"$0"; sleep 0.1' "$2"
	wait_until 10 queued "$1"
}
