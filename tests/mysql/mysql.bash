# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the MySQL suites share: a server for each file of tests. Their assertions ask the server,
# and do not rely on what dlock prints.

# shellcheck source=tests/lib/services/mysql.bash
source "$TOP/tests/lib/services/mysql.bash"

setup_file() {
	export MYSQL_DIR=$BATS_FILE_TMPDIR/mysql
	mysql_start "$MYSQL_DIR"
	MYSQL=$(mysql_uri "$MYSQL_DIR")
	export MYSQL
}

teardown_file() {
	if [[ -f $MYSQL_DIR/pid ]]; then
		server_stop "$MYSQL_DIR"
	fi
}

prepare() {
	export DLOCK_BACKEND=$MYSQL
}

# my SQL: runs SQL at the server of the file, as root
my() {
	mysql_at "$MYSQL_DIR" "$@"
}

# via_proxy [PORT]: starts a proxy before the server at PORT, by default that of the file; sets
# PROXY to its URI
via_proxy() {
	start_proxy "${1-$(<"$MYSQL_DIR/port")}"
	PROXY=mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$TOOL_PORT/$MYSQL_DATABASE
}

# balance PORT: starts a balancer, which connects its clients to the server at PORT, or the one at the
# port that `balance_to` says later; connections that are there stay. Sets BALANCED to its URI.
balance() {
	free_port
	balance_to "$1"
	setpriv --pdeathsig KILL socat "TCP-LISTEN:$PORT,bind=127.0.0.1,fork" \
		"SYSTEM:exec socat - TCP\\:127.0.0.1\\:\$(cat '$T/balance')" \
		</dev/null >"$T/balance.log" 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	disown $!
	wait_until 5 listens "$PORT"
	BALANCED=mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$PORT/$MYSQL_DATABASE
}

balance_to() {
	echo "$1" >"$T/balance"
}

listens() {
	(: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# private_mysql [OPTION]...: a server that this test may stop, freeze or break. Sets
# P_DIR, P_PORT, P_PID and P_URI.
private_mysql() {
	P_DIR=$T/mysql.${#SERVICES[@]}
	mysql_start "$P_DIR" "$@"
	P_PORT=$(<"$P_DIR/port")
	P_PID=$(<"$P_DIR/pid")
	P_URI=$(mysql_uri "$P_DIR")
	SERVICES+=("$P_PID")
}

# restart_mysql: kills this server, and starts it again with its data and at its port
restart_mysql() {
	server_stop "$P_DIR"
	mysql_launch "$P_DIR" "$P_PORT"
	P_PID=$(<"$P_DIR/pid")
	SERVICES+=("$P_PID")
}

# pmy SQL: runs SQL at the server of this test, as root
pmy() {
	mysql_at "$P_DIR" "$@"
}

# entries STRATEGY CONDITION: prints how many entries of $LOCK meet this condition, at the server in
# the directory SERVER, by default that of the file; 0 where the tables are not there
entries() {
	local count
	count=$(mysql_at "${SERVER-$MYSQL_DIR}" "SELECT COUNT(*) FROM dlock_entries q
		WHERE strategy = '$1' AND name = '$LOCK' AND $2" 2>&1) || count=0
	echo "$count"
}

# An entry that waits, whose time is not over, and whose connection is there.
WAITS="fence = 0 AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND
	EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p WHERE p.ID = q.conn)"

# mysql_contents TEXT: prints all rows of dlock's tables whose name contains TEXT
mysql_contents() {
	local table
	my "SHOW TABLES LIKE 'dlock%'" | while read -r table; do
		my "SELECT '$table', t.* FROM $table t WHERE INSTR(t.name, '$1')"
	done | sort
}
