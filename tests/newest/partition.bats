# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Oracle's MySQL with Group Replication, each member on a host of its own, with clients there. The
# primary's host is cut off.

load ../lib/helpers
load ../lib/network
load ../mysql/lease
load ../mysql/holders
load members

setup_file() {
	need mysqld
}

teardown_file() {
	:
}

@test "the primary is cut off with the holders: they are dead before the majority lets others in" {
	local n uri
	network_hosts 3
	GROUP_DIR=$T/group
	group_start "$GROUP_DIR"
	for n in 1 2 3; do
		SERVICES+=("$(<"$GROUP_DIR/$n/pid")")
	done
	uri=$(members_uri "$GROUP_DIR" 3)
	mysql_at "$GROUP_DIR/1" "CREATE USER $MYSQL_USER@'10.77.0.%' IDENTIFIED BY '$MYSQL_PASSWORD';
		GRANT ALL ON $MYSQL_DATABASE.* TO $MYSQL_USER@'10.77.0.%';
		GRANT SELECT ON performance_schema.replication_group_members TO $MYSQL_USER@'10.77.0.%'"
	wait_until 20 primary
	n=${PRIMARY##*/}
	hold_all "$PRIMARY" 12s "$uri" "$T/dlock.$n" "$T/dlock.$((n % 3 + 1))"
	unplug "$n"
	lost_all 20 '.*'
	got_all
	# It has missed all that, and takes part in nothing until its network is back.
	start "$T/dlock.$n" run -w 2s -b "$uri" "$LOCK-lease" -- touch ran
	join "$PID" 20
	matches "$status" '^12[24]$'
	[[ ! -e ran ]]
	plug "$n"
	wait_until 90 whole
	run -0 "$T/dlock.$n" run -w 30s -b "$uri" "$LOCK-lease" -- true
}
