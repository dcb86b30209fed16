# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Members of Oracle's MySQL that replicate: a group of three with one primary (Group Replication), or
# a source with a replica that acknowledges commits (semi-synchronous). Needs mysql.bash. The
# functions for a server work with each member, in DIR/1, DIR/2 and DIR/3.

GROUP_NAME=7a1f3a52-5c0e-4f5e-9d0b-3b8f0a6c2f11
# Three servers of 64 MB: no member needs the statistics of its statements.
MEMBER_OPTIONS=(--gtid-mode=ON --enforce-gtid-consistency=ON --performance-schema=OFF
	--replica-parallel-workers=1)

# members_copy DIR N: makes the data of N servers, each with an identity and two free ports of its own
members_copy() {
	local dir=$1 count=$2 member
	mysql_template
	free_port $((2 * count))
	for ((member = 1; member <= count; member++)); do
		mkdir -p "$dir/$member"
		cp -a "$MYSQL_TEMPLATE" "$dir/$member/data"
		rm -f "$dir/$member/data/auto.cnf" "$dir/$member"/data/binlog.*
		echo $((PORT + 2 * (member - 1))) >"$dir/$member/port"
	done
}

# member_launch DIR MEMBER [OPTION]...: starts a member on its port
member_launch() {
	local dir=$1/$2 member=$2
	shift 2
	MYSQL_HOST=${HOST[$member]:+$member} mysql_launch "$dir" "$(<"$dir/port")" --server-id="$member" \
		--bind-address="$(member_address "$member")" --report-host="$(member_address "$member")" \
		--report-port="$(<"$dir/port")" --log-bin="$dir/data/binlog" --relay-log="$dir/data/relay" \
		"${MEMBER_OPTIONS[@]}" "$@" || {
		cat "$dir/log" >&2
		return 1
	}
}

# group_start DIR: starts a group of three, whose first member is the primary
group_start() {
	local dir=$1 member
	members_copy "$dir" 3
	for member in 1 2 3; do
		group_launch "$dir" "$member"
		mysql_at "$dir/$member" "CREATE USER member@'%';
			GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM
				ON *.* TO member@'%';
			RESET BINARY LOGS AND GTIDS"
		((member > 1)) || mysql_at "$dir/1" "SET GLOBAL group_replication_bootstrap_group = ON"
		group_join "$dir" "$member"
	done
	mysql_at "$dir/1" "SET GLOBAL group_replication_bootstrap_group = OFF"
}

# group_launch DIR MEMBER [OPTION]...: starts a member, which does not join before group_join
group_launch() {
	local dir=$1 member=$2 other address seeds=
	address=$(member_address "$member")
	for other in 1 2 3; do
		seeds+=${seeds:+,}$(member_address "$other"):$(($(<"$dir/$other/port") + 1))
	done
	member_launch "$dir" "$member" --plugin-load-add=group_replication.so \
		--loose-group-replication-group-name="$GROUP_NAME" \
		--loose-group-replication-start-on-boot=OFF \
		--loose-group-replication-local-address="$address:$(($(<"$dir/$member/port") + 1))" \
		--loose-group-replication-group-seeds="$seeds" \
		--loose-group-replication-communication-stack=XCOM \
		--loose-group-replication-ssl-mode=DISABLED "${@:3}"
}

# group_join DIR MEMBER: joins the group, and returns when the member takes part
group_join() {
	mysql_at "$1/$2" "START GROUP_REPLICATION USER = 'member'"
	wait_until 30 group_online "$1/$2"
}

group_online() {
	[[ $(mysql_at "$1" "SELECT member_state FROM performance_schema.replication_group_members
		WHERE member_id = @@server_uuid") == ONLINE ]]
}

# members_uri DIR COUNT [PARAMETER]: prints the URI of the first COUNT members
members_uri() {
	local member hosts=
	for ((member = 1; member <= $2; member++)); do
		hosts+=${hosts:+,}$(member_address "$member"):$(<"$1/$member/port")
	done
	echo "mysql://$MYSQL_USER:$MYSQL_PASSWORD@$hosts/$MYSQL_DATABASE"
}

# replica_start DIR: starts a source, the first member, and a replica that has to acknowledge each
# commit within 0.3 s, and reads only
replica_start() {
	local dir=$1 member
	members_copy "$dir" 2
	member_launch "$dir" 1 --plugin-load-add=semisync_source.so \
		--loose-rpl-semi-sync-source-enabled=ON --loose-rpl-semi-sync-source-timeout=300
	member_launch "$dir" 2 --plugin-load-add=semisync_replica.so \
		--loose-rpl-semi-sync-replica-enabled=ON --super-read-only=ON --skip-replica-start
	for member in 1 2; do
		mysql_at "$dir/$member" "SET GLOBAL super_read_only = OFF; CREATE USER member@'127.0.0.1';
			GRANT REPLICATION SLAVE ON *.* TO member@'127.0.0.1'; RESET BINARY LOGS AND GTIDS"
	done
	mysql_at "$dir/2" "SET GLOBAL super_read_only = ON;
		CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = $(<"$dir/1/port"),
			SOURCE_USER = 'member', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1;
		START REPLICA"
	wait_until 10 acknowledges "$dir/1"
}

# acknowledges DIR: a replica acknowledges the commits of this source
acknowledges() {
	[[ $(mysql_at "$1" "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_clients'") == *1 ]]
}
