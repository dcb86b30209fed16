# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2094 # the log is named for the server and appended to
#
# Real servers for the tests: MariaDB, or Oracle's MySQL where that is what is installed. Each
# listens on a free port of 127.0.0.1 and on a unix socket, and starts from a copy of data that is
# made once, for all suites of a tests/check: root has no password, and dlock@127.0.0.1 and
# dlock@localhost have all rights in the database dlock (see MYSQL_USER). Clients of the tests use no
# TLS, because reading the system's authorities takes MariaDB's client more time than all else that
# it does.
# Needs wait_until and alive from helpers.bash. MYSQLD may name a wrapper of MariaDB.

export MYSQL_CLIENT=mariadb MYSQL_PLAIN=--skip-ssl
MYSQL_VENDOR_OPTIONS=(--innodb-log-file-size=8M)
if [[ -z ${MYSQLD-} ]] && ! type -P mariadbd >/dev/null && type -P mysqld >/dev/null; then
	MYSQLD=mysqld MYSQL_CLIENT=mysql MYSQL_PLAIN=--ssl-mode=DISABLED
	MYSQL_VENDOR_OPTIONS=(--innodb-redo-log-capacity=8M --mysqlx=OFF --performance-schema=OFF
		--secure-file-priv=)
fi
MYSQLD=${MYSQLD:-mariadbd}
# Whom the nodes of a cluster belong to; empty: to the user who runs the tests.
GALERA_RUNS_AS=
if ((EUID == 0)); then
	GALERA_RUNS_AS=mysql
fi
MYSQL_USER=dlock MYSQL_PASSWORD=s3cret MYSQL_DATABASE=dlock
MYSQL_TEMPLATE=${MYSQL_TEMPLATE:-$BATS_RUN_TMPDIR/mysql.template}

# mysql_install: makes the data of an empty server, with the accounts of $MYSQL_TEMPLATE.sql
mysql_install() {
	if [[ $MYSQL_CLIENT == mysql ]]; then
		mysqld --no-defaults --initialize-insecure --user="$(id -un)" \
			--datadir="$MYSQL_TEMPLATE.new" --init-file="$MYSQL_TEMPLATE.sql" "${MYSQL_VENDOR_OPTIONS[@]}"
	else
		mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$MYSQL_TEMPLATE.new" \
			--auth-root-authentication-method=normal --skip-test-db --force \
			"${MYSQL_VENDOR_OPTIONS[@]}" --extra-file="$MYSQL_TEMPLATE.sql"
	fi
}

# mysql_template: makes the data that servers start from, unless another suite has made it
mysql_template() {
	(
		flock 9
		[[ -d $MYSQL_TEMPLATE ]] || mysql_make_template
	) 9>"$MYSQL_TEMPLATE.lock"
}

mysql_make_template() {
	cat >"$MYSQL_TEMPLATE.sql" <<-END
		FLUSH PRIVILEGES;
		CREATE DATABASE $MYSQL_DATABASE;
		CREATE USER $MYSQL_USER@'127.0.0.1' IDENTIFIED BY '$MYSQL_PASSWORD';
		CREATE USER $MYSQL_USER@localhost IDENTIFIED BY '$MYSQL_PASSWORD';
		GRANT ALL ON $MYSQL_DATABASE.* TO $MYSQL_USER@'127.0.0.1';
		GRANT ALL ON $MYSQL_DATABASE.* TO $MYSQL_USER@localhost;
	END
	# In a directory of its own, because each server removes from TMPDIR at its start what it
	# takes for left-over files. --force: in a container the name of the host may have no address,
	# and no account here depends on it.
	mkdir -p "$MYSQL_TEMPLATE.tmp"
	if ! TMPDIR=$MYSQL_TEMPLATE.tmp mysql_install >"$MYSQL_TEMPLATE.log" 2>&1; then
		cat "$MYSQL_TEMPLATE.log" >&2
		return 1
	fi
	# MariaDB since 11.4 makes a certificate where it has none, with a key that may take it half a
	# minute on a busy machine.
	if ! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj /CN=mysql -keyout "$MYSQL_TEMPLATE.key" -out "$MYSQL_TEMPLATE.crt" 2>"$MYSQL_TEMPLATE.log"; then
		cat "$MYSQL_TEMPLATE.log" >&2
		return 1
	fi
	# Servers that run as another user read it, too.
	cat "$MYSQL_TEMPLATE.key" "$MYSQL_TEMPLATE.crt" >"$MYSQL_TEMPLATE.pem"
	chmod 644 "$MYSQL_TEMPLATE.pem"
	mv "$MYSQL_TEMPLATE.new" "$MYSQL_TEMPLATE"
}

# mysql_start DIR [OPTION]...: starts a server and returns when it takes commands. Its pid is in
# DIR/pid, its port in DIR/port, and its socket at DIR/sock.
mysql_start() {
	local dir=$1 attempt
	shift
	mysql_template
	mkdir -p "$dir"
	cp -a "$MYSQL_TEMPLATE" "$dir/data"
	for attempt in 1 2 3 4 5; do
		free_port
		if mysql_launch "$dir" "$PORT" "$@"; then
			return 0
		fi
		if ! grep -q 'Address already in use' "$dir/log"; then
			break
		fi
	done
	echo "$MYSQLD did not start in $attempt attempts; its log:" >&2
	cat "$dir/log" >&2
	return 1
}

# mysql_launch DIR PORT [OPTION]...: one attempt to start a server, or to restart one on its port; on a
# host (network.bash) if MYSQL_HOST is its number. The server need not wait for its disk, because no
# test cuts the power.
mysql_launch() {
	local dir=$1 port=$2 as=() at=()
	shift 2
	: >"$dir/log"
	if ((EUID == 0)); then
		as=(--user="${MYSQL_RUNS_AS:-root}")
	fi
	[[ -z ${MYSQL_HOST-} ]] || at=(nsenter -t "${HOST[$MYSQL_HOST]}" -n)
	# The server dies with bats, even if bats is killed.
	# shellcheck disable=SC2086 # words
	TMPDIR=$dir $AHEAD "${at[@]}" setpriv ${MYSQL_RUNS_AS:+--reuid="$MYSQL_RUNS_AS" --regid="$MYSQL_RUNS_AS" --init-groups} \
		--pdeathsig KILL "$MYSQLD" --no-defaults "${as[@]}" --datadir="$dir/data" \
		--port="$port" --bind-address=127.0.0.1 --skip-networking=0 \
		--tmpdir="$dir" --socket="$dir/sock" --pid-file="$dir/server.pid" --skip-name-resolve \
		--ssl-cert="$MYSQL_TEMPLATE.pem" --ssl-key="$MYSQL_TEMPLATE.pem" --skip-log-bin --max-connections=1000 \
		"${MYSQL_VENDOR_OPTIONS[@]}" --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=2 "$@" \
		</dev/null >>"$dir/log" 2>&1 3>&- 4>&- &
	echo $! >"$dir/pid"
	disown $!
	echo "$port" >"$dir/port"
	wait_until "${MYSQL_START_SECONDS:-20}" mysql_settled "$dir"
	mysql_ready "$dir"
}

# mysql_ready DIR: whether the server has logged that it listens, on the socket and the port
mysql_ready() {
	grep -q 'ready for connections' "$1/log"
}

mysql_settled() {
	mysql_ready "$1" || ! alive "$(<"$1/pid")"
}

# mysql_stop_three DIR: stops those of the servers in DIR/1, DIR/2 and DIR/3 that were started
mysql_stop_three() {
	local member
	for member in 1 2 3; do
		if [[ -f $1/$member/pid ]]; then
			server_stop "$1/$member"
		fi
	done
}

# mysql_at DIR SQL [ARG]...: runs SQL as root over the unix socket; prints rows without a heading
mysql_at() {
	local dir=$1 sql=$2
	shift 2
	"$MYSQL_CLIENT" --no-defaults "$MYSQL_PLAIN" --socket="$dir/sock" --user=root --batch \
		--skip-column-names --default-character-set=utf8mb4 "$@" --execute="$sql" "$MYSQL_DATABASE"
}

# mysql_uri DIR: prints the URI by which dlock reaches the server over TCP
mysql_uri() {
	echo "mysql://$MYSQL_USER:$MYSQL_PASSWORD@127.0.0.1:$(<"$1/port")/$MYSQL_DATABASE"
}

# member_address N: prints the address of a member of a cluster, on the host N if there is one
# (network.bash)
member_address() {
	if [[ -n ${HOST[$1]-} ]]; then
		echo "10.77.0.$1"
	else
		echo 127.0.0.1
	fi
}

# galera_start DIR: starts a cluster of three. The functions for a server work with each node, in
# DIR/1, DIR/2 and DIR/3. Root's nodes run as the user mysql, because state transfer fails as root;
# those of a normal user run as that user.
galera_start() {
	local dir=$1 node up=$1
	mysql_template
	mkdir -p "$dir"
	# The user mysql must get through bats' directories, which are private.
	while [[ $up == "$BATS_RUN_TMPDIR"* ]]; do
		chmod a+x "$up"
		up=$(dirname "$up")
	done
	for _ in 1 2 3; do
		if galera_launch_all "$dir"; then
			return 0
		fi
		# Another suite may have taken one of the ports since.
		if ! grep -q 'Address already in use' "$dir"/*/log; then
			break
		fi
		for node in "$dir"/*/; do
			[[ ! -f $node/pid ]] || server_stop "$node"
		done
		rm -r "${dir:?}"/[123]
	done
	return 1
}

# galera_launch_all DIR: one attempt to start all three
galera_launch_all() {
	local dir=$1 node base
	free_port 12
	base=$PORT
	for node in 1 2 3; do
		mkdir "$dir/$node"
		cp -a "$MYSQL_TEMPLATE" "$dir/$node/data"
		if [[ -n $GALERA_RUNS_AS ]]; then
			chown -R "$GALERA_RUNS_AS:" "$dir/$node"
		fi
		echo $((base + 4 * (node - 1))) >"$dir/$node/port"
	done
	galera_launch "$dir" 1 && galera_launch "$dir" 2 1 && galera_launch "$dir" 3 1
}

# galera_launch DIR NODE [MEMBER]...: starts a node, which joins the members that are named, or is
# the first of a new cluster. A node has four ports: for clients, for the group, for increments of
# state, and for whole state.
galera_launch() {
	local dir=$1/$2 node=$2 members='' port member group address
	for member in "${@:3}"; do
		group=$(($(<"$1/$member/port") + 1))
		members+=${members:+,}$(member_address "$member"):$group
	done
	port=$(<"$dir/port")
	address=$(member_address "$node")
	if ! TMPDIR=$dir MYSQL_RUNS_AS=$GALERA_RUNS_AS MYSQL_START_SECONDS=60 \
		MYSQL_HOST=${HOST[$node]:+$node} mysql_launch "$dir" "$port" --bind-address="$address" \
		--innodb-autoinc-lock-mode=2 --binlog-format=ROW --wsrep-on=ON \
		--wsrep-provider=/usr/lib/galera/libgalera_smm.so \
		--wsrep-cluster-name=dlock --wsrep-node-name="n$node" \
		--wsrep-node-address="$address" --wsrep-sst-method=rsync \
		--wsrep-sst-receive-address="$address:$((port + 3))" \
		--wsrep-provider-options="base_port=$((port + 1));gmcast.listen_addr=tcp://$address:$((port + 1));ist.recv_addr=$address:$((port + 2));gcache.size=16M" \
		--wsrep-cluster-address="gcomm://$members"; then
		cat "$dir/log" >&2
		return 1
	fi
	wait_until 30 galera_synced "$dir"
}

galera_synced() {
	[[ $(mysql_at "$1" "SHOW STATUS LIKE 'wsrep_local_state_comment'") == *Synced ]]
}
