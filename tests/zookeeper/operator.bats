# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: what operators see of it and do to it (status, wait, break, check, setup), the
# rights that dlock needs, and what the keeper of `dlock acquire` does on its bad days.

load ../lib/helpers
load zookeeper

# take [OPTION]...: acquires $LOCK; sets TOKEN, FENCE and KEEPER
take() {
	"$DLOCK" acquire --json "$@" "$LOCK" >taken
	read -r TOKEN FENCE KEEPER < <(jq -r '"\(.token) \(.fence) \(.keeper_pid)"' taken)
	matches "$TOKEN" '^[0-9a-f]{32}$' token
}

# ---- acquire

@test "acquire: the lock is a node, its fence the node's czxid, and a keeper has the session" {
	take -t 20s
	local name
	name=$(places)
	equal "$(stat_of "$NODE/$name" czxid)" "$FENCE" fence
	alive "$KEEPER"
	zk_ask "$ZK_DIR" cons >connections
	grep -F "sid=$(owner_of "$NODE/$name")," connections >session
	matches "$(<session)" 'to=20000,'
	"$DLOCK" verify "$LOCK" "$TOKEN"
	"$DLOCK" renew "$LOCK" "$TOKEN"
	"$DLOCK" release "$LOCK" "$TOKEN"
	wait_until 2 ended "$KEEPER"
	nothing_left
}

# bats test_tags=more
@test "acquire --json: the hold ends with its TTL, not with the session's lease, as status prints" {
	local acquired
	acquired=$("$DLOCK" acquire --json -t 1h "$LOCK")
	run -1 "$DLOCK" status --json "$LOCK"
	between "$(jq .expires_in_ms <<<"$acquired")" 3500000 3600000
	between "$(jq '.holders[0].expires_in_ms' <<<"$output")" 3500000 3600000
	"$DLOCK" release "$LOCK" "$(jq -r .token <<<"$acquired")"
}

@test "a node that is gone: renew, verify and release exit with 123, and create nothing" {
	local verb
	for verb in renew verify release; do
		take -t 20s
		zn rm "$NODE/$(places)"
		run -123 "$DLOCK" "$verb" "$LOCK" "$TOKEN"
		place_count 0
		wait_until 5 ended "$KEEPER"
	done
	nothing_left
}

# bats test_tags=more
@test "somebody else's node is not touched by renew, verify, release with an old token" {
	take
	"$DLOCK" release "$LOCK" "$TOKEN"
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock-
	local verb
	for verb in renew verify release; do
		run -123 "$DLOCK" "$verb" "$LOCK" "$TOKEN"
		zn stat "$FOREIGN"
	done
}

# ---- the keeper on bad days

# bats test_tags=more
@test "server frozen: the process gets TERM before the session ends" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	probe_owner
	take -t 3s --pid "$OWNER"
	kill -STOP "$P_PID"
	now
	local frozen=$NOW
	wait_until 5 has_line "$OWNER_OUT" '^TERM$'
	now
	took "$((NOW - frozen))" 0 3000 "until TERM"
	wait_until 5 ended "$KEEPER"
	kill -KILL "$OWNER"
}

@test "session expired: the process gets TERM at once, and the keeper does not stay" {
	probe_owner
	take -t 30s --pid "$OWNER"
	now
	local start=$NOW
	expire_owner "$NODE/$(places)"
	# The library may pause before it asks the next server; the TTL is 18 s.
	wait_until 8 has_line "$OWNER_OUT" '^TERM$'
	now
	took "$((NOW - start))" 0 6000 "until TERM"
	wait_until 5 ended "$KEEPER"
	run -123 "$DLOCK" verify "$LOCK" "$TOKEN"
	kill -KILL "$OWNER"
	nothing_left
}

# bats test_tags=more
@test "connections cut again and again: the keeper holds on" {
	zk_proxy
	probe_owner
	take -b "$PROXY" -t 8s --pid "$OWNER"
	local name n
	name=$(places)
	for n in 1 2 3 4 5 6; do
		proxy cut
		holds_for 400 alive "$KEEPER"
		equal "$(places)" "$name"
	done
	not has_line "$OWNER_OUT" TERM
	"$DLOCK" release -b "$PROXY" "$LOCK" "$TOKEN"
	wait_until 2 ended "$KEEPER"
	kill -KILL "$OWNER"
	nothing_left
}

# bats test_tags=more
@test "the keeper killed: the process gets TERM, and the lock is free when the session has ended" {
	probe_owner
	take -t 2s --pid "$OWNER"
	kill -KILL "$KEEPER"
	wait_until 5 has_line "$OWNER_OUT" '^TERM$'
	timed "$DLOCK" run -w 10s "$LOCK" -- true
	equal "$status" 0
	kill -KILL "$OWNER"
	nothing_left
}

# ---- status, wait, break

# bats test_tags=more
@test "status lists hundreds of locks, and only those that are held or waited for" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	"$DLOCK" setup
	start bash -c 'for n in {1..150}; do "$TOOLS/znode" "$PORTS" container "/dlock/many-$n"; done; exec sleep 300'
	wait_until 20 zn stat /dlock/many-150
	local n
	for n in {1..30}; do
		start "$TOOLS/znode" "$PORTS" sequence "/dlock/many-$n/_c_11111111-2222-4333-8444-555555555555-lock-"
	done
	wait_until 10 zn stat /dlock/many-30/_c_11111111-2222-4333-8444-555555555555-lock-0000000000
	"$DLOCK" status --json >all || true
	equal "$(jq -r .name all | sort)" "$(printf 'many-%s\n' {1..30} | sort)"
	# Another root has a list of its own.
	run --separate-stderr -0 "$DLOCK" status -b "$P_URI/other"
	equal "$output" ""
	one_line 'no locks are held'
}

@test "status and wait leave nothing, and need no lock's directory" {
	local args
	for args in "status $LOCK" "wait $LOCK" "verify $LOCK 0123456789abcdef0123456789abcdef" "break --yes $LOCK"; do
		# shellcheck disable=SC2086 # words
		run "$DLOCK" $args
		matches "$status" '^(0|123)$' "$args"
		not zn stat "$NODE" 2>/dev/null || fail "$args made $NODE"
	done
	# They do not make the root either.
	run -0 "$DLOCK" status -b "$ZK/nowhere-$LOCK" "$LOCK"
	run -0 "$DLOCK" wait -b "$ZK/nowhere-$LOCK" "$LOCK"
	not zn stat "/nowhere-$LOCK" 2>/dev/null
}

# bats test_tags=more
@test "wait takes no place in the queue, and costs the server little" {
	take -t 60s
	local before
	start "$DLOCK" wait "$LOCK"
	local waiter=$PID
	# By then it looks every two seconds.
	holds_for 6000 alive "$waiter"
	place_count 1
	before=$(zk_counter "$ZK_DIR" zk_packets_received)
	holds_for 4000 alive "$waiter"
	# Three requests for each look, the pings of two sessions, and the questions of this test.
	between $(($(zk_counter "$ZK_DIR" zk_packets_received) - before)) 3 18 requests
	"$DLOCK" release "$LOCK" "$TOKEN"
	join "$waiter" 5
	equal "$status" 0
}

@test "break gives the lock to the first waiter, and the holder's command ends at once" {
	hold -t 30s --
	wait_in_line 1 -- sh -c 'echo first >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo second >>order'
	local second=$PID
	now
	local start=$NOW
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line "$(uname -n)"
	lost 5
	now
	took $((NOW - start)) 0 4000
	join "$first" 5
	join "$second" 5
	equal "$(tr '\n' ' ' <order)" "first second "
	nothing_left
}

# bats test_tags=more
@test "break is noticed at once also with --no-renew, and by a command that has just started" {
	hold -t 30s --no-renew --
	"$DLOCK" break -q --yes "$LOCK"
	lost 5
	hold -t 30s --no-renew --
	sleep 0.5
	"$DLOCK" break -q --yes "$LOCK"
	lost 5
	nothing_left
}

# bats test_tags=more
@test "break removes a holder whose shadow was removed" {
	hold -t 40s --
	zn rm "$NODE/$(zn ls "$NODE" | grep -- -dlock-)"
	"$DLOCK" break -q --yes "$LOCK"
	no_places
	lost 5
}

# bats test_tags=more
@test "break takes a lock from all readers, and leaves the waiters alone" {
	hold -s --
	local one=$HOLDER
	hold -s --
	start "$DLOCK" run "$LOCK" -- touch ran
	local writer=$PID
	wait_until 5 place_count 3
	"$DLOCK" break -q --yes "$LOCK"
	join "$writer" 5
	equal "$status" 0
	join "$one" 8
	equal "$status" 123
	join "$HOLDER" 8
	equal "$status" 123
	nothing_left
}

# ---- check

# check CODE URI TOPIC SEVERITY REGEX: `dlock check` ends with CODE and has this finding
check() {
	run --separate-stderr "-$1" timeout 20 "$DLOCK" check -b "$2"
	equal "$stderr" "" stderr
	local rows
	rows=$(awk -v topic="$3" '$2 == topic' <<<"$output")
	matches "$rows" "(^|"$'\n'")$4 +$3 +.*$5"
}

@test "check: one server, a user, and what the server grants" {
	private_zookeeper maxSessionTimeout=20000 minSessionTimeout=4000
	local uri=zk://joe:Sesame8@127.0.0.1:$P_PORT
	check 1 "$P_URI" quorum warning '1 of 1 '
	check 1 "$uri" session warning 'up to 20 s is granted'
	check 1 "$uri" version ok "127\.0\.0\.1:$P_PORT: 3\."
	check 1 "$uri" probe ok ms
	check 1 "$uri" transport ok 'does not leave this host'
	[[ $output != *Sesame* ]]
	run -1 "$DLOCK" check --json -b "$uri"
	jq -e '.verdict == "warning" and ([.findings[] | .topic] | index("quorum"))' <<<"$output"
	# A server that is slow, but serves.
	start_proxy "$P_PORT"
	proxy hold 500
	check 1 "zk://127.0.0.1:$TOOL_PORT" probe ok ms
	# The lock that check takes leaves nothing behind, but for a container that the server removes.
	PORTS=$P_PORT NODE=/dlock/dlock-check no_places || fail "left: $(PORTS=$P_PORT zn tree /dlock)"
}

@test "check: an ensemble, whole and with one server down" {
	private_ensemble
	local uri=${DLOCK_BACKEND/zookeeper:\/\//zk://joe:Sesame8@}
	check 0 "$uri" quorum ok '3 of 3'
	check 0 "$uri" version ok 3
	check 1 "${uri%%,*}" quorum warning '1 of 1 '
	zk_leader "$P_DIR"
	kill_members "${FOLLOWERS[0]}"
	check 1 "$uri" server warning "$(<"$P_DIR/${FOLLOWERS[0]}/port").*refused"
	kill_members "$LEADER"
	wait_until 10 not zk_serves "$P_DIR/${FOLLOWERS[1]}"
	check 122 "$uri?connect-timeout=1s" unusable error '127\.0\.0\.1'
}

# bats test_tags=more
@test "check: unreachable or refused, also in JSON" {
	private_zookeeper enforce.auth.enabled=true enforce.auth.schemes=digest
	"$DLOCK" setup -b "zk://joe:Sesame8@127.0.0.1:$P_PORT/joes"
	local uri
	for uri in zk://127.0.0.1:1 "$P_URI" "zk://eve:Sesame8@127.0.0.1:$P_PORT/joes"; do
		check 122 "$uri" unusable error '127\.0\.0\.1'
		run -122 "$DLOCK" check --json -b "$uri"
		equal "$(jq -r .verdict <<<"$output")" error
		[[ $output != *Sesame* ]]
	done
}

# ---- setup, and the rights that are needed

@test "setup makes the root and all above it, for its user alone; a second setup succeeds" {
	local uri=zk://joe:Sesame8@127.0.0.1:$ZK_PORT/setup-$LOCK/of/locks
	run --separate-stderr -0 "$DLOCK" setup -b "$uri"
	equal "$stderr" ""
	zn_as joe:Sesame8 stat "/setup-$LOCK/of/locks"
	matches "$(zn_as joe:Sesame8 acl "/setup-$LOCK/of/locks")" '^rwcda digest:joe:'
	run --separate-stderr -0 "$DLOCK" setup -b "$uri"
	equal "$stderr" ""
}

@test "the rights in dlock-zookeeper.7 suffice: create and read on the root, nothing above it" {
	local root=/rights-$LOCK/locks who token
	export DLOCK_BACKEND=zk://joe:Sesame8@127.0.0.1:$ZK_PORT$root NODE=$root/$LOCK
	"$DLOCK" setup
	who=$(zn_as joe:Sesame8 acl "$root" | sed 's/^[a-z]* //')
	zn_as joe:Sesame8 protect "$root" rc "$who"
	zn_as joe:Sesame8 protect "${root%/*}" a digest:eve:0123456789abcdefghijklmnopq=
	hold -t 2s --
	start "$DLOCK" run -w 10s "$LOCK" -- true
	local waiter=$PID
	start "$DLOCK" run -w 1s "$LOCK" -- true
	join "$PID"
	equal "$status" 124
	holds_for 1500 alive "$COMMAND"
	release
	join "$waiter"
	equal "$status" 0
	for mode in --shared --slots=2 -n; do
		token=$("$DLOCK" acquire -w 5s "$mode" "$LOCK")
		"$DLOCK" renew "$LOCK" "$token"
		DLOCK_NAME=$LOCK DLOCK_TOKEN=$token "$DLOCK" acquire -n "$mode" "$LOCK"
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" release "$LOCK" "$token+1"
		run -1 "$DLOCK" status "$LOCK"
		run -0 "$DLOCK" status
		matches "$output" "$LOCK "
		start "$DLOCK" wait "$LOCK"
		"$DLOCK" release "$LOCK" "$token"
		join "$PID"
		equal "$status" 0
	done
	token=$("$DLOCK" acquire "$LOCK")
	"$DLOCK" break -q --yes "$LOCK"
	run "$DLOCK" check
	between "$status" 0 1
	"$DLOCK" run "$LOCK" -- "$DLOCK" run "$LOCK" -- true
	"$DLOCK" run --min-hold 50ms "$LOCK" -- true
}

@test "the password of the user in the URI may come from a file" {
	echo Sesame8 >secret
	chmod 600 secret
	"$DLOCK" run -b "zk://joe:Sesame8@127.0.0.1:$ZK_PORT/file-$LOCK" "$LOCK" -- true
	run -0 "$DLOCK" run -b "zk://joe@127.0.0.1:$ZK_PORT/file-$LOCK?password-file=$T/secret" "$LOCK" -- true
	echo wrong >secret
	run -122 "$DLOCK" run -b "zk://joe@127.0.0.1:$ZK_PORT/file-$LOCK?password-file=$T/secret" "$LOCK" -- true
}

@test "the password changes, in its file and the permissions: a holder logs in with the new one" {
	local node hash how
	hash=$(printf joe:new | openssl sha1 -binary | base64)
	zk_proxy
	for how in cut pass; do
		(umask 077 && echo old >secret)
		hold -t 6s -b "${PROXY/127/joe@127}/$how-$LOCK?password-file=$T/secret" --
		echo new >secret
		for node in $(zn_as joe:old tree "/$how-$LOCK") "/$how-$LOCK"; do
			zn_as joe:old protect "$node" rwcda "digest:joe:$hash"
		done
		# With the next connection, or when the server has refused the old one.
		proxy "$how"
		holds_for 6500 alive "$COMMAND"
		release
		not has_line "$ERR" 'not released|lapses'
		run -0 zn_as joe:new tree "/$how-$LOCK"
		not matches "$output" '-lock-'
	done
}
