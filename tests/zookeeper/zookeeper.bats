# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ZooKeeper: what is stored, how little is sent, sessions, credentials, and what is made
# of other clients' nodes.

load ../lib/helpers
load zookeeper

UUID='[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'

@test "a host by its address, by a name that needs no look-up, and by one that does" {
	local host
	for host in 127.0.0.1 localhost 127.1; do
		run --separate-stderr "$DLOCK" run -b "zk://$host:$ZK_PORT" "$LOCK" -- \
			sh -c 'echo "$DLOCK_BACKEND"'
		equal "$status" 0 "$host: $stderr"
		equal "$output" "zk://$host:$ZK_PORT"
	done
}

# ---- layout

@test "the lock is an ephemeral sequential node in Curator's layout; the fence is its czxid" {
	hold --
	local name
	name=$(places)
	matches "$name" "^_c_$UUID-lock-[0-9]{10}\$" "name of the node"
	equal "$(stat_of "$NODE/$name" czxid)" "$FENCE" fence
	# Curator's read/write locks look at the shadow of that node, and not at the node.
	matches "$(zn ls "$NODE" | grep -vxF "$name")" "^_c_$UUID-dlock-__WRIT__[0-9]{10}\$" "its shadow"
	equal "$(stat_of "$NODE/$(zn ls "$NODE" | grep -vxF "$name")" czxid)" "$FENCE" "transaction of the shadow"
	[[ $(owner_of "$NODE/$name") != 0x0 ]] || fail "not ephemeral"
	equal "$(zn acl "$NODE/$name")" "rwcda world:anyone" ACL
	release
	nothing_left
}

# bats test_tags=more
@test "the token cannot be read on the server" {
	hold --
	local name
	for name in $(zn ls "$NODE"); do
		[[ ${name//-/} != *$TOKEN* ]] || fail "the token is in the name $name"
		[[ $(zn get "$NODE/$name") != *$TOKEN* ]] || fail "the token is in the data of $name"
	done
	release
}

@test "the node's data says who holds it, and who waits" {
	hold --
	wait_in_line 1 -- true
	local name
	for name in $(places); do
		matches "$(zn get "$NODE/$name")" "(^|&)pid=[0-9]+&since=[0-9]+&host=$(uname -n)&user=$(id -un)&cmd=[^&]+"
	done
	release
	join "$PID"
}

@test "shared holds are in Curator's read/write layout" {
	hold -s --
	local reader=$HOLDER reading=$COMMAND
	matches "$(places)" "^_c_$UUID-__READ__[0-9]{10}\$" "a shared hold"
	equal "$(stat_of "$NODE/$(places)" czxid)" "$FENCE" fence
	hold -s --
	place_count 2
	start "$DLOCK" run "$LOCK" -- touch written
	local writer=$PID
	wait_until 5 place_count 3
	kill -TERM "$reading"
	join "$reader"
	holds_for 300 test ! -e written
	release
	join "$writer"
	[[ -e written ]]
	nothing_left
}

@test "fences grow over a restart of the server, and are never given twice" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local last=0 fence
	for _ in 1 2 3; do
		fence=$("$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE)
		((fence > last)) || fail "$fence after $last"
		last=$fence
	done
	server_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	fence=$("$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE)
	((fence > last)) || fail "$fence after $last, over a restart"
}

# bats test_tags=more
@test "containers where the server knows them: thousands of names leave no directories" {
	local n
	zn create "/$LOCK"
	bash -ec 'for n in {1..40}; do "$DLOCK" run -b "$DLOCK_BACKEND/$LOCK" "name-$n" -- true; done'
	wait_until 15 eval '[[ -z $(zn ls "/$LOCK") ]]'
	zn rm "/$LOCK"
}

# bats test_tags=more
@test "the server removes directories while others take the lock, which all of them get" {
	# This server looks for empty directories all the time.
	private_zookeeper znode.container.checkIntervalMs=5
	use "$P_URI" "$P_PORT"
	run --separate-stderr -0 bash -c 'for n in {1..60}; do "$DLOCK" run -n "$LOCK" -- true || echo "$n: $?"; done'
	equal "$output$stderr" ""
}

# ---- waiting

@test "a waiter watches the node before its own, and nothing else" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold --
	local n
	for n in 1 2 3 4; do
		wait_in_line "$n" -- true
	done
	# The holder watches its own node, and each waiter one node.
	wait_until 3 watches 5
	equal "$(watchers "$NODE")" "" "watchers of the directory"
	release
	wait_until 10 no_places
}

# watches N: the server keeps N watches
watches() {
	[[ $(zk_counter "$P_DIR" zk_watch_count) == "$1" ]]
}

# received: "SESSION REQUESTS" of every connection to the server, as it counts them
received() {
	zk_ask "$ZK_DIR" cons |
		sed -nE 's/.*recved=([0-9]+),.*sid=(0x[0-9a-f]+),.*/\2 \1/p' | sort
}

# bats test_tags=deeper
@test "one release wakes one waiter, whatever their number; the others send nothing" {
	local n place=() waiter start rounds most
	most=$(long_or 20 8)
	hold --
	wait_in_line 1 -- sh -c 'touch second; exec sleep 300'
	waiter=$PID
	for ((n = 2; n <= most; n++)); do
		wait_in_line "$n" -- true
	done
	mapfile -t place < <(places)
	now
	start=$NOW
	received >before
	release
	wait_until 5 test -e second
	received >after
	now
	rounds=$((1 + (NOW - start) / 5000))
	# Waiters that were not next may have sent a ping, or a request that is due each 5 s, or both.
	for ((n = 2; n <= most; n++)); do
		between "$(requests_of "${place[n]}")" 0 $((2 * rounds)) "requests of waiter $n"
	done
	between "$(requests_of "${place[1]}")" 1 5 "requests of the one that was next"
	kill -TERM "$waiter"
	wait_until 20 no_places
}

# requests_of PLACE: prints how many requests came between ./before and ./after
requests_of() {
	local owner
	owner=$(owner_of "$NODE/$1")
	awk -v owner="$owner" '
		$1 == owner { if (NR == FNR) before = $2; else after = $2 }
		END { print after - before }' before after
}

# bats test_tags=more
@test "the requests of one handoff do not grow with the waiters" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local n all=() before
	hold --
	for n in {1..40}; do
		start "$DLOCK" run "$LOCK" -- true
		all+=("$PID")
	done
	wait_until 20 waiters 40
	before=$(zk_counter "$P_DIR" zk_packets_received)
	release
	for n in "${all[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	# A write, a list, a delete, and the end of the session. A holder may set a watch, and each waiter
	# may ping; this test has asked once.
	between $(($(zk_counter "$P_DIR" zk_packets_received) - before)) 40 $((41 * 5 + 41 + 1)) requests
}

# bats test_tags=more
@test "a waiter costs one small request in 5 s at most" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local n
	foreign_sequence "_c_11111111-2222-4333-8444-555555555555-lock-"
	for n in {1..10}; do
		start "$DLOCK" run "$LOCK" -- true
	done
	wait_until 10 waiters 10
	# What each of them asks before it sleeps is not counted.
	pause "$SLOW"
	local start
	start=$(zk_counter "$P_DIR" zk_packets_received)
	# The client with the foreign node pings, too, and this test asks once.
	holds_for 10500 alive "$PID"
	between $(($(zk_counter "$P_DIR" zk_packets_received) - start)) 0 $((10 * 3 + 8)) requests
	end_foreign
	wait_until 20 no_places
}

@test "a waiter that gives up or is killed leaves its place within a second" {
	hold --
	local sig
	for sig in TERM INT HUP QUIT; do
		wait_in_line 1 -- true
		kill "-$sig" "$PID"
		wait_until 1 waiters 0
	done
	wait_in_line 1 -w 2s -- true
	wait_until 4 waiters 0
	wait_in_line 1 -- true
	kill -KILL "$PID"
	wait_until 1 waiters 0
	# A keeper that is killed leaves its node until its session ends.
	wait_in_line 1 -t 2s -- true
	keeper_of "$PID"
	kill -KILL "$KEEPER"
	release
	wait_until 10 no_places
}

@test "dead waiters lose their places with their sessions" {
	hold --
	local n dead=()
	for n in 1 2 3; do
		wait_in_line "$n" -t 2s -- touch dead
		# shellcheck disable=SC2207 # words
		dead+=("$PID" $(tree "$PID"))
	done
	wait_in_line 4 -- touch ran
	# All three sessions end after 2 s and a tick.
	passes_dead 4500 "$PID" "${dead[@]}"
	wait_until 2 no_places
}

@test "a waiter that is stopped loses its place with its session, and queues again" {
	hold --
	wait_in_line 1 -t 2s -- sh -c 'echo hung >>order'
	local hung=$PID family
	family=$(tree "$hung")
	wait_in_line 2 -- sh -c 'echo next >>order'
	local next=$PID
	# shellcheck disable=SC2086 # words
	kill -STOP "$hung" $family
	release
	join "$next" 8
	equal "$status" 0
	# shellcheck disable=SC2086 # words
	kill -CONT "$hung" $family
	join "$hung" 10
	equal "$status" 0
	equal "$(tr '\n' ' ' <order)" "next hung "
	wait_until 2 no_places
}

# bats test_tags=more
@test "break takes the place of a dead waiter away when its turn has come" {
	hold --
	wait_in_line 1 -t 60s -- touch dead
	local killed=$PID
	keeper_of "$killed"
	wait_in_line 2 -- touch ran
	kill -KILL "$KEEPER"
	join "$killed"
	equal "$status" 125
	release
	# It is the first in line, and so the holder.
	"$DLOCK" status --json "$LOCK" >json || true
	equal "$(jq '[.holders[].pid, (.waiters | length)] | join(" ")' json)" "\"$killed 1\""
	holds_for 500 alive "$PID"
	"$DLOCK" break --yes "$LOCK"
	join "$PID" 5
	equal "$status" 0
	[[ -e ran && ! -e dead ]]
	wait_until 2 no_places
}

# bats test_tags=more
@test "a waiter whose job is stopped, as by Ctrl-Z, delays the next by a few seconds only" {
	hold --
	wait_in_line 1 -t 30s -- sh -c 'echo stopped >>order'
	local stopped=$PID
	wait_in_line 2 -- sh -c 'echo next >>order'
	local next=$PID
	kill -STOP "$stopped"
	release
	# Its keeper gives the lock back after 3 s.
	join "$next" 6
	equal "$status" 0
	kill -CONT "$stopped"
	join "$stopped" 10
	equal "$status" 0
	equal "$(tr '\n' ' ' <order)" "next stopped "
	wait_until 2 no_places
}

# bats test_tags=more
@test "a slot's waiter watches as many entries as there are slots, and any freed slot wakes the first" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local n first command all=()
	hold --slots 2 --
	first=$HOLDER command=$COMMAND
	hold --slots 2 --
	for n in 1 2 3; do
		start "$DLOCK" run --slots 2 "$LOCK" -- sh -c 'echo "$0" >>order; exec sleep 300' "$n"
		all+=("$PID")
		wait_until 5 place_count $((n + 2))
	done
	# Each holder watches its own node.
	wait_until 3 watches 8
	release
	wait_until 3 has_line order 1
	kill -TERM "$command"
	join "$first"
	wait_until 3 has_line order 2
	equal "$(tr '\n' ' ' <order)" "1 2 "
	kill -TERM "${all[@]}"
	for n in "${all[@]}"; do
		join "$n"
	done
	nothing_left
}

# bats test_tags=more
@test "an entry that was free when it was made holds, whatever its text is" {
	foreign_sequence _c_00000000-0000-4000-8000-000000000001-lock- 'taken=0&'
	run -124 "$DLOCK" run -w 2s "$LOCK" -- touch ran
	[[ ! -e ran ]]
	equal "$(places)" "${FOREIGN##*/}"
	end_foreign
}

# ---- sequence numbers

@test "sequence numbers are compared as 32-bit serial numbers" {
	local name n
	# This is the order in which a server counts: its 32-bit number overflows.
	for n in 2147483646 2147483647 -2147483648 -2147483647; do
		foreign "$(printf '_c_aaaaaaaa-0000-4000-8000-%012d-lock-%010d' "${n#-}" "$n")" "$n"
	done
	"$DLOCK" status --json "$LOCK" >json || true
	equal "$(jq -r '[.holders[], .waiters[]] | map(.host // .command // .user) | join(" ")' json)" \
		"2147483646 2147483647 -2147483648 -2147483647" "order in status"
	equal "$(jq '.holders | length' json)" 1
}

# bats test_tags=more
@test "a lock goes on across the overflow of its sequence numbers" {
	# The server has given dlock a small number: a number a little below 0 came before it.
	foreign "$(printf '_c_aaaaaaaa-0000-4000-8000-000000000001-lock-%010d' -5)"
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 waiters 1
	holds_for 500 test ! -e ran
	end_foreign
	join "$waiter" 5
	equal "$status" 0
	# A number that is 2^31 or more below came after it.
	foreign "$(printf '_c_aaaaaaaa-0000-4000-8000-000000000002-lock-%010d' -2147483648)"
	run -0 "$DLOCK" run -n "$LOCK" -- true
}

# After 2147483647 a server (3.8) gives the same number to all nodes.
# bats test_tags=more
@test "of equal sequence numbers the node that was made first is the first" {
	# The first node of the directory gets the number that the server gives to the second.
	foreign _c_ffffffff-ffff-4fff-8fff-ffffffffffff-lock-0000000001
	start "$DLOCK" run "$LOCK" -- touch ran
	local waiter=$PID
	wait_until 5 waiters 1
	equal "$(places | grep -c -- '-lock-0000000001$')" 2 "nodes with that number"
	holds_for 500 test ! -e ran
	end_foreign
	join "$waiter" 5
	equal "$status" 0
	hold --
	local number
	number=$(places | sed 's/.*-lock-//')
	# By its name it comes before the other, by its time after it.
	foreign "_c_00000000-0000-4000-8000-000000000000-lock-$number"
	holds_for 500 alive "$COMMAND"
	"$DLOCK" status --json "$LOCK" >json || true
	equal "$(jq .fence json)" "$FENCE" "fence of the holder in status"
	release
}

# ---- the session

@test "--ttl is the session timeout that is asked for; the one that the server grants counts" {
	private_zookeeper maxSessionTimeout=3000
	use "$P_URI" "$P_PORT"
	hold -t 2s --
	session_is 2000
	release
	hold -t 30s -v --
	session_is 3000
	has_line "$HOLDER_ERR" 'acquired after .*, session timeout 3s, on zookeeper'
	local frozen
	kill -STOP "$P_PID"
	now
	frozen=$NOW
	# The end is awaited in small steps, because its time counts.
	until ended "$HOLDER" || ((NOW - frozen > 9000)); do
		pause_ms 20
		now
	done
	# The last renewal was at most a third of the session before.
	took $((NOW - frozen)) 300 3000
	lost
}

# sessions: prints how many sessions the server has, without the one that asks
sessions() {
	zk_counter "$P_DIR" zk_global_sessions
}

no_sessions() {
	[[ $(sessions) == "$1" ]]
}

# bats test_tags=more
@test "a TTL beyond what the library can ask for: the session lives, and excludes" {
	private_zookeeper maxSessionTimeout=2147483647
	hold -b "$P_URI" -t 3650d --
	run -124 "$DLOCK" run -b "$P_URI" -t 3650d -w 1s "$LOCK" -- touch ran
	alive "$COMMAND"
	# The server grants what was asked for; the number has not overflowed.
	between "$(zk_ask "$P_DIR" cons | grep -o 'to=[0-9]*' | cut -d= -f2 | sort -n | tail -n 1)" \
		500000000 600000000 'session timeout'
	release
}

# bats test_tags=more
@test "no session outlives its run: short, long, waiting, given up, killed, and with strategy node" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	local before
	"$DLOCK" run -t 40s "$LOCK" -- true
	wait_until 2 no_sessions 0
	"$DLOCK" run -t 40s "$LOCK" -- sleep 0.1
	wait_until 2 no_sessions 0
	"$DLOCK" run -t 40s -b "$P_URI?strategy=node" "$LOCK-node" -- true
	wait_until 2 no_sessions 0
	hold -t 40s --
	before=$(sessions)
	equal "$before" 1 sessions
	wait_in_line 1 -t 40s -- true
	run "$DLOCK" run -t 40s -w 1s "$LOCK" -- true
	equal "$status" 124
	release
	join "$PID"
	equal "$status" 0
	wait_until 2 no_sessions 0
	# The command is killed; its dlock is killed, holding and waiting.
	hold -t 40s --
	kill -KILL "$COMMAND"
	join "$HOLDER"
	wait_until 2 no_sessions 0
	hold -t 40s --
	wait_in_line 1 -t 40s -- true
	kill -KILL "$PID"
	wait_until 2 no_sessions 1
	kill -KILL "$HOLDER"
	wait_until 4 no_sessions 0
}

# session_is MS: the session of the holder has this timeout
session_is() {
	local owner
	owner=$(owner_of "$NODE/$(places | head -n 1)")
	zk_ask "$P_DIR" cons >connections
	grep -F "sid=$owner," connections >session
	equal "$(sed -E 's/.*,to=([0-9]+),.*/\1/' session)" "$1" "session timeout"
}

@test "a hold is proven again every third of the session timeout, through the leader" {
	hold -t 6s --
	local owner
	owner=$(owner_of "$NODE/$(places)")
	zk_proxy
	release
	hold -b "$PROXY" -t 6s --
	: >requests
	holds_for 6200 alive "$COMMAND"
	# A renewal comes after a third of the lease, which is 3/5 of the session. It names the node, its shadow,
	# and the node again; another request comes halfway.
	between "$(tr -d '\0' <requests | grep -ao "$NODE/" | wc -l)" 10 28 "nodes that were asked about"
	release
}

@test "the server's end of the session ends the command at once" {
	hold -t 20s --
	now
	local start=$NOW
	expire_owner "$NODE/$(places)"
	lost 8
	now
	# The library may pause before it asks the next server; the TTL is 12 s.
	took $((NOW - start)) 0 6000
	nothing_left
}

# bats test_tags=more
@test "a node that somebody removed ends the command" {
	hold -t 3s --
	zn rm "$NODE/$(places)"
	lost 5
	nothing_left
}

# bats test_tags=more
@test "waiting: a session that expires enters the queue again, at its end, and -v reports it" {
	hold --
	wait_in_line 1 -v -- sh -c 'echo first >>order'
	local first=$PID err=$ERR old
	old=$(owner_of "$NODE/$(places | tail -n 1)")
	wait_in_line 2 -- sh -c 'echo second >>order'
	local second=$PID
	zn expire "$old"
	wait_until 5 again "$old"
	has_line "$err" 'session'
	alive "$first" "$second"
	release
	join "$first" 5
	equal "$status" 0
	join "$second" 5
	equal "$status" 0
	equal "$(tr '\n' ' ' <order)" "second first "
	wait_until 2 no_places
}

# again SESSION: two clients wait, and neither has this session
again() {
	local name
	waiters 2 || return 1
	for name in $(places); do
		[[ $(owner_of "$NODE/$name") != "$1" ]] || return 1
	done
}

# bats test_tags=more
@test "a short break of the connection keeps session, node and fence" {
	zk_proxy
	testify -b "$PROXY" -t 8s
	local name
	name=$(places)
	for _ in 1 2 3; do
		proxy cut
		lives_on 500
	done
	equal "$(places)" "$name"
	end_witness
	nothing_left
}

# ---- credentials

@test "user and password: only who made a node may touch it" {
	export DLOCK_BACKEND=zookeeper://joe:Sesame8@127.0.0.1:$ZK_PORT/private-$LOCK
	NODE=/private-$LOCK/$LOCK
	hold --
	local name acl
	name=$(zn_as joe:Sesame8 ls "$NODE" | grep -v -- -dlock-)
	acl=$(zn_as joe:Sesame8 acl "$NODE/$name")
	matches "$acl" '^rwcda digest:joe:[A-Za-z0-9+/]{27}=$' ACL
	# Another user can neither read nor remove the node.
	run -1 zn get "$NODE/$name"
	run -1 zn rm "$NODE/$name"
	run -0 "$DLOCK" run "$LOCK-2" -- true
	release
	wait_until 2 eval '[[ -z $(zn_as joe:Sesame8 ls "$NODE" 2>/dev/null) ]]'
}

@test "no permission for a node: status 122, and a message with the user and the permission" {
	local root=/closed-$LOCK uri
	"$DLOCK" run -b "zookeeper://joe:Sesame8@127.0.0.1:$ZK_PORT$root" "$LOCK" -- true
	for uri in "$ZK$root" "zookeeper://joe:wrong@127.0.0.1:$ZK_PORT$root" \
		"zookeeper://eve:Sesame8@127.0.0.1:$ZK_PORT$root"; do
		run --separate-stderr -122 "$DLOCK" run -n -b "$uri" "$LOCK" -- touch ran
		one_line 'NoAuth|not allowed|permission|credentials' "$root"
		[[ $stderr != *wrong* && $stderr != *Sesame8* ]]
	done
	[[ ! -e ran ]]
}

@test "the server refuses the login: status 122, and a message with AuthFailed" {
	private_zookeeper DigestAuthenticationProvider.enabled=false
	run --separate-stderr -122 timeout 20 "$DLOCK" run -b "zookeeper://joe:Sesame8@127.0.0.1:$P_PORT" "$LOCK" -- touch ran
	one_line 'AuthFailed|authentication' "127\.0\.0\.1"
	[[ ! -e ran && $stderr != *Sesame8* ]]
}

# bats test_tags=more
@test "a server that wants everybody to authenticate: 122 without credentials, else fine" {
	private_zookeeper enforce.auth.enabled=true enforce.auth.schemes=digest
	run --separate-stderr -122 timeout 20 "$DLOCK" run -b "$P_URI" "$LOCK" -- touch ran
	one_line "127\.0\.0\.1"
	[[ ! -e ran ]]
	run -0 "$DLOCK" run -b "zookeeper://joe:Sesame8@127.0.0.1:$P_PORT" "$LOCK" -- true
}

@test "a password is in no argument list, message, log or node" {
	local secret=Sesame8word uri
	uri=zookeeper://joe:$secret@127.0.0.1:$ZK_PORT/secret-$LOCK
	start "$DLOCK" run -v -b "$uri" "$LOCK" -- sh -c 'touch in; exec sleep 300'
	local holder=$PID err=$ERR
	wait_until 10 test -e in
	# shellcheck disable=SC2046 # words
	not grep -qsa "$secret" "/proc/$holder/cmdline" $(tree "$holder" | sed 's|.*|/proc/&/cmdline|')
	"$DLOCK" status -b "$uri" >table || true
	"$DLOCK" status -b "$uri" --json >json || true
	run --separate-stderr -124 "$DLOCK" run -v -n -b "$uri" "$LOCK" -- true
	printf '%s\n' "$output" "$stderr" >busy
	local name
	for name in $(zn_as "joe:$secret" ls "/secret-$LOCK/$LOCK"); do
		zn_as "joe:$secret" get "/secret-$LOCK/$LOCK/$name"
	done >data
	has_line data 'host='
	kill -TERM "$holder"
	join "$holder"
	not grep -F "$secret" table json busy data "$err"
}

# ---- where it is

@test "the path of the URI is the root, whatever its depth; the default is /dlock" {
	hold -b "$ZK" --
	place_count 1
	release
	hold -b "$ZK/deep-$LOCK/er/est" --
	NODE=/deep-$LOCK/er/est/$LOCK place_count 1
	# Under another root it is another lock.
	run -0 "$DLOCK" run -n -b "$ZK/deep-$LOCK/er" "$LOCK" -- true
	release
	hold -b "$ZK/deep-$LOCK/" --
	NODE=/deep-$LOCK/$LOCK place_count 1
	release
}

@test "zk: is zookeeper:, localhost is resolved, ports and hosts are many" {
	hold -b "zk://127.0.0.1:$ZK_PORT" --
	place_count 1
	release
	run -0 "$DLOCK" run -b "zk://localhost:$ZK_PORT" "$LOCK" -- true
	# It does not matter which host is asked first.
	local n
	for n in 1 2 3 4 5 6; do
		run --separate-stderr -0 timeout 20 "$DLOCK" run -b "zk://127.0.0.1:1,127.0.0.1:$ZK_PORT,127.0.0.1:2" "$LOCK" -- true
		equal "$stderr" ""
	done
}

# bats test_tags=more
@test "the list of hosts is shuffled" {
	local n port=$ZK_PORT
	zk_proxy
	# Half of the clients go to the server itself, half through the proxy.
	for n in {1..16}; do
		"$DLOCK" run -b "zk://127.0.0.1:$port,127.0.0.1:$TOOL_PORT" "$LOCK" -- true
	done
	proxy stats
	local connections=${ANSWER#*connections=}
	between "${connections%% *}" 1 15 "connections to one of two"
}

# bats test_tags=more
@test "a host that swallows all packets only delays a run that has another host" {
	tool listener
	local n
	for n in 1 2 3; do
		run --separate-stderr -0 timeout 20 "$DLOCK" run -b "zk://127.0.0.1:$TOOL_PORT,127.0.0.1:$ZK_PORT" "$LOCK" -- true
		equal "$stderr" ""
	done
}

# bats test_tags=more
@test "a server that takes 1.5 s for each answer delays a run, and does not fail it" {
	# The first run of all makes the directories.
	"$DLOCK" run "$LOCK" -- true
	zk_proxy
	proxy hold 1500
	run --separate-stderr -0 timeout 20 "$DLOCK" run -b "$PROXY" "$LOCK" -- true
	equal "$stderr" ""
}

@test "a host may be an IPv6 address in brackets" {
	grep -qs ' lo$' /proc/net/if_inet6 || not_here "no IPv6"
	local zk_port=$ZK_PORT PORT
	free_port
	socat "TCP6-LISTEN:$PORT,bind=[::1],fork,reuseaddr" "TCP4:127.0.0.1:$zk_port" \
		</dev/null >"$T/socat" 2>&1 3>&- 4>&- &
	SERVICES+=("$!")
	wait_until 5 grep -q ":$(printf %04X "$PORT") " /proc/net/tcp6
	run --separate-stderr -0 "$DLOCK" run -b "zk://[::1]:$PORT" "$LOCK" -- "$TOOLS/znode" "$PORTS" ls "$NODE"
	matches "$output" '_c_.*-lock-'
	run --separate-stderr -0 timeout 20 "$DLOCK" run -b "zk://127.0.0.1:1,[::1]:$PORT" "$LOCK" -- true
	# Nobody listens there.
	run --separate-stderr -122 timeout 20 "$DLOCK" run -b "zk://[::1]:1?connect-timeout=1s" "$LOCK" -- true
	one_line '\[::1\]:1'
}

# ---- threads and log of the client library

@test "the library's threads never see a signal" {
	hold --
	keeper_of "$HOLDER"
	local task mask bit others=0
	for task in "/proc/$KEEPER/task/"*; do
		[[ ${task##*/} != "$KEEPER" ]] || continue
		((++others))
		mask=$(awk '/^SigBlk/ { print $2 }' "$task/status")
		# HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD CONT TSTP WINCH
		for bit in 1 2 3 10 12 13 14 15 17 18 20 28; do
			((0x${mask: -8} >> (bit - 1) & 1)) || fail "thread ${task##*/} takes signal $bit"
		done
	done
	((others >= 1)) || fail "no threads: is this the library that has them?"
	release
}

@test "the command gets no descriptor of the library" {
	run -0 "$DLOCK" run "$LOCK" -- sh -c 'ls -l /proc/$$/fd'
	matches "$output" ' 0 -> '
	not grep -E 'socket:|anon_inode|pipe:.* [3-9] ' <<<"$output"
}

# bats test_tags=more
@test "what the library logs is seen nowhere" {
	private_zookeeper
	use "$P_URI" "$P_PORT"
	hold -t 20s --
	local quiet=$HOLDER_ERR holder=$HOLDER command=$COMMAND
	server_stop "$P_DIR"
	zookeeper_restart "$P_DIR"
	SERVICES+=("$(<"$P_DIR/pid")")
	holds_for 2000 alive "$command"
	kill -TERM "$command"
	join "$holder"
	equal "$(grep -Ec '^dlock: ' "$quiet")" "$(wc -l <"$quiet")" "lines of dlock"
	not has_line "$quiet" 'ZOO_|@'
}

# ---- other clients' nodes

@test "Curator's node excludes, and status shows it" {
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock- 10.1.2.3
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by.*10\.1\.2\.3"
	run -1 "$DLOCK" status "$LOCK"
	matches "$output" '10\.1\.2\.3'
	"$DLOCK" status --json "$LOCK" >json || true
	equal "$(jq -c '[.held, (.holders | length), (.waiters | length)]' json)" '[true,1,0]'
	equal "$(jq .fence json)" "$(stat_of "$FOREIGN" czxid)" fence
	wait_in_line 1 -- true
	end_foreign
	join "$PID" 5
	equal "$status" 0
}

@test "kazoo's node excludes, and status shows it" {
	foreign_sequence "$(printf '%032d' 7)__lock__" worker-7
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by.*worker-7"
	run -1 "$DLOCK" status "$LOCK"
	matches "$output" 'worker-7'
	wait_in_line 1 -- true
	end_foreign
	join "$PID" 5
	equal "$status" 0
}

@test "Curator's and kazoo's readers share with readers, and exclude writers" {
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-__READ__ 10.1.2.3
	local curator=$FOREIGN_PID
	foreign_sequence "$(printf '%032d' 7)__rlock__" worker-7
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	run -124 "$DLOCK" run -n "$LOCK" -- true
	end_foreign
	run -124 "$DLOCK" run -n "$LOCK" -- true
	end_foreign "$curator"
	run -0 "$DLOCK" run -n "$LOCK" -- true
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-__WRIT__ 10.1.2.3
	run -124 "$DLOCK" run -n -s "$LOCK" -- true
}

# bats test_tags=more
@test "a foreign holder's session ends: the first waiter gets the lock" {
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock-
	wait_in_line 1 -- sh -c 'echo 1 >>order'
	local first=$PID
	wait_in_line 2 -- sh -c 'echo 2 >>order'
	local second=$PID
	expire_owner "$FOREIGN"
	join "$first" 5
	join "$second" 5
	equal "$(tr '\n' ' ' <order)" "1 2 "
}

# bats test_tags=more
@test "nodes that are no entries of the queue are ignored" {
	directory
	zn create "$NODE/notes" hello
	zn create "$NODE/lock-" hello
	zn create "$NODE/-lock-12x" hello
	run -0 "$DLOCK" run -n "$LOCK" -- true
	run -0 "$DLOCK" status "$LOCK"
	"$DLOCK" break --yes "$LOCK" 2>/dev/null || true
	equal "$(zn ls "$NODE" | wc -l)" 3 "nodes that are not ours"
	zn wipe "$NODE"
}

@test "status prints no control characters of the data in foreign nodes" {
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock- \
		"$(printf 'host=\e[31mEVIL%%0aX\e]0;x\a&pid=99999999999999999999&since=-1&cmd=\n\n%%1b[31m')"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by"
	harmless "$stderr"
	run -1 "$DLOCK" status "$LOCK"
	harmless "$output"
}

@test "break removes the holder's node, Curator's too, and the next gets it" {
	foreign_sequence _c_11111111-2222-4333-8444-555555555555-lock- 10.1.2.3
	wait_in_line 1 -- true
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	join "$PID" 5
	equal "$status" 0
	not zn stat "$FOREIGN" 2>/dev/null
}

# ---- the basic lock of one node

@test "strategy node: the lock is one ephemeral node, which all others watch" {
	export DLOCK_BACKEND="$ZK?strategy=node"
	hold --
	local n waiter=() path
	path=$(zn tree /dlock | while read -r path; do
		if [[ $(stat_of "$path" czxid) == "$FENCE" ]]; then
			echo "$path"
		fi
	done)
	[[ -n $path ]] || fail "no node with the fence as its czxid"
	[[ $(owner_of "$path") == 0x1* ]] || fail "not ephemeral: $(zn stat "$path")"
	for n in 1 2 3; do
		start "$DLOCK" run "$LOCK" -- sh -c 'mkdir inside || echo overlap >>order; echo x >>order; rmdir inside'
		waiter+=("$PID")
	done
	wait_until 5 eval '(($(watchers "$path" | grep -vcx "$(owner_of "$path")") == 3))'
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by $(uname -n) pid $HOLDER"
	release
	for n in "${waiter[@]}"; do
		join "$n"
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <order)" "x x x "
	wait_until 5 not zn stat "$path" >/dev/null 2>&1
}

# bats test_tags=more
@test "strategy node: a client that found an empty directory does not remove the holder's node" {
	directory
	zk_proxy
	# It learns 0.8 s later what it has found.
	proxy hold 800
	start "$DLOCK" run -b "$PROXY?strategy=node" "$LOCK" -- touch ran
	local asking=$PID
	wait_until 10 has_line requests "/dlock/$LOCK"
	hold -b "$ZK?strategy=node" --
	holds_for 2500 alive "$HOLDER"
	[[ ! -e ran ]]
	proxy pass
	release
	join "$asking" 10
	equal "$status" 0
	[[ -e ran ]]
}

# bats test_tags=more
@test "strategy node: the session's end ends the command, and a waiter gets the lock" {
	export DLOCK_BACKEND="$ZK?strategy=node"
	hold -t 4s --
	keeper_of "$HOLDER"
	contend "$COMMAND"
	kill -STOP "$KEEPER"
	lost
	met_nobody 15
}

# ---- the workload

# bats test_tags=more
@test "countdown with the number in a node: 101 processes print each number once and in order" {
	local n all=()
	zn create "/number-$LOCK" 100
	for n in {0..100}; do
		start "$DLOCK" run "$LOCK" -- sh -c '
			number=$("$TOOLS/znode" "$PORTS" get "$0")
			echo "$number" >>log
			[ "$number" -eq 0 ] || "$TOOLS/znode" "$PORTS" set "$0" $((number - 1))' "/number-$LOCK"
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	diff <(seq 100 -1 0) log
	zn rm "/number-$LOCK"
	nothing_left
}
