# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Fifty rounds, or two hundred in `make check-all`, leave no process, socket, key, node, file,
# connection, session or waiter behind. What may stay is what one round leaves: the lock's file, the fence.

load ../lib/helpers
# shellcheck source=tests/conformance/contents.bash
source "$TOP/tests/conformance/contents.bash"

# Fewer rounds under sanitizers, which make every start of dlock slow.
ROUNDS=${DLOCK_TESTS_ROUNDS:-$(long_or 200 16)}

setup_file() {
	redis_for_file
	zookeeper_for_file
}

teardown_file() {
	redis_file_end
	zookeeper_file_end
}

prepare() {
	owned=()
}

# on BACKEND: sets the URI, and makes one round, after which nothing may be added
on() {
	case $1 in
	file) URI=$FILE ;;
	redis) URI=$REDIS ;;
	zookeeper)
		URI=zookeeper://127.0.0.1:$ZK_PORT
		# This is the time in which the session of a process that was killed ends.
		export DLOCK_TTL=4s
		;;
	esac
	export DLOCK_BACKEND=$URI
	: >tokens
	"$DLOCK" run "$LOCK" -- true
	names >before
	clients >clients.before
}

# names: prints the names of files or keys, without their contents, which hold fences that grow
names() {
	case $URI in
	# The lock that `dlock check` tries leaves its file.
	file:*) find "$LOCKS" "$HOME" ! -name 'dlock-check.*' | sort ;;
	redis:*) rcli --scan | grep -F -- "$LOCK" | sort ;;
	# The server removes the directories of locks in its own time.
	zookeeper:*) "$TOOLS/znode" "$ZK_PORT" tree / | grep "/${LOCK}[^/]*/" | sort ;;
	esac
}

# clients: counts the sessions, and the connections to the server but for the one that asks
clients() {
	rcli client list | grep -vc 'cmd=client' || true
	zk_ask "$ZK_DIR" dump | grep -c "^[[:space:]]0x" || true
}

clients_gone() {
	[[ $(clients) == "$(<clients.before)" ]]
}

# nothing_stays: nothing is left of what was acquired with the tokens in ./tokens
nothing_stays() {
	local tokens=()
	wait_until 5 no_strays_but "${owned[@]}"
	mapfile -t tokens <tokens
	no_socket "${tokens[@]}"
	names | diff before -
	wait_until 15 clients_gone
	is_free
}

rounds_of_acquire() {
	on "$1"
	bash -ec 'for ((n = 0; n < $0; n++)); do
			token=$("$DLOCK" acquire -n "$LOCK")
			echo "$token" >>tokens
			"$DLOCK" release "$LOCK" "$token"
		done' "$ROUNDS"
	equal "$(wc -l <tokens)" "$ROUNDS" rounds
	equal "$(sort -u tokens | wc -l)" "$ROUNDS" "different tokens"
	nothing_stays
}

rounds_of_run() {
	on "$1"
	bash -ec 'for ((n = 0; n < $0; n++)); do "$DLOCK" run -n "$LOCK" -- true; done' "$ROUNDS"
	nothing_stays
}

# Half of the holds end by release, half by the death of the process.
rounds_of_pid() {
	on "$1"
	bash -c 'for ((n = 0; n < $0; n++)); do
			sleep 300 &
			token=$("$DLOCK" acquire -w 10s --pid $! "$LOCK") || exit 1
			echo "$token" >>tokens
			# The last round ends by a death, after which no later keeper tidies up.
			if ((n % 2 == 0)); then
				"$DLOCK" release "$LOCK" "$token" || exit 2
			fi
			kill -KILL $!
			wait $!
		done 2>/dev/null
		exit 0' "$ROUNDS"
	equal "$(wc -l <tokens)" "$ROUNDS" rounds
	wait_until 2 is_free
	nothing_stays
}

# Runs that do not obtain the lock, give up, or are killed while they wait; status, wait, verify.
rounds_of_vain() {
	on "$1"
	owner_token=$("$DLOCK" acquire -t 1h "$LOCK")
	echo "$owner_token" >>tokens
	bash -c 'for ((n = 0; n < $0; n++)); do
			case $((n % 5)) in
			0) "$DLOCK" acquire -n -q "$LOCK" ;;
			1) "$DLOCK" run -q -w 20ms "$LOCK" -- true ;;
			2) timeout -s KILL 0.02 "$DLOCK" acquire "$LOCK" ;;
			3) timeout -s TERM 0.02 "$DLOCK" run "$LOCK" -- true ;;
			4) "$DLOCK" status "$LOCK" >shown; "$DLOCK" wait -q -w 10ms "$LOCK" ;;
			esac
			code=$?
			# 122: no answer came within so short a wait.
			case $code in 122 | 124 | 137 | 143) ;; *) echo "round $n: $code"; exit 1 ;; esac
		done 2>/dev/null' "$ROUNDS"
	"$DLOCK" release "$LOCK" "$owner_token"
	wait_until 2 is_free
	nothing_stays
}

# bats test_tags=deeper
@test "file: acquire and release" {
	rounds_of_acquire file
}

# bats test_tags=deeper
@test "redis: acquire and release" {
	rounds_of_acquire redis
}

# bats test_tags=more
@test "zookeeper: acquire and release" {
	rounds_of_acquire zookeeper
}

# bats test_tags=deeper
@test "file: run" {
	rounds_of_run file
}

# bats test_tags=deeper
@test "redis: run" {
	rounds_of_run redis
}

# bats test_tags=more
@test "zookeeper: run" {
	rounds_of_run zookeeper
}

# bats test_tags=deeper
@test "file: acquire --pid" {
	rounds_of_pid file
}

# bats test_tags=deeper
@test "redis: acquire --pid" {
	rounds_of_pid redis
}

# bats test_tags=more
@test "zookeeper: acquire --pid" {
	rounds_of_pid zookeeper
}

# bats test_tags=more
@test "file: runs that do not obtain the lock" {
	rounds_of_vain file
}

# bats test_tags=deeper
@test "redis: runs that do not obtain the lock" {
	rounds_of_vain redis
}

# bats test_tags=more
@test "zookeeper: runs that do not obtain the lock" {
	rounds_of_vain zookeeper
}

# bats test_tags=deeper
@test "redis: leases that are left to lapse" {
	on redis
	local n
	for ((n = 0; n < ROUNDS; n++)); do
		"$DLOCK" acquire -t 1s "$LOCK-$n" >>tokens
	done
	equal "$(sort -u tokens | wc -l)" "$ROUNDS" tokens
	wait_until 5 only_fences_left
	rcli --scan | grep -F -- "$LOCK" | xargs -r "$REDIS_CLI" -s "$REDIS_DIR/sock" del
}

only_fences_left() {
	no_strays && ! rcli --scan | grep -F -- "$LOCK" | grep -qv '}:fence$'
}

# bats test_tags=more
@test "file: check and setup" {
	on file
	for _ in {1..20}; do
		"$DLOCK" check >findings
		"$DLOCK" setup
		"$DLOCK" check --json >findings
	done
	nothing_stays
}

# bats test_tags=more
@test "redis: check, setup, status and break" {
	on redis
	for _ in {1..20}; do
		"$DLOCK" check >findings || (($? == 1))
		"$DLOCK" setup
		"$DLOCK" status >shown
		"$DLOCK" acquire "$LOCK" >>tokens
		"$DLOCK" break -q --yes "$LOCK"
	done
	nothing_stays
	# All probes share one name, of which the last fence stays.
	equal "$(rcli --scan | grep -c dlock-check)" 1 "keys of probes"
}

# has_descriptors PID MOST: this process has no more descriptors than that
has_descriptors() {
	(($(find "/proc/$1/fd" -mindepth 1 | wc -l) <= $2))
}

# bats test_tags=deeper
@test "descriptors and memory of a keeper do not grow" {
	local backend n count
	for backend in file redis zookeeper; do
		on $backend
		start sleep 300
		owned=("$PID")
		"$DLOCK" acquire --json --pid "$PID" "$LOCK" >taken
		read -r token keeper < <(jq -r '"\(.token) \(.keeper_pid)"' taken)
		echo "$token" >tokens
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" renew "$LOCK" "$token"
		count=$(find "/proc/$keeper/fd" -mindepth 1 | wc -l)
		bash -ec 'for ((n = 0; n < $0; n++)); do
				"$DLOCK" verify "$LOCK" "$1"
				"$DLOCK" renew "$LOCK" "$1"
			done' "$ROUNDS" "$token"
		# The last caller may have ended before the keeper closes its connection.
		wait_until 2 has_descriptors "$keeper" "$count"
		"$DLOCK" release "$LOCK" "$token"
		wait_until 2 ended "$keeper"
		nothing_stays
		kill -KILL "$PID"
		wait_until 2 ended "$PID"
	done
}

# heap_of PID: prints how many kB of the heaps of this process and its descendants are in memory
heap_of() {
	local pid
	for pid in "$1" $(tree "$1"); do
		cat "/proc/$pid/smaps"
	done | awk '/^[0-9a-f]+-/ { heap = /\[heap\]/ } heap && $1 == "Rss:" { sum += $2 } END { print sum + 0 }'
}

waiters() {
	[[ $("$DLOCK" status --json "$LOCK" | jq '.waiters | length') == "$1" ]]
}

# bats test_tags=deeper
@test "a waiter does not keep in memory who waits before it" {
	local first
	on file
	hold --
	wait_in_line 1 -- true
	first=$PID
	for _ in {2..40}; do
		start "$DLOCK" run "$LOCK" -- true
	done
	wait_until 10 waiters 40
	wait_in_line 41 -- true
	(($(heap_of "$PID") <= $(heap_of "$first") + 16))
}
