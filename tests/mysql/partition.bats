# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# MySQL's strategies on a Galera cluster of three nodes, each on a host of its own, with clients there.

load ../lib/helpers
load ../lib/network
load mysql
load holders

setup_file() {
	need mariadbd rsync
}

teardown_file() {
	:
}

# bats test_tags=more
@test "a node is cut off with the holders: they are dead before the majority lets others in" {
	local n uris=()
	network_hosts 3
	galera_start "$T/galera"
	for n in 1 2 3; do
		SERVICES+=("$(<"$T/galera/$n/pid")")
		uris[n]=mysql://$MYSQL_USER:$MYSQL_PASSWORD@10.77.0.$n:$(<"$T/galera/$n/port")/$MYSQL_DATABASE
	done
	mysql_at "$T/galera/1" "CREATE USER $MYSQL_USER@'10.77.0.%' IDENTIFIED BY '$MYSQL_PASSWORD';
		GRANT ALL ON $MYSQL_DATABASE.* TO $MYSQL_USER@'10.77.0.%'"
	hold_all "$T/galera/3" 12s "${uris[3]}" "$T/dlock.3" "$T/dlock.1" "${uris[1]}"
	unplug 3
	lost_all 20 '.*'
	got_all
	run "$T/dlock.3" run -w 2s -b "${uris[3]}" "$LOCK-lease" -- touch ran
	matches "$status" '^12[24]$'
	[[ ! -e ran ]]
	plug 3
	wait_until 60 galera_synced "$T/galera/3"
	run -0 "$T/dlock.3" run -w 30s -b "${uris[3]}" "$LOCK-lease" -- true
}
