#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/check [SUITE]...: runs these suites, or all of them. A suite is a file, and for those of
# conformance/list a file and a backend, as in tests/conformance/run.bats:redis; the file alone means
# each of its backends, and a directory all suites in it. A suite is a bats process of its own, with
# servers of its own. JOBS suites run at a time, by default eight for each processor, because the tests
# mostly wait. But beyond one for each processor none begins unless the processors idle for a tenth of
# the time, because a slow machine would miss the times that tests allow. The last line is
# "N passed, N failed", and the status is 0 only if nothing failed. A normal user's tests that need root
# do not run, and are counted in a line of their own. Everything is written below one temporary
# directory, in memory where there is enough: for files that live for a second, ext4 takes a twentieth
# of the time of all tests.
#
#	DLOCK_TESTS_STRICT=1	counts a skipped test as failed, unless it needs root
#	SLOW=N			how slow the machine is, 1 to 4, which is measured else: the limits of
#				waits and durations grow with it (lib/time.bash)
#	PART=core|rest|all	which tests: those of `make check` (the default where no SUITE is named),
#				all others, or all (the default where one is named). A test with the
#				tag "more" is not in the core, and conformance/list says which tests
#				of its two files are. One with the tag "deeper" does more outside of
#				the core, and is in both.
#	TEST_SECONDS		after which the processes of a test that hangs are killed; the
#				test has failed
#	SUITE_SECONDS		the same for a whole file
#	AGAIN=N			runs up to N of the failed tests a second time, each by itself
#				after all others, because a test among many may get too little of
#				the machine; a suite that failed outside of its tests, in its setup
#				or because one of its processes hung, is repeated as a whole. What
#				fails twice has failed. What passes at the second try has passed,
#				and is named in a line "flaky: SUITE: TEST: WHY".
set -u
shopt -s nullglob

# in_memory: is more memory free than the mount may take? All suites together have taken 1.3 GB.
in_memory() {
	awk '$1 == "MemAvailable:" { enough = $2 > 6000000 } END { exit !enough }' /proc/meminfo
}

# A mount in a namespace of its own is gone when the last process in it is, however it ends.
if ((EUID == 0)) && [[ -z ${MOUNTS-} ]] && in_memory && unshare --mount true 2>/dev/null; then
	MOUNTS=own exec unshare --mount "$0" "$@"
fi
# A tests/check that a test runs makes its own.
export -n MOUNTS

top=$(cd "$(dirname "$0")/.." && pwd)
jobs=${JOBS:-$((8 * $(nproc)))}
least=$(($(nproc) < jobs ? $(nproc) : jobs))
suite_seconds=${SUITE_SECONDS:-1200}
# BATS_TEST_TIMEOUT would not do: it does not end a test whose lost child holds a pipe open.
test_seconds=${TEST_SECONDS:-180}
again=${AGAIN:-0}

# dlock takes the name of its user from it; the build of a package does not have it.
export LOGNAME=${LOGNAME:-$(id -un)}

# measure_exec: sets EXEC_US to the time that an exec of /bin/true takes here, and SLOW, unless it is
# set, to the same in ms: the tests' limits are made for a machine where it takes 1 ms.
measure_exec() {
	local runs=200 n start=${EPOCHREALTIME/[.,]/}
	for ((n = 0; n < runs; n++)); do
		/bin/true
	done
	EXEC_US=$(((${EPOCHREALTIME/[.,]/} - start) / runs))
	if [[ -z ${SLOW-} ]]; then
		SLOW=$((EXEC_US < 1 ? 1 : (EXEC_US + 999) / 1000))
		((SLOW <= 4)) || SLOW=4
	fi
	export SLOW
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock.XXXXXX") || exit
[[ -z ${MOUNTS-} ]] || mount -t tmpfs -o size=4g tmpfs "$dir" || exit
# Some tests run programs as other users, who must get through this directory.
chmod 755 "$dir"
# All suites share it (lib/services/mysql.bash), because making it takes half a second.
export MYSQL_TEMPLATE=$dir/mysql.template
running=()
watchdog=
# The directories outside of $dir that dlock makes for this user, where they do not exist yet.
made=()
for default in "/tmp/dlock-$EUID" "/run/lock/dlock-$EUID" /run/dlock; do
	[[ -e $default ]] || made+=("$default")
done
# shellcheck disable=SC2317 # trap
tidy() {
	local pid
	for pid in "${running[@]}" $watchdog; do
		kill -TERM "$pid" 2>/dev/null
	done
	wait
	if [[ -n ${MOUNTS-} ]]; then
		umount -l "$dir"
	fi
	rm -rf "$dir"
	# One that is not empty belongs to somebody else, too.
	rmdir "${made[@]}" 2>/dev/null
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# older: prints the pids of all tests, and of their subshells, that have run for longer than they may
older() {
	grep -lzs 'bats-exec-test$' /proc/[0-9]*/cmdline | sed 's/cmdline$/stat/' |
		xargs -r cat 2>/dev/null |
		awk -v now="$(cut -d' ' -f1 /proc/uptime)" -v ticks="$(getconf CLK_TCK)" \
			-v most="$test_seconds" '{
				match($0, /.*\) /)
				split(substr($0, RLENGTH + 1), field, " ")
				if (now - field[20] / ticks > most)
					print $1
			}'
}

# free_hung: kills the processes that hanging tests have started, and names them in $dir/SUITE.hung.
# Each carries a mark in its environment that ends in the pid of its test's bats-exec-test (see
# helpers.bash).
free_hung() {
	local pid file suite backend
	for pid in $(older); do
		grep -qzsxF "TMPDIR=$dir" "/proc/$pid/environ" || continue
		suite=$(tr '\0' '\n' <"/proc/$pid/cmdline" | grep -m 1 '\.bats$')
		backend=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^CONFORMANCE=//p')
		suite=$(name_of "$suite${backend:+:$backend}")
		grep -lzsx "DLOCK_TEST_MARK=[0-9]*\.$pid" /proc/[0-9]*/environ |
			while read -r file; do
				file=${file%/environ}
				echo "hangs for $test_seconds s, ended: $(tr '\0' ' ' <"$file/cmdline")" |
					tee -a "$dir/$suite.hung"
				kill -KILL "${file#/proc/}"
			done
	done 2>/dev/null
}

# name_of SUITE: prints how it is called here: its path below tests, with dots, and its backend
name_of() {
	local file=${1%:*} backend=
	[[ $1 == "$file" ]] || backend=:${1##*:}
	file=$(realpath --relative-to="$top/tests" "$file")
	file=${file%.bats}
	echo "${file//\//.}$backend"
}

# choose SUITE: sets CORE and ALL to the tags (as bats --filter-tags has them) of its tests in `make
# check`, and in `make check-all`, by conformance/list. "-": none.
choose() {
	local file=${1%:*} backend core_run core_acquire all_run all_acquire
	CORE='' ALL=''
	if [[ $1 != "$file" ]]; then
		read -r backend core_run core_acquire all_run all_acquire < \
			<(grep "^${1##*:}[[:space:]]" "$top/tests/conformance/list")
		CORE=$core_run ALL=$all_run
		[[ $file != */acquire.bats ]] || CORE=$core_acquire ALL=$all_acquire
		CORE=${TAGS_OF[$CORE]} ALL=${TAGS_OF[$ALL]}
	fi
	[[ $CORE == - ]] || CORE+=${CORE:+,}'!more'
}
declare -A TAGS_OF=([all]='' [store]='!program' [own]=own [-]=-)

# filters SUITE: sets FILTERS to the options of bats that choose its tests of this PART. Fails if
# there is none.
filters() {
	local tag
	FILTERS=()
	choose "$1"
	case $part in
	core) [[ $CORE != - ]] && FILTERS=(--filter-tags "$CORE") ;;
	all) [[ $ALL != - ]] && FILTERS=(${ALL:+--filter-tags "$ALL"}) ;;
	rest)
		[[ $ALL != - ]] || return
		if [[ $CORE == - ]]; then
			FILTERS=(${ALL:+--filter-tags "$ALL"})
			return
		fi
		# Whatever is missing of the tags of the core leaves a test out of it.
		for tag in deeper ${CORE//,/ }; do
			[[ $tag == deeper ]] || tag="!$tag"
			FILTERS+=(--filter-tags "${ALL:+$ALL,}${tag#!!}")
		done
		;;
	esac
}

# count_tests FILE [--filter-tags TAGS]...: prints how many of its tests these options choose
count_tests() {
	awk -v filters="${*:2}" '
		function chosen(tags, filter, count, words, i, absent) {
			count = split(filter, words, ",")
			for (i = 1; i <= count; i++) {
				absent = sub(/^!/, "", words[i])
				if (index("," tags ",", "," words[i] ",") ? absent : !absent)
					return 0
			}
			return 1
		}
		BEGIN { gsub(/--filter-tags /, "", filters); count = split(filters, filter, " ") }
		/^# bats file_tags=/ { sub(/.*=/, ""); file = $0 "," }
		/^# bats test_tags=/ { sub(/.*=/, ""); tags = $0 }
		/^@test/ {
			found = count == 0
			for (i = 1; i <= count; i++)
				found = found || chosen(file tags, filter[i])
			sum += found
			tags = ""
		}
		END { print sum + 0 }' "$1"
}

# suites_of PATH: prints the suites in it, one a line
suites_of() {
	local file backend
	case $1 in
	*.bats:*) echo "$1" ;;
	*/conformance/run.bats | */conformance/acquire.bats)
		grep -o '^[a-z-]*' "$top/tests/conformance/list" | sed "s|^|$1:|"
		;;
	*.bats) echo "$1" ;;
	*)
		for file in "$1"/*.bats; do
			suites_of "$file"
		done
		;;
	esac
}

# What bats appends to the name of a test: its time in ms.
TIMING=' (# )?in ([0-9]+) ?ms$'

# run_bats SUITE [OPTION]...: runs it, or those of its tests that OPTIONs choose
run_bats() {
	local file=${1%:*} backend=${1##*:}
	[[ $1 != "$file" ]] || backend=
	filters "$1"
	# A short TMPDIR: bats makes its own directories below it, and a socket's path is limited. The
	# locale is that of lib/helpers.bash, also for bats itself.
	CONFORMANCE=$backend TMPDIR=$dir LC_ALL=C timeout -k 20 "$suite_seconds" bats --tap \
		--timing "${FILTERS[@]}" "${@:2}" "$file" </dev/null
}

# suite SUITE NAME: runs it; writes its TAP to $dir/NAME.tap, and to stdout with its name before each
# line; at its end, a line that says how far all suites are
suite() {
	local start=$SECONDS status ended
	mkdir -p "/sys/fs/cgroup/cpuacct/m4/$2" && echo $BASHPID >"/sys/fs/cgroup/cpuacct/m4/$2/cgroup.procs"
	run_bats "$1" 2>&1 |
		tee "$dir/$2.tap" |
		sed -u "s|^|$2: |"
	status=${PIPESTATUS[0]}
	# A test may have passed although one of its processes had to be killed.
	[[ ! -e $dir/$2.hung ]] || status=1
	echo "$status" >"$dir/$2.status"
	echo "$((SECONDS - start)) $2" >"$dir/$2.seconds"
	ended=("$dir"/*.status)
	echo "$2: $((SECONDS - start)) s; ${#ended[@]} of ${#suites[@]} suites have ended," \
		"$(cat "$dir"/*.tap | grep -c '^not ok ') tests failed so far"
}

# count NAME: sets PASSED, FAILED, SKIPPED and ROOTLESS, the number of tests that were skipped
# because they need root, of a suite that has ended
count() {
	local status skipped planned
	read -r status <"$dir/$1.status"
	planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$dir/$1.tap" | head -n 1)
	PASSED=$(grep -c '^ok ' "$dir/$1.tap")
	ROOTLESS=$(grep -c '^ok .* # skip needs root$' "$dir/$1.tap")
	skipped=$(($(grep -Eic '^ok .* # skip' "$dir/$1.tap") - ROOTLESS))
	# Tests of the plan that did not run have failed, and so has a suite without a plan.
	FAILED=$((${planned:-$((PASSED + 1))} - PASSED))
	if [[ ${DLOCK_TESTS_STRICT-} == 1 ]]; then
		FAILED=$((FAILED + skipped))
	fi
	PASSED=$((PASSED - skipped - ROOTLESS))
	SKIPPED=$skipped
	# The suite may have failed outside of its tests, in setup_file or teardown_file.
	if ((status != 0 && FAILED == 0)); then
		FAILED=1
	fi
}

# in_a_line: prints the begin of its input without line ends
in_a_line() {
	tr '\n' ' ' | head -c 400
}

# suite_once_more SUITE NAME: runs a suite again that failed outside of its tests
suite_once_more() {
	local why
	why=$({ cat "$dir/$2.hung" 2>/dev/null; sed -n 's/^# *//p' "$dir/$2.tap"; } | in_a_line)
	rm -f "$dir/$2.hung"
	if run_bats "$1" >"$dir/again" 2>&1 && [[ ! -e $dir/$2.hung ]]; then
		echo "again, by itself: ok, all of $2"
		echo "flaky: $2: the whole suite: $why" >>"$dir/flaky"
		mv "$dir/again" "$dir/$2.tap"
		echo 0 >"$dir/$2.status"
	else
		echo "again, by itself: not ok, $2"
		cat "$dir/again"
	fi
}

# once_more SUITE NAME: runs the failed tests of a suite again, and marks those that pass now as
# passed in $dir/NAME.tap
once_more() {
	local number words pattern
	rm -f "$dir/$2.hung"
	while read -r number words; do
		((again-- > 0)) || return 0
		if [[ $words == @(setup|teardown)_file\ failed ]]; then
			suite_once_more "$1" "$2"
			return
		fi
		# shellcheck disable=SC2001,SC2016 # a regular expression
		pattern=$(sed 's/[][().*^$+?{}|\\]/\\&/g' <<<"$words")
		# The filter is compared without a prefix, such as the conformance suites have.
		run_bats "$1" --filter "^($pattern|${pattern#*: })\$" >"$dir/again" 2>&1
		echo "again, by itself: $(grep -E '^(not )?ok ' "$dir/again")"
		if grep -q '^ok ' "$dir/again" && ! grep -q '^not ok ' "$dir/again" &&
			[[ ! -e $dir/$2.hung ]]; then
			echo "flaky: $2: $words: $(sed -n "/^not ok $number /,/^\(not \)*ok /s/^# *//p" \
				"$dir/$2.tap" | in_a_line)" >>"$dir/flaky"
			sed -i "s/^not ok $number /ok $number /" "$dir/$2.tap"
		else
			cat "$dir/again"
		fi
	done < <(sed -n 's/^not ok \([0-9]* .*\)/\1/p' "$dir/$2.tap" | sed -E "s/$TIMING//")
	if ! grep -q '^not ok ' "$dir/$2.tap"; then
		echo 0 >"$dir/$2.status"
	fi
}

part=${PART:-$( (($#)) && echo all || echo core)}
export PART=$part
# all_suites: prints the suites of `make check-all`, one a line
all_suites() {
	local folder
	for folder in "$top"/tests/*/; do
		[[ $folder == */debian/ || $folder == */newest/ ]] || suites_of "${folder%/}"
	done
}

# counted PART: prints "TESTS SUITE" for each suite that has tests in it
counted() {
	local part=$1 suite count
	all_suites | while read -r suite; do
		filters "$suite" || continue
		count=$(count_tests "${suite%:*}" "${FILTERS[@]}")
		((count == 0)) || echo "$count $suite"
	done
}

suites=()
if (($#)); then
	for path; do
		if [[ ! -e ${path%:*} ]]; then
			echo "tests/check: no such file: ${path%:*}" >&2
			exit 2
		fi
		mapfile -t -O "${#suites[@]}" suites < <(suites_of "$path")
	done
else
	# The longest go first, in this order, then those with the most tests.
	slow=' mysql.waiting mysql.faults-strategies mysql.failover redlock.redlock redis.faults cli.docs
		zookeeper.faults zookeeper.ensemble zookeeper.zookeeper cli.recipes mysql.faults
		redis.waiting mysql.galera-strategies redis.errors conformance.oracle run.limits
		redis.redisson zookeeper.errors mysql.countdown mysql.connections run.once-per cli.program
		run.failing-calls redis.node zookeeper.partition mysql.galera redis.sentinel '
	mapfile -t suites < <(
		counted "$part" | while read -r weight suite; do
			before=${slow%%[[:space:]]"$(name_of "$suite")"[[:space:]]*}
			[[ $before == "$slow" ]] || weight=$((10000 - ${#before}))
			echo "$weight $suite"
		done | sort -nr | cut -d ' ' -f 2-)
fi

measure_exec
echo "An exec of /bin/true takes $EXEC_US us: SLOW=$SLOW"

# ticks: prints the ticks that the machine's processors have worked, for whatever program
ticks() {
	awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat
}

# idle: whether the processors were idle for a tenth of the time since the last call
idle() {
	local times time was=$IDLE since=$TOTAL
	read -ra times </proc/stat
	IDLE=$((times[4] + times[5])) TOTAL=0
	for time in "${times[@]:1:8}"; do
		((TOTAL += time))
	done
	((10 * (IDLE - was) >= TOTAL - since))
}
IDLE=0 TOTAL=0
worked=$(ticks)

while sleep 5 >/dev/null 2>&1; do
	free_hung
done &
watchdog=$!

names=()
for suite in "${suites[@]}"; do
	while ((${#running[@]} >= least)); do
		sleep 1
		for i in "${!running[@]}"; do
			if ! kill -0 "${running[i]}" 2>/dev/null; then
				unset "running[i]"
			fi
		done
		if idle && ((${#running[@]} < jobs)); then
			break
		fi
	done
	name=$(name_of "$suite")
	names+=("$name")
	suite "$suite" "$name" &
	running+=("$!")
done
wait "${running[@]}"
running=()
for suite in "${suites[@]}"; do
	name=$(name_of "$suite")
	if ((again <= 0)) || [[ $(<"$dir/$name.status") == 0 ]]; then
		continue
	elif grep -q '^not ok ' "$dir/$name.tap"; then
		once_more "$suite" "$name"
	else
		((again--))
		suite_once_more "$suite" "$name"
	fi
done
kill "$watchdog"

passed=0 failed=0 skipped=0 rootless=0
for name in "${names[@]}"; do
	count "$name"
	passed=$((passed + PASSED)) failed=$((failed + FAILED)) skipped=$((skipped + SKIPPED))
	rootless=$((rootless + ROOTLESS))
	if ((FAILED)); then
		echo
		echo "$name: $FAILED failed"
		# the failed tests, with their comments
		awk '/^(ok|1\.\.)/ { show = 0 } /^not ok/ { show = 1 } show' "$dir/$name.tap"
		grep -Ei '^ok .* # skip' "$dir/$name.tap" | grep -v '# skip needs root$'
	fi
done
echo
cat "$dir"/*.hung /dev/null
if ((skipped)); then
	echo "$skipped skipped"
fi
if ((rootless)); then
	echo "$rootless need root, and did not run"
fi
if [[ -s $dir/flaky ]]; then
	cat "$dir/flaky"
fi

# slowest WHAT: prints the ten largest of the lines "TIME NAME" of its input
slowest() {
	echo "The ten slowest $1:"
	sort -nr | head -n 10 | awk '{ printf "%8.1f s ", $1; $1 = ""; print }'
}

cat "$dir"/*.seconds | slowest suites
for name in "${names[@]}"; do
	sed -nE "s|^(not )?ok [0-9]+ (.*)$TIMING|\4 $name: \2|p" "$dir/$name.tap"
done | awk '{ $1 /= 1000 } 1' | slowest tests
worked=$((($(ticks) - worked) / $(getconf CLK_TCK)))
echo "All tests: $SECONDS s; the machine's $(nproc) processors have worked for $worked s."
if [[ $part == core ]]; then
	counted all | awk -v ran="$(counted core | awk '{ sum += $1 } END { print sum }')" '
		{ sum += $1 }
		END { print sum - ran, "more tests were left out: make check-all runs all of them." }'
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
