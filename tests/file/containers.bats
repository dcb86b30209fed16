# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The file backend in containers: PID namespaces with a /proc and a host name of their own
# that share a lock directory. There a pid means something else, host names repeat, and
# /proc/locks hides what is locked elsewhere. And records of holders that are gone.

load ../lib/helpers

prepare() {
	need_root
	need unshare hostname
	LOCK_FILE=$LOCKS/$LOCK.lock
	CONTAINERS=()
}

# in_container HOST COMMAND...: runs COMMAND in a container, and returns its status
in_container() {
	local host=$1
	shift
	unshare --pid --fork --kill-child --mount --mount-proc --uts \
		sh -c 'hostname "$0" && "$@"; exit $?' "$host" "$@"
}

# container HOST COMMAND...: starts a container, and waits for its first line; sets CONTAINER.
# Some pids are left out, so that those of COMMAND are not also there in in_container.
container() {
	local host=$1
	shift
	start unshare --pid --fork --kill-child --mount --mount-proc --uts \
		bash -c 'hostname "$0" && for _ in {1..50}; do (:) done && "$@"; exit $?' "$host" "$@"
	CONTAINER=$PID
	CONTAINERS+=("$CONTAINER")
	line "$OUT" || fail "nothing from the container: $(<"$ERR")"
}

# container_end CONTAINER: kills all its processes at once
container_end() {
	if alive "$1" && child "$1"; then
		kill -KILL "$CHILD"
	fi
	wait_until 5 not_ours "$1"
}

tidy() {
	local each
	for each in "${CONTAINERS[@]}"; do
		container_end "$each"
	done
	if [[ -n ${SECTION-} ]]; then
		kill -KILL "$SECTION"
	fi
}

# held_in HOST [OPTION]...: starts a container in which dlock holds $LOCK with these options
held_in() {
	local host=$1
	shift
	container "$host" "$DLOCK" run "$@" "$LOCK" -- sh -c 'echo in; exec sleep 300'
}

# ---- acquire

@test "acquire, verify, renew and release in a container" {
	run --separate-stderr -0 in_container one sh -ec 'token=$("$DLOCK" acquire -t 20s "$LOCK")
		DLOCK_TOKEN=$token "$DLOCK" acquire -t 20s "$LOCK"
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" renew -t 20s "$LOCK" "$token"
		if "$DLOCK" status "$LOCK"; then exit 99; fi
		"$DLOCK" release "$LOCK" "$token+1"
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" release "$LOCK" "$token"
		"$DLOCK" status "$LOCK"
		if "$DLOCK" verify -q "$LOCK" "$token" 2>/dev/null; then exit 98; fi
		echo all done'
	equal "$stderr" ""
	equal "${lines[-1]}" "all done"
}

# bats test_tags=more
@test "what a container's keeper holds is verified from outside, and the other way round" {
	container one sh -c '"$DLOCK" acquire -t 60s "$LOCK" && exec sleep 300'
	local token=$LINE
	# This one has a /run of its own, in which the keeper's socket is not found.
	run -0 in_container two sh -c 'mount -t tmpfs none /run && exec "$DLOCK" verify "$LOCK" "$0"' "$token"
	run -0 "$DLOCK" verify "$LOCK" "$token"
	container_end "$CONTAINER"
	run -123 "$DLOCK" verify "$LOCK" "$token"
	is_free
}

@test "acquire --pid in a container holds for that process, and signals it after a loss" {
	container one sh -c 'sleep 300 &
		token=$("$DLOCK" acquire -t 3s --pid $! "$LOCK") || exit
		"$DLOCK" verify "$LOCK" "$token" || exit
		echo "$token"
		wait $!
		echo "ended $?" >"$T/end"
		exec sleep 300'
	local token=$LINE
	# That is longer than the pause between two looks at the lock.
	holds_for 1200 "$DLOCK" verify "$LOCK" "$token"
	[[ ! -e end ]]
	run -0 in_container one "$DLOCK" break --yes "$LOCK"
	wait_until 5 has_line end 'ended 143'
}

# bats test_tags=more
@test "acquire --pid in a container releases the lock when that process ends" {
	container one sh -c 'sleep 300 &
		"$DLOCK" acquire -t 20s --pid $! "$LOCK"
		while [ ! -e "$T/go" ]; do sleep 0.05; done
		kill $!
		exec sleep 300'
	is_held
	touch go
	wait_until 5 is_free
}

# ---- two containers, whatever their names

@test "shared holds and slots of two containers keep each other out" {
	local other
	for other in same other; do
		held_in same -s
		run --separate-stderr -124 in_container $other "$DLOCK" run -n --slots 2 "$LOCK" -- true
		run --separate-stderr -124 in_container $other "$DLOCK" run -n "$LOCK" -- true
		run -0 in_container $other "$DLOCK" run -n -s "$LOCK" -- true
		container_end "$CONTAINER"
		held_in same --slots 2
		run --separate-stderr -124 in_container $other "$DLOCK" run -n -s "$LOCK" -- true
		run -0 in_container $other "$DLOCK" run -n --slots 2 "$LOCK" -- true
		container_end "$CONTAINER"
	done
}

# bats test_tags=more
@test "containers that disagree on the number of slots get an error" {
	local other
	for other in same other; do
		held_in same --slots 1
		run --separate-stderr -125 in_container $other "$DLOCK" run -n --slots 5 "$LOCK" -- true
		one_line disagrees
		run --separate-stderr -124 in_container $other "$DLOCK" run -n --slots 1 "$LOCK" -- true
		container_end "$CONTAINER"
	done
}

# bats test_tags=more
@test "a container shows and breaks the lock of another one, which ends its command" {
	local mode
	for mode in --no-renew -s '--slots 3'; do
		# shellcheck disable=SC2086 # two words
		held_in same -t 1500ms $mode
		run -1 in_container same "$DLOCK" status "$LOCK"
		matches "$output" 'same pid'
		run -1 "$DLOCK" status "$LOCK"
		run -0 in_container same "$DLOCK" status --json
		equal "$(jq -r .name <<<"$output")" "$LOCK"
		run -124 in_container same "$DLOCK" wait -w 0 "$LOCK"
		run --separate-stderr -0 in_container same "$DLOCK" break --yes "$LOCK"
		matches "$stderr" 'broken; was held by same'
		join "$CONTAINER" 5
		equal "$status" 123 "status in $mode"
		run -0 "$DLOCK" status "$LOCK"
	done
}

@test "flock(1) of another container excludes dlock, is shown, and is excluded" {
	local kind
	for kind in -x -s; do
		container one flock $kind "$LOCK_FILE" sh -c 'echo in; exec sleep 300'
		run --separate-stderr -124 in_container two "$DLOCK" run -n "$LOCK" -- true
		one_line "$LOCK: held by"
		run -1 in_container two "$DLOCK" status "$LOCK"
		run -1 "$DLOCK" status "$LOCK"
		container_end "$CONTAINER"
		run -0 in_container two "$DLOCK" status "$LOCK"
	done
	held_in one
	run -1 in_container two flock -n "$LOCK_FILE" true
	run -1 in_container two flock -n -s "$LOCK_FILE" true
	container_end "$CONTAINER"
	run -0 in_container two flock -n "$LOCK_FILE" true
}

# bats test_tags=more
@test "min-hold in a container keeps the lock, for as long as the container lives" {
	container one sh -c '"$DLOCK" run --min-hold 60s -s "$LOCK" -- true; echo in; exec sleep 300'
	run --separate-stderr -124 in_container one "$DLOCK" run -n --slots 2 "$LOCK" -- true
	run -1 in_container one "$DLOCK" status "$LOCK"
	container_end "$CONTAINER"
	is_free
}

# ---- records of holders that are gone

# all_get_in: shared holds and slots get in, one after the other, and status sees nobody
all_get_in() {
	run -0 "$DLOCK" status "$LOCK"
	run -0 "$DLOCK" run -n -s "$LOCK" -- true
	has_line "$LOCK_FILE" 'fence'
	cp leftover "$LOCK_FILE"
	run -0 "$DLOCK" run -n --slots 2 "$LOCK" -- true
	cp leftover "$LOCK_FILE"
	is_free
}

# bats test_tags=more
@test "holds that a killed container left in the record stop nobody" {
	local mode
	for mode in -s '--slots 7' --no-renew; do
		# shellcheck disable=SC2086 # two words
		held_in gone $mode
		container_end "$CONTAINER"
		cp "$LOCK_FILE" leftover
		has_line leftover host=gone
		all_get_in
	done
}

# [31]
# bats test_tags=more
@test "a hold in the record whose pid another process has now stops nobody" {
	held_in gone -s
	container_end "$CONTAINER"
	# As after a reboot, of an older program: this host's name, and a pid that is in use.
	sed -E "s/( s) [0-9]+ /\1 $$ /; s/host=gone/host=$(uname -n)/" "$LOCK_FILE" >leftover
	has_line leftover "hold [0-9a-f]* s $$ .*host=$(uname -n)&"
	cp leftover "$LOCK_FILE"
	all_get_in
}

# ---- where the kernel does not answer

@test "where locks of open file descriptions are refused, the error names them" {
	local number
	hold -s --
	for number in 22 37; do # EINVAL, ENOLCK
		run --separate-stderr -122 "$TOOLS/noofd" $number "$DLOCK" run -n -s "$LOCK" -- touch ran
		one_line F_OFD_SETLK "$LOCKS"
		run --separate-stderr -122 "$TOOLS/noofd" $number "$DLOCK" acquire -n -s "$LOCK"
		one_line F_OFD_SETLK
		run --separate-stderr -122 "$TOOLS/noofd" $number "$DLOCK" status "$LOCK"
		one_line F_OFD_SETLK
		run --separate-stderr -122 "$TOOLS/noofd" $number "$DLOCK" status
		one_line F_OFD_SETLK
		run --separate-stderr -122 "$TOOLS/noofd" $number "$DLOCK" verify "$LOCK" "$TOKEN"
		one_line F_OFD_SETLK
	done
	[[ ! -e ran ]]
	release
}

# in_section SECONDS [flock]: starts a process that locks the file, and stays for SECONDS in the
# section in which the record is written
in_section() {
	python3 -c 'import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 1 << 40)
if len(sys.argv) > 3:
    fcntl.flock(file, fcntl.LOCK_EX)
print("in", flush=True)
time.sleep(float(sys.argv[2]))' "$LOCK_FILE" "$@" >section 3>&- 4>&- &
	SECTION=$!
	line section
}

section_end() {
	wait "$SECTION" || :
	SECTION=
	rm section
}

# [28]
# bats test_tags=more
@test "the next holder need not wait until the processes of the one before have ended" {
	local mode
	"$DLOCK" run --slots 2 "$LOCK" -- true
	for mode in -n '-n -s' '-n --slots 2'; do
		# shellcheck disable=SC2086 # several words
		run -0 python3 -c 'import fcntl, subprocess, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_SH, 2, 1 << 41)
sys.exit(subprocess.call(sys.argv[2:]))' "$LOCK_FILE" "$DLOCK" run $mode "$LOCK" -- true
	done
}

# [29]
# bats test_tags=more
@test "a process that only checks the lock is not shown as a holder" {
	local mode
	for mode in -n '-n -s' '-n --slots 2'; do
		"$DLOCK" run "$LOCK" -- true
		# dlock status locks the file, too, but not for so long.
		in_section 0.5 flock
		# shellcheck disable=SC2086 # several words
		run -0 "$DLOCK" run $mode -b "$FILE?timeout=20s" "$LOCK" -- true
		section_end
	done
}

# [29]
@test "a process that is stopped while it writes the record delays others only briefly" {
	hold --
	in_section 300
	timed "$DLOCK" run -n "$LOCK" -- true
	equal "$status" 124
	took "$MS" 0 15000
	timed "$DLOCK" status "$LOCK"
	equal "$status" 1
	took "$MS" 0 15000
	# The holder ends its command and itself in time, and the lock is free.
	kill -TERM "$HOLDER"
	join "$HOLDER" 15
	equal "$status" 143
	flock -n "$LOCK_FILE" true
	kill -KILL "$SECTION"
	section_end
	run -0 "$DLOCK" status "$LOCK"
	is_free
}
