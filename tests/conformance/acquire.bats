# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016,SC1003 # what is quoted is for the inner shell
#
# What every backend must do for acquire, renew, verify, release, status, wait, break,
# check and setup, for the backends of the column "acquire" in the file `list`.

load ../lib/helpers
load common
# shellcheck source=tests/conformance/contents.bash
source "$TOP/tests/conformance/contents.bash"

# take [OPTION]...: acquires $LOCK; sets TOKEN, FENCE, and KEEPER (null without one)
take() {
	"$DLOCK" acquire --json "$@" "$LOCK" >taken
	read_taken
}

# read_taken: reads ./taken without jq, which takes longer to start than most tests do
read_taken() {
	local object members='"token":"([0-9a-f]{32})","fence":([0-9]+),.*"keeper_pid":([0-9]+|null)}$'
	read -r object <taken
	matches "$object" "$members" "output of acquire --json"
	TOKEN=${BASH_REMATCH[1]} FENCE=${BASH_REMATCH[2]} KEEPER=${BASH_REMATCH[3]}
}

# value KEY FILE: prints the first value of KEY in an object that dlock has printed, without jq
value() {
	local object
	read -r object <"$2"
	matches "$object" "\"$1\":([^],}]*)"
	echo "${BASH_REMATCH[1]}"
}

# take_refused ERROR CALLS [OPTION]...: as take, while the kernel refuses these system calls
take_refused() {
	"$TOOLS/refuse" "$1" "$2" "$DLOCK" acquire --json "${@:3}" "$LOCK" >taken
	read_taken
}

give() {
	"$DLOCK" release "$LOCK" "${1-$TOKEN}"
}

holds() {
	"$DLOCK" verify "$LOCK" "${1-$TOKEN}"
}

# holds_not [TOKEN]: verify says by its status that the token does not hold, and not by an error
holds_not() {
	local code=0
	"$DLOCK" verify "$LOCK" "${1-$TOKEN}" 2>verify.err || code=$?
	((code == 123))
}

# owner [COMMAND...]: starts a process to hold a lock for; sets OWNER, OWNER_OUT
owner() {
	if (($# == 0)); then
		set -- sleep 300
	fi
	start "$@"
	OWNER=$PID OWNER_OUT=$OUT
	wait_until 5 runs "$OWNER" "$1"
}

# runs PID PROGRAM: the process, which began as env, has become that program
runs() {
	proc_stat "$1" && [[ ${2##*/} == "$PROC_COMM" ]]
}

# in_line N [OPTION]...: starts an acquire that waits, and returns when it is the Nth in line
in_line() {
	local n=$1
	shift
	start "$DLOCK" acquire "$@" "$LOCK"
	wait_until 10 waiters "$n"
}

# json FILTER: applies a filter of jq to `status --json` of $LOCK
json() {
	"$DLOCK" status --json "$LOCK" >status.json || [[ $? == 1 ]]
	jq -r "$1" status.json
}

json_is() {
	[[ $(json "$1") == "$2" ]]
}

# holders N: status shows that many
holders() {
	local object without
	"$DLOCK" status --json "$LOCK" >status.json || [[ $? == 1 ]]
	read -r object <status.json
	object=${object%%\"waiters\":*}
	without=${object//\"acquired_at\":/}
	equal $(((${#object} - ${#without}) / 14)) "$1" holders
}

# ---- acquire

# bats test_tags=own
@test "acquire prints the token and nothing else; release prints nothing" {
	run --separate-stderr -0 "$DLOCK" acquire "$LOCK"
	matches "$output" '^[0-9a-f]{32}$'
	equal "$stderr" "" stderr
	TOKEN=$output
	is_held
	run --separate-stderr -0 "$DLOCK" release "$LOCK" "$TOKEN"
	equal "$output$stderr" ""
	is_free
	nothing_left
	# The output has no other bytes.
	"$DLOCK" acquire "$LOCK" >token
	equal "$(wc -c <token)" 33 bytes
	not cmp -s token <(echo "$TOKEN")
	give "$(<token)"
	nothing_left
}

# bats test_tags=program
@test "acquire that cannot print the token fails and holds nothing" {
	local shape
	for shape in '' --json; do
		run --separate-stderr -125 sh -c '"$DLOCK" acquire $0 "$LOCK" >/dev/full' "$shape"
		one_line 'cannot write the output: No space left on device$'
		wait_until 2 is_free
		nothing_left
		# The reader of the pipe is gone.
		mkfifo pipe
		run --separate-stderr -125 sh -c 'exec 7<>pipe >pipe 7>&- && exec "$DLOCK" acquire $0 "$LOCK"' "$shape"
		one_line 'cannot write the output: Broken pipe$'
		wait_until 2 is_free
		nothing_left
		rm pipe
	done
}

# bats test_tags=program
@test "acquire without a standard output that can be written to takes nothing" {
	hold --
	for closed in '>&-' '1</dev/null'; do
		# acquire fails before it waits for its turn.
		timed sh -c 'exec "$DLOCK" acquire "$LOCK" '"$closed"
		equal "$status" 125
		took "$MS" 0 3000
		one_line 'standard output is closed'
	done
	release
	nothing_left
}

@test "acquire -n gives up at once and reports who has it" {
	owner
	take --pid "$OWNER"
	timed "$DLOCK" acquire -n "$LOCK"
	equal "$status" 124
	took "$MS" 0 1500
	equal "$output" ""
	one_line "^dlock: $LOCK: held by $(uname -n) pid $OWNER \($(id -un)\) for [0-9.]+[a-z0-9]*"
	run --separate-stderr -124 "$DLOCK" acquire -n -q "$LOCK"
	equal "$output$stderr" ""
	local code
	for code in 7 0 255; do
		run --separate-stderr "-$code" "$DLOCK" acquire -n -E $code "$LOCK"
		equal "$output" ""
	done
	give
	nothing_left
}

@test "acquire -w waits that long, and gets the lock when it is released" {
	take
	timed "$DLOCK" acquire -w 2s "$LOCK"
	equal "$status" 124
	took "$MS" 1990 3300
	one_line 'held by'
	equal "$output" ""
	waiters 0
	in_line 1 -w 60s
	local waiter=$PID out=$OUT err=$ERR
	holds_for 300 alive "$waiter"
	give
	join "$waiter" 5
	equal "$status" 0
	equal "$(<"$err")" "" stderr
	matches "$(<"$out")" '^[0-9a-f]{32}$'
	holds "$(<"$out")"
	give "$(<"$out")"
	nothing_left
}

@test "acquire: waiters get it one after the other, in order where the backend promises it" {
	take
	local n=0 file pid=()
	for n in 1 2 3 4; do
		in_line "$n"
		pid[n]=$PID
		ln -s "$OUT" "waiter.$n"
	done
	give
	for n in 1 2 3 4; do
		wait_until 5 one_new_token
		[[ -z $FIFO ]] || equal "$NEW" "waiter.$n" "turn $n"
		touch "$NEW.done"
		holds "$(<"$NEW")"
		give "$(<"$NEW")"
	done
	wait_until 5 ended "${pid[@]}"
	nothing_left
}

# one_new_token: one waiter, and no other, has printed a token that was not given back
one_new_token() {
	local file count=0
	for file in waiter.?; do
		if [[ -s $file && ! -e $file.done ]]; then
			NEW=$file
			((++count))
		fi
	done
	((count == 1))
}

# bats test_tags=more
@test "TERM, INT and HUP end a waiting acquire at once and leave no waiter" {
	take
	local sig
	for sig in TERM:143 INT:130 HUP:129; do
		in_line 1
		kill "-${sig%:*}" "$PID"
		join "$PID" 2
		equal "$status $(<"$OUT")" "${sig#*:} " "after ${sig%:*}"
		wait_until 1 waiters 0
	done
	give
	nothing_left
}

@test "kill -9 of a waiting acquire leaves nothing in the queue" {
	take
	# The session of the killed process must end before the test gives up.
	in_line 1 -w 60s -t 2s
	local dead=$PID family
	family=$(tree "$dead")
	kill -KILL "$dead"
	# shellcheck disable=SC2086 # words
	wait_until 5 ended "$dead" $family
	in_line 1
	local next=$PID out=$OUT
	give
	join "$next" 3
	equal "$status" 0
	give "$(<"$out")"
	nothing_left
}

# bats test_tags=own
@test "acquire --json: name, token, fence, end of the lease, keeper" {
	take -t 20s
	local least=1600000000000000
	if [[ -n ${TRANSACTION_FENCES-} ]]; then
		least=0
	fi
	jq -e --arg name "$LOCK" --argjson least "$least" '
		(keys == ["expires_at", "expires_in_ms", "fence", "keeper_pid", "name", "token"]) and
		.name == $name and (.token | test("^[0-9a-f]{32}$")) and .fence > $least and
		.expires_in_ms > 10000 and .expires_in_ms <= 20000 and
		((.expires_at[0:19] + "Z" | fromdate) - now | . > 5 and . < 25)' taken
	equal "$(wc -l <taken)" 1 lines
	json_is .fence "$FENCE"
	give
	owner
	take --pid "$OWNER"
	# A hold that lasts until it is released has no end.
	jq -e '.expires_in_ms == null and .expires_at == null and .keeper_pid > 1' taken
	give
	nothing_left
}

@test "fences grow from one acquire to the next" {
	local last=0 n
	for n in 1 2 3; do
		take
		((FENCE > last)) || fail "$FENCE after $last"
		last=$FENCE
		give
	done
	run -0 "$DLOCK" run "$LOCK" -- printenv DLOCK_FENCE
	((output > last)) || fail "$output after $last"
}

# bats test_tags=program
@test "acquire: usage errors take nothing" {
	local args
	for args in '' "$LOCK x" "$LOCK -- true" "--slots 0 $LOCK" "--slots x $LOCK" "-s --slots 2 $LOCK" \
		"-t 10ms $LOCK" "-w x $LOCK" "-E 256 $LOCK" "--pid 0 $LOCK" "--pid -1 $LOCK" "--pid x $LOCK" \
		"--pid 99999999999 $LOCK" "--on-lost no $LOCK" "--min-hold x $LOCK" "--no-renew $LOCK"; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" acquire $args
		one_line
		equal "$output" "" "stdout of: $args"
	done
	is_free
}

# bats test_tags=deeper
@test "odd names: acquire, verify, status, wait, break and release mean the same lock" {
	local name names slashes
	printf -v slashes '%200s' ''
	names=(' a/b' .. '{%s}*' 'Ünï🔒"\' "${slashes// //}")
	[[ -z $(long_or all '') ]] || names+=(a/b ' a' %s '{a}' 'a"b\' '*' "$LOCK.lock")
	for name in "${names[@]}"; do
		if ! offers names && ((${#name} > 64)); then
			refuses names
			continue
		fi
		TOKEN=$("$DLOCK" acquire -- "$name" 2>/dev/null || "$DLOCK" acquire "$name")
		"$DLOCK" verify "$name" "$TOKEN"
		run --separate-stderr -1 "$DLOCK" status --json "$name"
		"$DLOCK" status --json >all
		equal "$(NAME=$name jq -c 'select(.name == env.NAME) | .held' <(echo "$output") all | xargs)" \
			"true true" "alone and listed: $name"
		run -124 "$DLOCK" wait -w 0 "$name"
		"$DLOCK" release "$name" "$TOKEN"
		"$DLOCK" wait -w 0 "$name"
	done
}

# ---- the token

# with WAY VERB TOKEN [OPTION]...: runs `dlock VERB $LOCK`, and gives the token in this way
with() {
	local way=$1 verb=$2 token=$3
	shift 3
	case $way in
	argument) "$DLOCK" "$verb" "$@" "$LOCK" "$token" ;;
	environment) DLOCK_TOKEN=$token "$DLOCK" "$verb" "$@" "$LOCK" ;;
	stdin) echo "$token" | "$DLOCK" "$verb" "$@" "$LOCK" - ;;
	crlf) printf '%s\r\n' "$token" | "$DLOCK" "$verb" "$@" "$LOCK" - ;;
	open) printf %s "$token" | "$DLOCK" "$verb" "$@" "$LOCK" - ;;
	esac
}

WAYS='argument environment stdin crlf open'

# bats test_tags=program
@test "renew, verify and release take the token as argument, from the environment and from stdin" {
	local way verb
	for way in $WAYS; do
		take
		for verb in verify renew release; do
			run --separate-stderr with "$way" "$verb" "$TOKEN"
			equal "$status $output$stderr" "0 " "$verb, token as $way"
		done
		run --separate-stderr with "$way" release "$TOKEN"
		equal "$status $output" "123 " "a second release, token as $way"
		is_free
	done
	# the argument beats the environment
	take
	DLOCK_TOKEN=0123456789abcdef0123456789abcdef "$DLOCK" verify "$LOCK" "$TOKEN"
	give
	nothing_left
}

# bats test_tags=own
@test "a token that is not the holder's: 123, one line, and the holder keeps the lock" {
	local verb old
	take
	old=$TOKEN
	give
	for verb in verify renew release; do
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" "$old"
		one_line "$LOCK"
		equal "$output" ""
	done
	backend_nothing_left
	take
	for verb in verify renew release; do
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" "$old"
		one_line "$LOCK"
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" 0123456789abcdef0123456789abcdef
		# This one holds another lock.
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK-other" "$TOKEN"
	done
	# The first half is right, which the name of a socket or a record may show.
	run --separate-stderr -123 "$DLOCK" release "$LOCK" "${TOKEN:0:16}0123456789abcdef"
	run --separate-stderr -123 "$DLOCK" verify "$LOCK" "${TOKEN:0:16}0123456789abcdef"
	holds
	is_held
	give
	nothing_left
}

@test "half of the right token releases nothing, also where a keeper holds" {
	owner
	take --pid "$OWNER"
	local verb
	for verb in verify renew release; do
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" "${TOKEN:0:16}0123456789abcdef"
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK-other" "$TOKEN"
	done
	holds_for 300 holds
	alive "$KEEPER"
	give
	nothing_left
}

# bats test_tags=program
@test "a malformed token: 125, and it is not repeated" {
	# A slow machine takes longer than 30 s for all these commands.
	take -t 10m
	local verb bad way ways=(argument environment stdin)
	for verb in verify renew release; do
		# each way with one of them
		way=${ways[0]} ways=("${ways[@]:1}")
		for bad in Sesame8 "${TOKEN}0" "${TOKEN:1}" " $TOKEN" "${TOKEN:0:31}g" "$TOKEN+" "$TOKEN+0" \
			"$TOKEN+01" "$TOKEN+1000000" "$TOKEN+18446744073709551617" "$TOKEN+1+1" "$TOKEN+-1"; do
			run --separate-stderr -125 with "$way" "$verb" "$bad"
			one_line token
			[[ $stderr != *"$bad"* && $stderr != *"${TOKEN:1:30}"* ]] || fail "shows the token"
		done
		run --separate-stderr -125 "$DLOCK" "$verb" "$LOCK" </dev/null
		one_line token
		run --separate-stderr -125 "$DLOCK" "$verb" "$LOCK" - </dev/null
		one_line token
		run --separate-stderr -125 "$DLOCK" "$verb" "$LOCK" ''
		run --separate-stderr -125 "$DLOCK" "$verb"
		run --separate-stderr -125 "$DLOCK" "$verb" "$LOCK" "$TOKEN" more
		for way in "-- $TOKEN" "more $TOKEN"; do
			# shellcheck disable=SC2086 # words
			run --separate-stderr -125 "$DLOCK" "$verb" "$LOCK" $way
			[[ $stderr != *"$TOKEN"* ]] || fail "shows the token"
		done
	done
	run --separate-stderr -125 "$DLOCK" acquire "$LOCK" "$TOKEN"
	[[ $stderr != *"$TOKEN"* ]] || fail "shows the token"
	holds
	give
}

# bats test_tags=program
@test "the token shows in no argument list" {
	owner
	take --pid "$OWNER"
	kill -STOP "$KEEPER"
	local verb pids=() pid
	for verb in verify renew; do
		# The server gives no answer, so that there is time to look at the argument list.
		start "$DLOCK" "$verb" "$LOCK" "$TOKEN"
		pids+=("$PID")
		wait_until 5 has_line "/proc/$PID/cmdline" '\*\*\*\*'
		has_line "/proc/$PID/cmdline" "$LOCK"
	done
	for pid in "${pids[@]}" "$KEEPER" $(strays); do
		if grep -aqs "$TOKEN" "/proc/$pid/cmdline"; then
			fail "process $pid shows it"
		fi
	done
	kill -CONT "$KEEPER"
	for pid in "${pids[@]}"; do
		join "$pid" 10
		equal "$status" 0
	done
	give
}

# bats test_tags=program
@test "the token shows in no message, status, list or log" {
	start "$DLOCK" acquire -v "$LOCK"
	join "$PID"
	TOKEN=$(<"$OUT")
	cp "$ERR" words
	{
		"$DLOCK" verify -v "$LOCK" "$TOKEN"
		"$DLOCK" renew -v "$LOCK" "$TOKEN"
		"$DLOCK" renew --json "$LOCK" "$TOKEN"
		not "$DLOCK" acquire -v -n "$LOCK"
		not "$DLOCK" run -v -n "$LOCK" -- true
		not "$DLOCK" status -v "$LOCK"
		not "$DLOCK" status --json "$LOCK"
		"$DLOCK" status -v
		"$DLOCK" status --json
		not "$DLOCK" wait -v -w 0 "$LOCK"
		"$DLOCK" check -v || true
		"$DLOCK" check --json || true
		"$DLOCK" setup -v
		DLOCK_NAME=$LOCK DLOCK_TOKEN=$TOKEN "$DLOCK" acquire -v "$LOCK" | grep -vx "$TOKEN+1" || true
		"$DLOCK" release -v "$LOCK" "$TOKEN+1"
		"$DLOCK" release -v "$LOCK" "$TOKEN"
		"$DLOCK" break -v --yes "$LOCK"
		not "$DLOCK" verify -v "$LOCK" "$TOKEN"
		not "$DLOCK" renew -v "$LOCK" "$TOKEN"
		not "$DLOCK" release -v "$LOCK" "$TOKEN"
	} >>words 2>&1
	between "$(wc -l <words)" 15 200 "lines of output"
	not has_line words "$TOKEN"
	# The part of the token that files may show to others does not prove a hold.
	not grep -rqs "$TOKEN" "$LOCKS"
	wait_until 5 no_strays
}

# ---- the lease

# bats test_tags=own
@test "without --pid the lease ends after the TTL, not before" {
	take -t 8s
	holds_for 1200 is_held
	wait_until 15 is_free
	holds_not
	run --separate-stderr -123 give
	run --separate-stderr -123 "$DLOCK" renew "$LOCK" "$TOKEN"
	nothing_left
	wait_until 2 no_strays
	no_socket "$TOKEN"
}

@test "without --pid no process stays where the backend stores leases" {
	take
	if [[ -n $LEASES && -z ${SESSION-} ]]; then
		wait_until 2 no_strays
		equal "$KEEPER" null keeper_pid
		no_socket "$TOKEN"
	else
		runs "$KEEPER" dlock-keeper
		equal "$(strays)" "$KEEPER"
	fi
	is_held
	give
	nothing_left
	wait_until 2 no_strays
	no_socket "$TOKEN"
}

# bats test_tags=own
@test "renew extends the lease to a full TTL" {
	take -t 3s
	for _ in 1 2 3 4 5 6; do
		holds_for 800 holds
		"$DLOCK" renew -t 3s "$LOCK" "$TOKEN"
	done
	is_held
	# It is not extended beyond that.
	wait_until 6 is_free
	holds_not
}

# bats test_tags=more
@test "renew -t gives a lease of another length, and --json says when it ends" {
	take -t 3s
	"$DLOCK" renew --json -t 40s "$LOCK" "$TOKEN" >renewed
	jq -e --arg name "$LOCK" '
		(keys == ["expires_at", "expires_in_ms", "name"]) and .name == $name and
		.expires_in_ms > 30000 and .expires_in_ms <= 40000 and
		((.expires_at[0:19] + "Z" | fromdate) - now | . > 25 and . < 45)' renewed
	holds_for 4000 is_held
	"$DLOCK" renew -t 1s "$LOCK" "$TOKEN"
	wait_until 4 is_free
}

# bats test_tags=more
@test "the longest TTL there can be: it is held, and excludes" {
	local hours=${LONGEST_HOURS-87600} start
	take -t "${hours}h"
	run -124 "$DLOCK" acquire -n "$LOCK"
	run -124 "$DLOCK" run -t "${hours}h" -w 1s "$LOCK" -- touch ran
	now
	start=$NOW
	"$DLOCK" renew -t "${hours}h" "$LOCK" "$TOKEN"
	holds
	is_held
	now
	lasts $((hours * 3600 - 2 - (NOW - start) / 1000)) $((hours * 3600))
	give
	run -1 "$DLOCK" run -t "${hours}h" "$LOCK" -- "$DLOCK" status "$LOCK"
	nothing_left
}

# lasts LEAST MOST [FILE]: the lease ends in that many seconds from now, as status or FILE says
lasts() {
	if (($# > 2)); then
		between "$(value expires_in_ms "$3")" "$(($1 * 1000))" "$(($2 * 1000))" "expires_in_ms in $3"
	else
		"$DLOCK" status --json "$LOCK" >status.json || [[ $? == 1 ]]
		between "$(value expires_in_ms status.json)" "$(($1 * 1000))" "$(($2 * 1000))" expires_in_ms
	fi
}

# bats test_tags=program,more
@test "the environment's TTL is that of acquire; renew keeps what a hold was taken with" {
	DLOCK_TTL=100s take
	lasts 80 100
	DLOCK_TTL=300s "$DLOCK" renew "$LOCK" "$TOKEN"
	lasts 80 100
	DLOCK_TTL=2s "$DLOCK" renew "$LOCK" "$TOKEN"
	lasts 80 100
	give
}

# bats test_tags=own
@test "renew without -t keeps the TTL of the hold, longer or shorter than the default; -t changes it" {
	local mode
	for mode in '' -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		take -t 100s $mode
		"$DLOCK" renew --json "$LOCK" "$TOKEN" >renewed
		lasts 80 100 renewed
		lasts 80 100
		"$DLOCK" renew -t 300s --json "$LOCK" "$TOKEN" >renewed
		lasts 280 300 renewed
		"$DLOCK" renew --json "$LOCK" "$TOKEN" >renewed
		lasts 280 300 renewed
		lasts 280 300
		"$DLOCK" renew -t 20s "$LOCK" "$TOKEN"
		"$DLOCK" renew --json "$LOCK" "$TOKEN" >renewed
		lasts 1 20 renewed
		lasts 1 20
		give
	done
	nothing_left
}

# bats test_tags=program,more
@test "a nested acquisition shortens no lease: it keeps the TTL of the hold, or makes it longer" {
	local mode
	for mode in '' -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		take -t 100s $mode
		# shellcheck disable=SC2086 # words
		DLOCK_TTL=5s DLOCK_TOKEN=$TOKEN "$DLOCK" acquire --json $mode "$LOCK" >nested
		equal "$(jq -r .token nested)" "$TOKEN+1" token
		equal "$(jq .fence nested)" "$FENCE" fence
		lasts 80 100 nested
		lasts 80 100
		# shellcheck disable=SC2086 # words
		DLOCK_TOKEN=$TOKEN+1 "$DLOCK" acquire -t 5s $mode "$LOCK" >token
		equal "$(<token)" "$TOKEN+2" token
		lasts 80 100
		# shellcheck disable=SC2086 # words
		DLOCK_TOKEN=$TOKEN "$DLOCK" acquire -t 300s --json $mode "$LOCK" >nested
		lasts 280 300 nested
		lasts 280 300
		# That TTL is the hold's own from now on.
		"$DLOCK" renew "$LOCK" "$TOKEN+1"
		lasts 280 300
		# The release of a level does not shorten the lease either.
		give "$TOKEN+1"
		lasts 270 300
		# A renewal by a level does what it is asked for, as one by the plain token.
		"$DLOCK" renew -t 50s "$LOCK" "$TOKEN+2"
		lasts 30 50
		give
	done
	nothing_left
}

# bats test_tags=more
@test "status says when a lease ends" {
	take -t 30s
	between "$(json '.holders[0].expires_in_ms')" 20000 30000 expires_in_ms
	give
}

# ---- who may use a token

# bats test_tags=program
@test "any process with the token may renew and release: another shell, session, environment" {
	local b=$URI t
	take
	(cd / && env -i "$DLOCK" verify -b "$b" "$LOCK" "$TOKEN")
	env -i setsid -w "$DLOCK" renew -b "$b" "$LOCK" "$TOKEN"
	echo "$TOKEN" | env -i dash -c '"$0" release -b "$1" "$2" -' "$DLOCK" "$b" "$LOCK"
	is_free
	t=$(env -i bash -c '"$0" acquire -b "$1" "$2"' "$DLOCK" "$b" "$LOCK")
	holds "$t"
	give "$t"
	owner
	take --pid "$OWNER"
	env -i "$DLOCK" verify -b "$b" "$LOCK" "$TOKEN"
	env -i "$DLOCK" renew -b "$b" "$LOCK" "$TOKEN"
	env -i "$DLOCK" release -b "$b" "$LOCK" "$TOKEN"
	is_free
	alive "$OWNER"
	nothing_left
}

# ---- nested

# nested [LEVEL]: acquires inside the hold of $TOKEN, with its token at that level
nested() {
	DLOCK_NAME=$LOCK DLOCK_TOKEN=$TOKEN${1-} timeout 10 "$DLOCK" acquire -w 5s "$LOCK"
}

# nests: nested acquisitions count nothing; only the plain token frees the lock
nests() {
	local level verb
	equal "$(nested)" "$TOKEN+1" "a nested token"
	equal "$(nested)" "$TOKEN+1" "another one, as deep"
	equal "$(nested +1)" "$TOKEN+2" "one inside it"
	equal "$(nested +41)" "$TOKEN+42"
	equal "$(nested +999998)" "$TOKEN+999999" "the last level"
	run --separate-stderr -125 nested +999999
	equal "$output" ""
	one_line 'highest level, 999999'
	holders 1
	json_is '.holders[0] | has("count")' false
	json_is '.holders[0].fence' "$FENCE"
	for level in +1 +2 +7 +999999; do
		for verb in verify renew release release; do
			run --separate-stderr -0 "$DLOCK" "$verb" "$LOCK" "$TOKEN$level"
			equal "$output$stderr" ""
		done
	done
	"$DLOCK" release "$LOCK" - <<<"$TOKEN+1"
	DLOCK_TOKEN=$TOKEN+1 "$DLOCK" release "$LOCK"
	holds
	is_held
	give
	is_free
	for verb in verify renew release; do
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" "$TOKEN"
		run --separate-stderr -123 "$DLOCK" "$verb" "$LOCK" "$TOKEN+1"
		one_line 'does not hold the lock'
	done
	run --separate-stderr -123 nested +1
	equal "$output" ""
	one_line 'has ended; unset DLOCK_TOKEN to begin again$'
	nothing_left
}

# bats test_tags=program
@test "acquire with the token of a hold prints the next level, whose release only verifies" {
	take
	nests
}

# bats test_tags=program,more
@test "acquire --pid: the same, and the release of the plain token ends the keeper" {
	owner
	take --pid "$OWNER"
	nests
	wait_until 2 ended "$KEEPER"
	alive "$OWNER"
}

# bats test_tags=program,more
@test "the token of a current hold is enough to nest, wherever the backend is named" {
	take
	local first=$TOKEN t
	t=$(env -u DLOCK_BACKEND DLOCK_TOKEN="$first" timeout 10 "$DLOCK" acquire -n -b "$URI" "$LOCK") ||
		fail "not with -b"
	equal "$t" "$first+1" "token, with -b"
	printf 'backend = here\n[here]\nuri = %s\n' "$URI" >"$XDG_CONFIG_HOME/dlock.conf"
	t=$(env -u DLOCK_BACKEND DLOCK_TOKEN="$t" timeout 10 "$DLOCK" acquire -n "$LOCK") ||
		fail "not with a configuration file"
	equal "$t" "$first+2" "token, with a configuration file"
	t=$(DLOCK_BACKEND=here DLOCK_TOKEN=$t timeout 10 "$DLOCK" acquire -n "$LOCK") ||
		fail "not with a named backend"
	equal "$t" "$first+3" "token, with a named backend"
	give
	nothing_left
}

# bats test_tags=program,more
@test "nested, --pid: the end of the process frees the lock, however often it was acquired" {
	owner
	take --pid "$OWNER"
	nested
	kill -KILL "$OWNER"
	wait_until 2 is_free
	wait_until 2 ended "$KEEPER"
	nothing_left
}

# bats test_tags=more
@test "acquire nested, in every mode with the token of a hold of every mode" {
	local held asked
	for held in '' -s '--slots 1' '--slots 3' '--slots 5'; do
		offers "$held" || { refuses "$held"; continue; }
		# shellcheck disable=SC2086 # words
		take $held
		for asked in '' -s '--slots 1' '--slots 3' '--slots 5'; do
			# shellcheck disable=SC2086 # words
			run --separate-stderr env DLOCK_TOKEN="$TOKEN" timeout 10 "$DLOCK" acquire -w 5s $asked "$LOCK"
			if [[ -z $held || $asked == "$held" ]]; then
				equal "$status $output$stderr" "0 $TOKEN+1" "acquire $asked with $held"
				give "$TOKEN+1"
			else
				equal "$status $output" "125 " "acquire $asked with $held"
				one_line "$LOCK"
			fi
			if [[ $held != "$asked" && $held$asked == *slots*slots* ]]; then
				one_line "with $held, which does not cover $asked: "
			fi
			holders 1
		done
		give
	done
	nothing_left
}

# bats test_tags=more
@test "what is nested in a hold has its fence, also beside other holds" {
	local mode other
	for mode in -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		other=$("$DLOCK" acquire $mode "$LOCK")
		# shellcheck disable=SC2086 # words
		take $mode
		# shellcheck disable=SC2086 # words
		equal "$(DLOCK_TOKEN=$TOKEN "$DLOCK" acquire --json $mode "$LOCK" | jq .fence)" "$FENCE" fence
		# shellcheck disable=SC2086 # words
		equal "$(DLOCK_TOKEN=$TOKEN "$DLOCK" run $mode "$LOCK" -- printenv DLOCK_FENCE)" "$FENCE" fence
		give
		give "$other"
	done
	nothing_left
}

@test "acquire inside run: no release frees the lock of the run; run does so in the end" {
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -- bash -c '
		token=$("$DLOCK" acquire "$LOCK")
		[ "$token" = "$DLOCK_TOKEN+1" ] || exit 1
		"$DLOCK" verify "$LOCK" || exit 2
		"$DLOCK" release "$LOCK" "$token" || exit 3
		"$DLOCK" release "$LOCK" "$("$DLOCK" acquire "$LOCK")" || exit 4
		"$DLOCK" verify "$LOCK" "$token" || exit 5
		DLOCK_TOKEN=$token "$DLOCK" run "$LOCK" -- true || exit 6
		"$DLOCK" release "$LOCK" 2>err
		[ $? = 123 ] || exit 7
		env -i "$DLOCK" run -q -b "$DLOCK_BACKEND" -n -E 9 "$LOCK" -- true
		[ $? = 9 ] || exit 8
		"$DLOCK" acquire --json "$LOCK" | grep -qF "\"fence\":$DLOCK_FENCE," || exit 9'
	equal "$stderr" ""
	has_line err 'end that command'
	is_free
	nothing_left
}

# bats test_tags=program,more
@test "a nested acquisition that cannot print its token leaves the outer hold alone" {
	take
	DLOCK_TOKEN=$TOKEN run --separate-stderr -125 sh -c '"$DLOCK" acquire "$LOCK" >/dev/full'
	one_line 'cannot write the output'
	holds
	give
	nothing_left
}

# ended_hold TOKEN [NAME]...: with the token of a hold of $LOCK that has ended, nothing is acquired or run,
# whatever the environment says; DLOCK_NAME is each NAME, and then that of the lock
ended_hold() {
	local token=$1 name
	for name in "${@:2}" "$LOCK"; do
		run --separate-stderr -123 env DLOCK_NAME="$name" DLOCK_TOKEN="$token" \
			timeout 10 "$DLOCK" acquire -n "$LOCK"
		equal "$output" "" "stdout of acquire, with DLOCK_NAME=$name"
		one_line "^dlock: $LOCK: the hold of DLOCK_TOKEN has ended; unset DLOCK_TOKEN to begin again\$"
		run --separate-stderr -123 env DLOCK_NAME="$name" DLOCK_TOKEN="$token" \
			timeout 10 "$DLOCK" run -n --if-down run "$LOCK" -- touch ran
		one_line "^dlock: $LOCK: the hold of DLOCK_TOKEN has ended; unset DLOCK_TOKEN to begin again\$"
	done
	[[ ! -e ran ]]
}

@test "the token of a hold that has ended acquires nothing: 123, for run and for acquire" {
	local mode token
	# released
	for mode in '' -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		take $mode
		give
		ended_hold "$TOKEN"
	done
	ended_hold "$TOKEN" '' "$LOCK-b"
	# expired
	take -t 1s
	wait_until 15 is_free
	ended_hold "$TOKEN"
	token=$TOKEN
	# a run's
	ended_hold "$("$DLOCK" run "$LOCK" -- printenv DLOCK_TOKEN)"
	is_free
	# The lock is somebody else's by now.
	take
	ended_hold "$token"
	holds
	give
	nothing_left
}

# bats test_tags=program
@test "the token of another lock is ignored; a malformed one is refused, an empty one is none" {
	local token name
	token=$("$DLOCK" acquire "$LOCK-b")
	for name in '' "$LOCK" "$LOCK-b"; do
		export DLOCK_NAME=$name
		run --separate-stderr -0 env DLOCK_TOKEN="$token" timeout 10 "$DLOCK" run -n "$LOCK" -- echo ran
		equal "$output$stderr" ran
		TOKEN=$(DLOCK_TOKEN=$token timeout 10 "$DLOCK" acquire -n "$LOCK")
		[[ $TOKEN != "$token" ]]
		run -124 env DLOCK_TOKEN="$token" timeout 10 "$DLOCK" run -n "$LOCK" -- touch never
		give
		run --separate-stderr -125 env DLOCK_TOKEN="${token^^}" "$DLOCK" run -n "$LOCK" -- touch never
		one_line "DLOCK_TOKEN: this is no token"
		run --separate-stderr -125 env DLOCK_TOKEN="$token+0" "$DLOCK" run -n "$LOCK" -- touch never
		one_line "DLOCK_TOKEN: this is no token"
		run --separate-stderr -125 env DLOCK_TOKEN=rubbish "$DLOCK" acquire -n "$LOCK"
		equal "$output" ""
		one_line "DLOCK_TOKEN: this is no token"
		TOKEN=$(DLOCK_TOKEN=$token+1 timeout 10 "$DLOCK" acquire -n "$LOCK")
		[[ $TOKEN != "$token"* && $TOKEN != *+* ]]
		give
		DLOCK_TOKEN='' "$DLOCK" run -n "$LOCK" -- true
		is_free
	done
	[[ ! -e never ]]
	"$DLOCK" release "$LOCK-b" "$token"
	nothing_left
}

# ---- a run under a hold

# nest [OPTION]... -- [COMMAND...]: as `hold`, inside the hold of $TOKEN, which is all it is told
nest() {
	DLOCK_TOKEN=$TOKEN hold "$@"
}

@test "run under acquire: the hold is renewed for as long as the command runs, and stays" {
	local named
	take -t 4s
	for named in '' "$LOCK"; do
		DLOCK_NAME=$named nest -- sleep 6
		contend "$COMMAND"
		join "$HOLDER"
		equal "$status" 0 "status ($(<"$HOLDER_ERR"))"
		holds
		alive "$CONTENDER"
		kill -TERM "$CONTENDER"
		join "$CONTENDER"
	done
	contend
	give
	met_nobody
	nothing_left
	wait_until 5 no_strays
}

# bats test_tags=program
@test "run under acquire --pid: the hold is renewed for as long as the command runs, and stays" {
	owner
	take -t 3s --pid "$OWNER"
	nest -- sleep 5
	contend "$COMMAND"
	join "$HOLDER"
	equal "$status" 0 "status ($(<"$HOLDER_ERR"))"
	holds_for 3500 holds
	alive "$CONTENDER" "$KEEPER"
	give
	met_nobody
	nothing_left
}

# bats test_tags=program
@test "run under acquire: the token is enough; the command sees the hold" {
	local seen
	take
	seen=$(DLOCK_TOKEN=$TOKEN timeout 10 "$DLOCK" run "$LOCK" -- \
		sh -c 'echo "$DLOCK_NAME $DLOCK_TOKEN $DLOCK_FENCE $DLOCK_BACKEND"')
	equal "$seen" "$LOCK $TOKEN $FENCE $URI"
	# A level stays one, so that a release in the command frees nothing.
	seen=$(DLOCK_TOKEN=$TOKEN+3 timeout 10 "$DLOCK" run "$LOCK" -- \
		sh -c '"$DLOCK" release "$LOCK" && echo "$DLOCK_NAME $DLOCK_TOKEN $DLOCK_FENCE $DLOCK_BACKEND"')
	equal "$seen" "$LOCK $TOKEN+3 $FENCE $URI"
	# Inside that command is a run of another lock, and inside that one a run of this lock.
	seen=$(DLOCK_TOKEN=$TOKEN timeout 10 "$DLOCK" run "$LOCK-b" -- "$DLOCK" run "$LOCK" -- \
		"$DLOCK" run "$LOCK-b" -- "$DLOCK" run "$LOCK" -- sh -c 'echo "$DLOCK_NAME $DLOCK_TOKEN"')
	equal "$seen" "$LOCK $TOKEN"
	run -7 env DLOCK_TOKEN="$TOKEN" timeout 10 "$DLOCK" run "$LOCK" -- sh -c 'exit 7'
	run -127 env DLOCK_TOKEN="$TOKEN" timeout 10 "$DLOCK" run "$LOCK" -- /no/such/program
	holds
	give
	# A run of another lock around all of it: its name and its fence are of no concern.
	seen=$(timeout 10 "$DLOCK" run "$LOCK-b" -- bash -c '
		DLOCK_TOKEN=$("$DLOCK" acquire --json "$0" | tee taken | jq -r .token)
		export DLOCK_TOKEN
		timeout 10 "$DLOCK" run -n "$0" -- sh -c '\''echo "$DLOCK_NAME $DLOCK_TOKEN $DLOCK_FENCE"'\''
		"$DLOCK" release "$0"' "$LOCK")
	equal "$seen" "$LOCK $(jq -r '"\(.token) \(.fence)"' taken)" "under run $LOCK-b"
	nothing_left
	wait_until 5 no_strays
}

@test "run under acquire, shared or in a slot: as it is held, and nothing else" {
	local mode
	for mode in -s '--slots 2'; do
		offers "$mode" || { refuses "$mode"; continue; }
		# shellcheck disable=SC2086 # words
		take $mode
		# shellcheck disable=SC2086 # words
		run -0 env DLOCK_TOKEN="$TOKEN" timeout 10 "$DLOCK" run $mode "$LOCK" -- true
		run --separate-stderr -125 env DLOCK_TOKEN="$TOKEN" timeout 10 "$DLOCK" run "$LOCK" -- touch ran
		one_line "$LOCK"
		[[ ! -e ran ]]
		holds
		give
	done
	nothing_left
}

# stopped_by COMMAND...: COMMAND takes the lock away from a hold while a run is nested in it
stopped_by() {
	local held=$TOKEN
	nest -k 300ms -- "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	TOKEN=$held
	"$@"
	# The run asks every third of the TTL. A daemon, a server and the command take time, too.
	join "$HOLDER" 6
	equal "$status" 123
	has_line "$HOLDER_ERR" "^dlock: $LOCK: lock lost"
	has_line log ' TERM$'
	ended "$COMMAND"
	rm log
}

@test "run under acquire: a release or a break ends the command with 123" {
	take -t 3s
	stopped_by give
	take -t 3s
	stopped_by "$DLOCK" break --yes "$LOCK"
	owner
	take -t 3s --pid "$OWNER"
	stopped_by give
	take -t 3s --pid "$OWNER"
	stopped_by "$DLOCK" break --yes "$LOCK"
	is_free
	# The daemon has sent TERM to the process that it held for.
	wait_until 12 no_strays
	nothing_left
}

# survives COMMAND...: COMMAND does something to the processes of a hold and of a run in it,
# after which nobody else gets the lock as long as what runs is alive. KEEPER: of the hold;
# NESTED: of the run; MODE: options for it. Sets STATUS of the run.
survives() {
	local held
	owner
	# shellcheck disable=SC2086 # words
	take -t 2s ${MODE-} --pid "$OWNER"
	held=$TOKEN
	# shellcheck disable=SC2086 # words
	nest ${MODE-} -k 2s -- env --ignore-signal=TERM sleep 4
	child "$HOLDER" dlock-keeper
	NESTED=$CHILD
	CONTEND_WITH=${MODE-} contend "$COMMAND"
	TOKEN=$held
	"$@"
	join "$HOLDER"
	matches "$status" '^(0|123)$' "status ($(<"$HOLDER_ERR"))"
	STATUS=$status
	kill -CONT "$KEEPER" 2>/dev/null || ended "$KEEPER"
	kill -TERM "$OWNER" 2>/dev/null || ended "$OWNER"
	met_nobody 12
	nothing_left
	wait_until 5 no_strays
}

# bats test_tags=program
@test "run under acquire: its daemon is killed" {
	survives eval 'kill -KILL "$KEEPER"'
	if offers slots; then
		MODE='--slots 1' survives eval 'kill -KILL "$KEEPER"'
	fi
	# A lease stands without its daemon.
	if [[ -n $LEASES && -z ${SESSION-} ]]; then
		equal "$STATUS" 0
	else
		equal "$STATUS" 123
	fi
}

# bats test_tags=program,more
@test "run under acquire: its daemon is stopped" {
	survives eval 'kill -STOP "$KEEPER"'
	# The run renews a lease itself; a lock file stays locked while its daemon sleeps.
	if [[ $BACKEND == file || (-n $LEASES && -z ${SESSION-}) ]]; then
		equal "$STATUS" 0
	else
		equal "$STATUS" 123
	fi
}

# bats test_tags=program
@test "run under acquire: the run's own keeper is killed" {
	survives eval 'kill -KILL "$NESTED"'
}

# bats test_tags=program,more
@test "run under acquire: the run's own keeper and the hold's daemon are killed" {
	survives eval 'kill -KILL "$NESTED" "$KEEPER"'
}

# bats test_tags=program,more
@test "run under acquire: the process of --pid is killed; the lock is held until the run ends" {
	survives eval 'kill -KILL "$OWNER"'
	equal "$STATUS" 0
}

# bats test_tags=program,more
@test "run with the token of a run that is no ancestor: renewed, or verified where it cannot be" {
	hold -t 3s --
	local outer=$HOLDER command=$COMMAND
	if [[ -n $LEASES && -z ${SESSION-} ]]; then
		DLOCK_NAME=$LOCK nest -k 300ms -- sleep 300
		contend "$COMMAND"
		kill -TERM "$command"
		join "$outer"
		join "$HOLDER"
		equal "$status" 123
		join "$CONTENDER"
	else
		# It verifies the hold each third of the TTL, and ends its command when the hold is gone.
		DLOCK_NAME=$LOCK nest -t 3s -k 300ms -- sleep 300
		kill -TERM "$command"
		join "$outer"
		join "$HOLDER"
		equal "$status" 123
	fi
	nothing_left
}

# ---- --pid

@test "--pid: held beyond the TTL, for as long as the process lives, free when it ends" {
	local end
	for end in TERM KILL; do
		owner
		take -t 3s --pid "$OWNER"
		holds_for 4500 is_held
		json_is '.holders[0].pid' "$OWNER"
		kill "-$end" "$OWNER"
		# The contract is that the lock is free within one second.
		wait_until 1 is_free
		wait_until 2 ended "$KEEPER"
		no_socket "$TOKEN"
		nothing_left
	done
}

@test "--pid: a waiter gets it as soon as the process is killed, whatever the TTL" {
	owner
	take -t 1h --pid "$OWNER"
	in_line 1
	local waiter=$PID out=$OUT
	kill -KILL "$OWNER"
	join "$waiter" 2
	equal "$status" 0
	give "$(<"$out")"
	nothing_left
}

# bats test_tags=program,more
@test "--pid \$\$: a script that ends, or is killed, between acquire and release" {
	local shell end
	for shell in bash dash; do
		for end in 'exit 3' 'kill -9 $$'; do
			run "$shell" -c 'token=$("$DLOCK" acquire --pid $$ "$LOCK") || exit 99
				"$DLOCK" verify "$LOCK" "$token" || exit 98
				'"$end"
			matches "$status" '^(3|137)$'
			wait_until 1 is_free
			wait_until 2 no_strays
			nothing_left
		done
	done
}

# bats test_tags=program
@test "--pid: a process that is gone, or a zombie, is refused" {
	start true
	join "$PID"
	run --separate-stderr -125 "$DLOCK" acquire --pid "$PID" "$LOCK"
	one_line "$PID"
	equal "$output" ""
	is_free
	# sleep has a child from the sh that it replaced, and does not reap it: a zombie.
	start sh -c 'sleep 0.2 & echo $!; exec sleep 300'
	line "$OUT"
	wait_until 5 zombie "$LINE"
	run --separate-stderr -125 "$DLOCK" acquire --pid "$LINE" "$LOCK"
	one_line "$LINE"
	is_free
	nothing_left
}

zombie() {
	proc_stat "$1" && [[ $PROC_STATE == Z ]]
}

@test "--pid: when the lock is lost that process gets TERM, and the keeper ends" {
	local how
	for how in break backend_wipe; do
		probe_owner
		take -t 3s --pid "$OWNER"
		# As long as the lock is held the process gets no signal.
		holds_for 800 not has_line "$OWNER_OUT" '^TERM$'
		if [[ $how == break ]]; then
			"$DLOCK" break -q --yes "$LOCK"
		else
			backend_wipe
		fi
		wait_until 3 has_line "$OWNER_OUT" '^TERM$'
		wait_until 2 ended "$KEEPER"
		no_socket "$TOKEN"
		holds_not
		equal "$(tail -n +2 "$OWNER_OUT")" TERM "signals"
		kill -KILL "$OWNER"
	done
	wait_until 2 is_free
	nothing_left
}

# bats test_tags=program,more
@test "--pid with --on-lost warn: the process gets no signal when the lock is lost" {
	probe_owner
	take -t 3s --on-lost warn --pid "$OWNER"
	"$DLOCK" break -q --yes "$LOCK"
	wait_until 5 ended "$KEEPER"
	holds_for 300 alive "$OWNER"
	kill -KILL "$OWNER"
	equal "$(tail -n +2 "$OWNER_OUT")" "" "signals"
	no_socket "$TOKEN"
	nothing_left
}

# bats test_tags=program
@test "--pid is refused where the kernel refuses pidfd_open, and nothing is held" {
	local error
	owner
	for error in EPERM ENOSYS; do
		run --separate-stderr -125 "$TOOLS/refuse" "$error" pidfd_open \
			"$DLOCK" acquire --pid "$OWNER" "$LOCK"
		equal "$output" ""
		one_line "^dlock: $LOCK: --pid $OWNER: pidfd_open: "
		is_free
	done
	nothing_left
}

# bats test_tags=program
@test "--pid: a process that this user may not signal is refused, unless --on-lost warn is given" {
	owner
	run --separate-stderr -125 "$TOOLS/refuse" EPERM kill,pidfd_send_signal \
		"$DLOCK" acquire --pid "$OWNER" "$LOCK"
	equal "$output" ""
	one_line "--pid $OWNER: .*not permitted" 'on-lost warn'
	is_free
	take_refused EPERM kill,pidfd_send_signal --on-lost warn --pid "$OWNER"
	is_held
	kill -KILL "$OWNER"
	wait_until 2 is_free
}

# bats test_tags=program
@test "--pid: release, and the end of the keeper by TERM, send no signal" {
	probe_owner
	take --pid "$OWNER"
	give
	wait_until 2 ended "$KEEPER"
	take --pid "$OWNER"
	kill -TERM "$KEEPER"
	wait_until 2 ended "$KEEPER"
	holds_for 300 alive "$OWNER"
	kill -KILL "$OWNER"
	equal "$(tail -n +2 "$OWNER_OUT")" "" "signals"
}

# bats test_tags=program,more
@test "two locks for one process: each has a keeper of its own" {
	owner
	take --pid "$OWNER"
	local first=$TOKEN keeper=$KEEPER second
	second=$("$DLOCK" acquire --pid "$OWNER" "$LOCK-b")
	"$DLOCK" release "$LOCK-b" "$second"
	holds "$first"
	alive "$keeper"
	second=$("$DLOCK" acquire --pid "$OWNER" "$LOCK-b")
	kill -KILL "$OWNER"
	wait_until 2 is_free
	"$DLOCK" wait -w 2s "$LOCK-b"
	wait_until 2 no_strays
	no_socket "$first" "$second"
}

# ---- the keeper as a daemon

# bats test_tags=program
@test "the keeper has its own session, no terminal, cwd / and nothing of the caller's open" {
	local rest fields fd target
	owner
	exec 9>"$T/nine" 8<"$DLOCK"
	find "/proc/$BASHPID/fd" -type l -printf '%l\n' >callers
	has_line callers "$T/nine"
	"$DLOCK" acquire --json --pid "$OWNER" "$LOCK" >taken 7<>"$T/seven"
	exec 9>&- 8<&-
	read -r TOKEN KEEPER < <(jq -r '"\(.token) \(.keeper_pid)"' taken)
	runs "$KEEPER" dlock-keeper
	read -r rest <"/proc/$KEEPER/stat"
	read -ra fields <<<"${rest##*\) }"
	equal "${fields[2]}" "$KEEPER" "process group"
	equal "${fields[3]}" "$KEEPER" "session"
	equal "${fields[4]}" 0 "terminal"
	not equal "${fields[1]}" "$BASHPID" 2>/dev/null
	equal "$(readlink "/proc/$KEEPER/cwd")" /
	for fd in "/proc/$KEEPER/fd"/*; do
		target=$(readlink "$fd")
		case ${fd##*/}:$target in
		[012]:/ | *:anon_inode:* | *:"$LOCKS"/*) continue ;;
		*:pipe:* | *:socket:*) ;;
		*) fail "open in the keeper: ${fd##*/} $target" ;;
		esac
		if grep -Fxq -- "$target" callers; then
			fail "the caller's, open in the keeper: ${fd##*/} $target"
		fi
	done
	between "$(find "/proc/$KEEPER/fd" -mindepth 1 | wc -l)" 4 17 "descriptors"
	give
}

# bats test_tags=program,more
@test "the keeper keeps no pipe of the caller open: \$(...) and pipelines return at once" {
	local shell
	owner
	export OWNER
	for shell in bash dash; do
		timed timeout 20 "$shell" -c 't=$("$DLOCK" acquire --pid "$OWNER" "$LOCK"); "$DLOCK" release "$LOCK" "$t"; echo "$t"'
		equal "$status" 0 "status in $shell"
		matches "$output" '^[0-9a-f]{32}$'
		took "$MS" 0 5000 "time in $shell"
		timed timeout 20 "$shell" -c '"$DLOCK" acquire --pid "$OWNER" "$LOCK" 2>&1 | cat'
		equal "$status" 0 "status in $shell"
		took "$MS" 0 5000 "time in $shell, in a pipeline"
		is_held
		give "$output"
		timed timeout 20 "$shell" -c 't=$("$DLOCK" acquire -t 20s "$LOCK" 2>&1); echo "$t"'
		took "$MS" 0 5000 "time in $shell, without --pid"
		give "$output"
	done
	nothing_left
}

# bats test_tags=program,more
@test "the keeper keeps no other descriptor of the caller open" {
	mkfifo pipe
	start cat pipe
	local reader=$PID
	owner
	exec 9>pipe
	take --pid "$OWNER"
	exec 9>&-
	join "$reader" 5
	equal "$status" 0
	is_held
	alive "$KEEPER"
	give
	# Programs that close descriptors one by one often stop before this number.
	start cat pipe
	reader=$PID
	exec 9>pipe
	python3 -c 'import os, sys
os.dup2(9, 700)
os.close(9)
os.set_inheritable(700, True)
os.execvp(sys.argv[1], sys.argv[1:])' "$DLOCK" acquire --pid "$OWNER" "$LOCK" >taken
	exec 9>&-
	join "$reader" 5
	give "$(<taken)"
}

# bats test_tags=program,more
@test "the keeper survives HUP, INT and QUIT, and ends on TERM by releasing" {
	local sig
	owner
	take --pid "$OWNER"
	for sig in HUP INT QUIT USR1 PIPE; do
		kill "-$sig" "$KEEPER"
		holds_for 100 alive "$KEEPER"
	done
	holds
	kill -TERM "$KEEPER"
	wait_until 2 is_free
	wait_until 2 ended "$KEEPER"
	no_socket "$TOKEN"
	holds_not
	nothing_left
	alive "$OWNER"
}

# bats test_tags=program,more
@test "the keeper survives the end of the caller's session and terminal" {
	need script
	owner
	export OWNER
	run timeout 20 script -qec '"$DLOCK" acquire --json --pid "$OWNER" "$LOCK" >taken' /dev/null </dev/null
	equal "$status" 0
	read -r TOKEN KEEPER < <(jq -r '"\(.token) \(.keeper_pid)"' taken)
	holds_for 500 alive "$KEEPER"
	holds
	give
}

@test "kill -9 of the keeper: release falls back to the backend" {
	owner
	take -t 4s --pid "$OWNER"
	not no_socket "$TOKEN"
	kill -KILL "$KEEPER"
	wait_until 2 ended "$KEEPER"
	# The watchdog of the keeper has a copy of a lock's descriptor, and ends a moment later.
	[[ $BACKEND != file ]] || wait_until 2 is_free
	if [[ -z $LEASES ]]; then
		# The hold was in the keeper, and ends with it, once the server knows.
		wait_until 2 gives 123
	elif [[ -n ${SESSION-} ]]; then
		# The process that it is for may still run, so its session has to end first.
		gives 122
		wait_until 8 is_free
		gives 123
	else
		gives 0
	fi
	no_socket "$TOKEN"
	wait_until 2 is_free
	nothing_left
}

# gives STATUS: a release ends with this status
gives() {
	run --separate-stderr give
	equal "$status" "$1"
}

# bats test_tags=more
@test "kill -9 of the keeper: verify and renew say whether the lock is still held" {
	owner
	take -t 4s --pid "$OWNER"
	kill -KILL "$KEEPER"
	wait_until 2 ended "$KEEPER"
	if [[ -n ${SESSION-} && -n $LEASES ]]; then
		# The session runs out, and nobody can renew it.
		holds
		is_held
		wait_until 6 is_free
	elif [[ -n $LEASES ]]; then
		holds
		"$DLOCK" renew -t 3s "$LOCK" "$TOKEN"
		is_held
		wait_until 5 is_free
	else
		# The watchdog has a copy of the descriptor until TERM has ended the owner.
		wait_until 2 holds_not
		# The owner may be alive until the end of the lease.
		wait_until 6 is_free
	fi
	holds_not
	run -123 "$DLOCK" renew "$LOCK" "$TOKEN"
	nothing_left
}

# bats test_tags=program,more
@test "release from a keeper that hangs ends in bounded time, and the lock is free once it goes on" {
	owner
	take --pid "$OWNER"
	kill -STOP "$KEEPER"
	timed timeout 30 "$DLOCK" release "$LOCK" "$TOKEN"
	matches "$status" '^(0|122)$'
	took "$MS" 0 15000
	kill -CONT "$KEEPER"
	wait_until 5 is_free
	wait_until 5 ended "$KEEPER"
	nothing_left
}

# bats test_tags=program
@test "a caller that sends the keeper nothing, or rubbish, disturbs no other" {
	owner
	# A keeper that waits 1 s for a caller's query renews this lease too late.
	take -t 3s --pid "$OWNER"
	socket_of "$TOKEN"
	python3 - "$SOCKET" <<-'END' &
		import socket, sys, time
		held = []
		for data in (None, None, None, b"", b"x", b"\xff" * 100000, b"\0" * 264):
		    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    s.connect("\0" + sys.argv[1])
		    if data is not None:
		        try:
		            s.send(data)
		        except OSError:
		            pass
		    held.append(s)
		time.sleep(6)
	END
	local rude=$!
	holds_for 5000 is_held
	wait "$rude"
	holds
	alive "$KEEPER"
	give
}

# ---- shared holds and slots

# bats test_tags=own
@test "there can be many shared holds at once, and they exclude exclusive ones" {
	offers shared || { refuses shared; return; }
	local first second
	first=$("$DLOCK" acquire -s "$LOCK")
	second=$("$DLOCK" acquire --shared -n "$LOCK")
	[[ $first != "$second" ]]
	run --separate-stderr -124 "$DLOCK" acquire -n "$LOCK"
	one_line 'held by'
	run -0 "$DLOCK" run -s -n "$LOCK" -- true
	json_is '[.holders[].mode] | join(" ")' "shared shared"
	give "$first"
	holds_not "$first"
	holds "$second"
	is_held
	give "$second"
	is_free
	nothing_left
}

# bats test_tags=own
@test "an exclusive hold excludes shared ones and slots; shared ones exclude slots" {
	offers shared || { refuses shared; return; }
	offers slots || { refuses slots; return; }
	take
	run -124 "$DLOCK" acquire -s -n "$LOCK"
	run -124 "$DLOCK" acquire --slots 2 -n "$LOCK"
	give
	take -s
	run -124 "$DLOCK" acquire --slots 2 -n "$LOCK"
	give
	take --slots 2
	run -124 "$DLOCK" acquire -s -n "$LOCK"
	run -124 "$DLOCK" acquire -n "$LOCK"
	give
	nothing_left
}

# bats test_tags=own
@test "the last shared hold that ends lets the exclusive waiter in" {
	offers shared || { refuses shared; return; }
	local first second waiter out
	first=$("$DLOCK" acquire -s "$LOCK")
	second=$("$DLOCK" acquire -s "$LOCK")
	in_line 1
	waiter=$PID out=$OUT
	give "$first"
	holds_for 300 alive "$waiter"
	give "$second"
	join "$waiter" 5
	equal "$status" 0
	give "$(<"$out")"
	nothing_left
}

# bats test_tags=own
@test "one release of an exclusive hold lets all shared waiters in" {
	offers shared || { refuses shared; return; }
	local pids=() outs=() n
	take
	for n in 1 2 3; do
		start "$DLOCK" acquire -s "$LOCK"
		pids+=("$PID") outs+=("$OUT")
		[[ -z $FIFO ]] || wait_until 5 waiters "$n"
	done
	holds_for 300 alive "${pids[@]}"
	give
	wait_until 5 ended "${pids[@]}"
	for n in "${outs[@]}"; do
		holds "$(<"$n")"
	done
	for n in "${outs[@]}"; do
		give "$(<"$n")"
	done
	nothing_left
}

@test "a shared waiter does not pass an exclusive one that came before, where waiters have an order" {
	offers shared || { refuses shared; return; }
	local exclusive out shared
	take -s
	in_line 1
	exclusive=$PID out=$OUT
	run "$DLOCK" acquire -s -n "$LOCK"
	if [[ -z $FIFO ]]; then
		# Without an order either may come first, but never both at once.
		matches "$status" '^(0|124)$' status
		holds_for 300 alive "$exclusive"
		if ((status == 0)); then
			holds "$output"
			give "$output"
		fi
		give
		join "$exclusive" 5
		give "$(<"$out")"
		nothing_left
		return
	fi
	equal "$status" 124
	start "$DLOCK" acquire -s "$LOCK"
	shared=$PID
	local shared_out=$OUT
	wait_until 5 waiters 2
	give
	join "$exclusive" 5
	holds_for 300 alive "$shared"
	give "$(<"$out")"
	join "$shared" 5
	give "$(<"$shared_out")"
	nothing_left
}

# bats test_tags=own
@test "--slots N lets N hold and not one more; a slot that is freed goes to the next waiter" {
	offers slots || { refuses slots; return; }
	local a b c
	a=$("$DLOCK" acquire --slots 3 "$LOCK")
	b=$("$DLOCK" acquire --slots 3 "$LOCK")
	owner
	c=$("$DLOCK" acquire --slots 3 --pid "$OWNER" "$LOCK")
	run --separate-stderr -124 "$DLOCK" acquire --slots 3 -n "$LOCK"
	one_line 'held by'
	holders 3
	json_is '[.holders[] | "\(.mode) \(.slots)"] | unique | join(",")' "slot 3"
	start "$DLOCK" acquire --slots 3 "$LOCK"
	local waiter=$PID out=$OUT
	[[ -z $FIFO ]] || wait_until 5 waiters 1
	holds_for 300 alive "$waiter"
	give "$b"
	join "$waiter" 5
	equal "$status" 0
	kill -KILL "$OWNER"
	b=$(timeout 10 "$DLOCK" acquire -w 2s --slots 3 "$LOCK")
	give "$(<"$out")"
	give "$a"
	give "$b"
	nothing_left
}

# bats test_tags=own
@test "--slots: a disagreement is an error with both numbers" {
	offers slots || { refuses slots; return; }
	take --slots 3
	run --separate-stderr -125 "$DLOCK" acquire --slots 5 "$LOCK"
	one_line '\<3\>' '\<5\>' slots
	equal "$output" ""
	run --separate-stderr -125 "$DLOCK" run --slots 5 "$LOCK" -- touch ran
	one_line '\<3\>' '\<5\>' slots
	[[ ! -e ran ]]
	holders 1
	json_is '.waiters | length' 0
	give
	# When nobody holds, the next one may choose another number of slots.
	take --slots 5
	give
	nothing_left
}

@test "--slots: never more holders than slots, though all come at once" {
	offers slots || { refuses slots; return; }
	local n pids=()
	: >log
	for n in {1..12}; do
		start "$DLOCK" run --slots 3 "$LOCK" -- sh -c 'echo + >>log; sleep 0.05; echo - >>log'
		pids+=("$PID")
	done
	for n in "${pids[@]}"; do
		join "$n" 30
		equal "$status" 0
	done
	equal "$(wc -l <log)" 24 lines
	awk '{ inside += $1 == "+" ? 1 : -1; if (inside > most) most = inside }
		END { print most }' log >most
	between "$(<most)" 2 3 "inside at once"
	nothing_left
}

@test "a slot's lease that ends frees the slot" {
	offers slots || { refuses slots; return; }
	take -t 1s --slots 1
	run -124 "$DLOCK" acquire -n --slots 1 "$LOCK"
	timed "$DLOCK" acquire -w 10s --slots 1 "$LOCK"
	equal "$status" 0
	took "$MS" 0 5000
	give "$output"
	holds_not
	nothing_left
}

# ---- --min-hold

# bats test_tags=own
@test "--min-hold: release returns at once, the lock stays for the rest, whoever releases again" {
	local pid=()
	owner
	for how in lease pid; do
		if [[ $how == pid ]]; then
			pid=(--pid "$OWNER")
		fi
		now
		local start=$NOW
		take --min-hold 2s "${pid[@]}"
		timed give
		equal "$status" 0
		took "$MS" 0 1500
		# As of a script that releases, and once more in a trap when it ends.
		run -123 give
		if ! is_held; then
			now
			((NOW - start >= 1950)) || fail "free before its time ($how)"
		fi
		wait_until 4 is_free
		now
		took "$((NOW - start))" 1950 5500 "until it was free ($how)"
		run -123 give
		nothing_left
	done
}

shown_as_released() {
	run "$DLOCK" status "$LOCK"
	matches "$output" '\) kept until ([0-9-]+ )?[0-9:]{8} \(released\)' 2>/dev/null
}

# The parent of `acquire` goes on, so nothing is said of its end.
# [32]
@test "--min-hold: a lock that was released is shown as that" {
	take --min-hold 6s
	run ! shown_as_released
	give
	if offers kept; then
		wait_until 3 shown_as_released
		json_is '.holders[0].kept_until | type' string
	else
		run ! shown_as_released
	fi
	wait_until 8 is_free
	nothing_left
}

# bats test_tags=more
@test "--min-hold: acquire with the token that was released holds on, or is refused" {
	take --min-hold 4s
	give
	run --separate-stderr env DLOCK_NAME="$LOCK" DLOCK_TOKEN="$TOKEN" "$DLOCK" acquire -n "$LOCK"
	if ((status == 0)); then
		equal "$output" "$TOKEN+1"
		pause 5
		holds
		run ! shown_as_released
		give
	else
		equal "$status" 123
		one_line 'has ended; unset DLOCK_TOKEN to begin again$'
		holds_not
	fi
	# etcd counts in whole seconds.
	wait_until "$([[ $CONFORMANCE == etcd ]] && echo 6 || echo 4)" is_free
	nothing_left
}

# bats test_tags=more
@test "--min-hold: the end of the process of --pid frees no earlier" {
	owner
	now
	local start=$NOW
	take --min-hold 2s --pid "$OWNER"
	kill -KILL "$OWNER"
	wait_until 5 is_free
	now
	took "$((NOW - start))" 1950 6500 "until it was free"
	nothing_left
}

# ---- status

# bats test_tags=program
@test "status: 0 when all that are named are free, 1 when any is held" {
	run --separate-stderr -0 "$DLOCK" status "$LOCK" "$LOCK-b"
	equal "$stderr" ""
	take
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	equal "$stderr" ""
	run -1 "$DLOCK" status "$LOCK-b" "$LOCK"
	run -1 "$DLOCK" status "$LOCK" "$LOCK-b"
	run -0 "$DLOCK" status "$LOCK-b"
	# Without a name the status says nothing about a lock.
	run -0 "$DLOCK" status
	run -1 "$DLOCK" status --json "$LOCK"
	run -0 "$DLOCK" status --json "$LOCK-b"
	give
	run -0 "$DLOCK" status "$LOCK"
	run --separate-stderr -125 "$DLOCK" status "$LOCK" $'a\nb'
	one_line name
	run --separate-stderr -125 "$DLOCK" status ''
}

# bats test_tags=program,more
@test "status: a table with name, mode, times, fence and holder" {
	owner
	take -t 30s --pid "$OWNER"
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	equal "${#lines[@]}" 2 lines
	matches "${lines[0]}" '^NAME +MODE +HELD FOR +EXPIRES +FENCE +HOLDER$'
	matches "${lines[1]}" "^$LOCK +exclusive +[0-9.]+[a-z0-9]+ +[-0-9.a-z]+ +$FENCE +$(uname -n) pid $OWNER \($(id -un)\)"
	if [[ -n $LEASES && -z ${SESSION-} ]]; then
		matches "${lines[1]}" "^$LOCK +exclusive +[0-9.]+[a-z0-9]+ +[0-9.]+[a-z0-9]+ +$FENCE"
	fi
	give
	run --separate-stderr -0 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +free( +-){4}$"
}

# bats test_tags=program,more
@test "status: what dlock run holds" {
	hold -- "$TOOLS/sigprobe"
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "^$LOCK +exclusive .* $FENCE +$(uname -n) pid $HOLDER \($(id -un)\):? sh$"
	json_is '.holders[0] | "\(.pid) \(.command) \(.fence)"' "$HOLDER sh $FENCE"
	kill -TERM "$HOLDER"
	join "$HOLDER"
}

# bats test_tags=own
@test "status shows who waits, in order where waiters have one" {
	local n pids=() mode='' options=()
	offers waiters || return 0
	if [[ -z $FIFO ]]; then
		hold --
		for n in 1 2; do
			start "$DLOCK" run "$LOCK" -- true
			pids+=("$PID")
		done
		wait_until 5 waiters 2
		# A waiter that tries again and again does not show at the moment of a try.
		wait_until 10 json_is '"\([.waiters[].position]) \([.waiters[].pid] | sort)"' \
			"[1,2] [$(printf '%s\n' "${pids[@]}" | sort -n | paste -sd ,)]"
		kill -TERM "${pids[@]}"
		wait_until 5 ended "${pids[@]}"
		json_is '.waiters | length' 0
		release
		nothing_left
		return
	fi
	if offers shared; then
		mode=shared options=(-s)
	fi
	take
	in_line 1
	pids+=("$PID")
	start "$DLOCK" run "${options[@]}" "$LOCK" -- true
	pids+=("$PID")
	wait_until 5 waiters 2
	start "$DLOCK" run "$LOCK" -- true
	pids+=("$PID")
	wait_until 5 waiters 3
	run --separate-stderr -1 "$DLOCK" status "$LOCK"
	equal "${#lines[@]}" 5 lines
	matches "${lines[2]}" '^ +waiter 1 +[0-9.]+[a-z0-9]+ .*'"$(uname -n) pid"
	matches "${lines[3]}" "^ +waiter 2${mode:+, $mode} +[0-9.]+[a-z0-9]+ .* $(uname -n) pid ${pids[1]} "
	matches "${lines[4]}" "^ +waiter 3 +[0-9.]+[a-z0-9]+ .* $(uname -n) pid ${pids[2]} "
	json_is '[.waiters[].position] | join(" ")' "1 2 3"
	json_is '.waiters[1] | "\(.pid) \(.mode)"' "${pids[1]} ${mode:-exclusive}"
	kill -TERM "${pids[@]}"
	wait_until 5 ended "${pids[@]}"
	json_is '.waiters | length' 0
	give
	nothing_left
}

# bats test_tags=program
@test "--note is shown to who is refused, and in status, of a holder and of a waiter" {
	local note="deploying 4.2 & more, 100%: ask Ann"
	take -t 30s --note "$note"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "^dlock: $LOCK: held by .*: deploying 4\.2 & more, 100%: ask Ann \(on "
	run -1 "$DLOCK" status "$LOCK"
	matches "${lines[1]}" "deploying 4\.2 & more, 100%: ask Ann$"
	json_is '.holders[0].note' "$note"
	give
	hold --note short --
	json_is '.holders[0].note' short
	release
	nothing_left
	run --separate-stderr -125 "$DLOCK" run --note "$(printf '%161s' x)" "$LOCK" -- true
	one_line 'note: .*160'
}

# The schema of `status --json`: an object a line for each lock. A program may rely on
# every member to be there, null where it is not known.
SCHEMA='
	def time: . == null or test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$");
	def recent: . == null or ((.[0:19] + "Z" | fromdate) - now | . > -120 and . < 5);
	def number: . == null or (type == "number" and . >= 0 and . == floor);
	def text: . == null or (type == "string" and . != "");
	def mode: (.mode == "exclusive" or .mode == "shared" or .mode == "slot")
		and ((.mode == "slot") == (.slots != null)) and (.slots | number);
	def who: (.host | text) and (.pid | number) and (.user | text) and (.command | text) and (.note | text);
	(keys == ["backend", "fence", "held", "holders", "ignored", "name", "waiters"])
	and all(.ignored[]; type == "string") and (.backend | text) and .backend != null
	and (.name | type == "string") and (.held | type == "boolean") and (.fence | number)
	and ((.holders | length > 0) == .held)
	and all(.holders[];
		(keys == ["acquired_at", "command", "done_at", "expires_at", "expires_in_ms", "fence",
			"held_for_ms", "host", "kept_until", "mode", "note", "pid", "slots", "user"])
		and who and mode and (.fence | number)
		and (.acquired_at | time) and (.acquired_at | recent) and (.held_for_ms | number)
		and (.expires_at | time) and (.expires_in_ms | number) and (.kept_until | time) and (.done_at | time)
		and ((.expires_at == null) == (.expires_in_ms == null)))
	and ([.waiters[].position] == [range(1; (.waiters | length) + 1)])
	and all(.waiters[];
		(keys == ["command", "host", "mode", "note", "pid", "position", "queued_at", "slots", "user", "waiting_ms"])
		and who and mode and (.queued_at | time) and (.queued_at | recent) and (.waiting_ms | number))'

# in_schema: `status --json` of $LOCK is one object of that form
in_schema() {
	json "$SCHEMA" >valid
	equal "$(wc -l <status.json)" 1 "lines of JSON"
	equal "$(<valid)" true "in the schema: $(<status.json)"
	# it can tell
	equal "$(jq 'del(.fence)' status.json | jq "$SCHEMA")" false
}

# bats test_tags=program
@test "status --json keeps to its schema, whatever the state" {
	in_schema
	json_is '"\(.name) \(.held) \(.holders) \(.waiters)"' "$LOCK false [] []"
	owner
	take --pid "$OWNER" -t 30s
	in_schema
	json_is '.holders[0] | "\(.host) \(.pid) \(.user) \(.mode) \(.slots) \(.fence)"' \
		"$(uname -n) $OWNER $(id -un) exclusive null $FENCE"
	json_is .fence "$FENCE"
	between "$(json '.holders[0].held_for_ms')" 0 20000
	if [[ -n $LEASES && -z ${SESSION-} ]]; then
		between "$(json '.holders[0].expires_in_ms')" 10000 30000
		json_is '.holders[0] | ((.expires_at[0:19] + "Z" | fromdate) - now) | . > 5 and . < 35' true
	fi
	in_line 1
	local waiter=$PID
	in_schema
	kill -TERM "$waiter"
	join "$waiter"
	give
	if offers shared; then
		take -s
		in_schema
		give
	fi
	if offers slots; then
		take --slots 4
		start "$DLOCK" run --slots 4 "$LOCK" -- sh -c 'echo in; exec sleep 300'
		wait_until 5 has_line "$OUT" in
		in_schema
		json_is '[.holders[].slots] | join(" ")' "4 4"
		kill -TERM "$PID"
		join "$PID"
		give
	fi
	in_schema
	json_is '"\(.held) \(.holders)"' "false []"
}

# bats test_tags=program,more
@test "status of many names: one object each, in their order" {
	take
	"$DLOCK" status --json "$LOCK-x" "$LOCK" "$LOCK-a" >all || true
	equal "$(jq -c '[.name, .held]' all | tr '\n' ' ')" \
		"[\"$LOCK-x\",false] [\"$LOCK\",true] [\"$LOCK-a\",false] "
	give
}

# bats test_tags=own
@test "status without a name lists all that are held, and only those" {
	local tokens=() n
	take
	give
	for n in a b 'c d' x/y; do
		tokens+=("$("$DLOCK" acquire "$LOCK-$n")")
	done
	local shared=()
	if offers shared; then
		shared=(-s)
	fi
	start "$DLOCK" run "${shared[@]}" "$LOCK-run" -- sh -c 'echo in; exec sleep 300'
	wait_until 5 has_line "$OUT" in
	"$DLOCK" status --json | jq -r .name | grep -F "$LOCK" | sort >names
	printf '%s\n' "$LOCK-a" "$LOCK-b" "$LOCK-c d" "$LOCK-run" "$LOCK-x/y" | diff - names
	"$DLOCK" status --names | grep -F "$LOCK" | sort | diff names -
	"$DLOCK" status >table
	for n in a b 'c d' x/y run; do
		equal "$(grep -c "^$LOCK-$n  " table)" 1 "rows of $n"
	done
	equal "$(grep -c "^$LOCK  " table)" 0 "rows of the free one"
	kill -TERM "$PID"
	join "$PID"
	"$DLOCK" release "$LOCK-a" "${tokens[0]}"
	"$DLOCK" release "$LOCK-b" "${tokens[1]}"
	"$DLOCK" release "$LOCK-c d" "${tokens[2]}"
	"$DLOCK" release "$LOCK-x/y" "${tokens[3]}"
	equal "$("$DLOCK" status --json | grep -cF "$LOCK")" 0 "locks that are left"
}

@test "status, wait, verify and check create nothing" {
	contents >before
	local args
	for args in "status $LOCK" "status --json $LOCK $LOCK-b" status "wait $LOCK" "wait -w 1s $LOCK"; do
		# shellcheck disable=SC2086 # words
		run -0 "$DLOCK" $args
		contents | diff before - || fail "dlock $args left something"
	done
	run -123 "$DLOCK" verify "$LOCK" 0123456789abcdef0123456789abcdef
	contents | diff before - || fail "dlock verify left something"
	run "$DLOCK" check
	# The last fence of the lock that it has tried may stay.
	contents | grep -vF dlock-check | diff before - || fail "dlock check left something"
	run -0 "$DLOCK" status dlock-check
}

# bats test_tags=more
@test "status shows only what is there, and leaves a lock that is held as it is" {
	take -t 30s
	contents >before
	for _ in 1 2 3; do
		not "$DLOCK" status "$LOCK" >/dev/null
		not "$DLOCK" wait -q -w 0 "$LOCK"
		holds
	done
	contents | diff before -
	give
}

# bats test_tags=program
@test "status --watch shows changes on a terminal, and again and again" {
	need script
	start script -qefc '"$DLOCK" status --watch "$LOCK"' screen
	local watcher=$PID
	wait_until 5 has_line screen "^.*$LOCK +free"
	take
	wait_until 8 has_line screen "^.*$LOCK +exclusive .* pid "
	give
	wait_until 8 test "$(grep -c "$LOCK *exclusive" screen)" -ge 1
	# Each picture is drawn over the whole of the last one.
	grep -aq $'\e\[H' screen
	alive "$watcher"
	kill -TERM "$watcher"
	wait_until 5 ended "$watcher"
}

# ---- wait

@test "wait returns at once when it is free, and takes nothing" {
	timed "$DLOCK" wait "$LOCK"
	equal "$status $output$stderr" "0 "
	took "$MS" 0 1500
	is_free
	take
	give
	timed "$DLOCK" wait "$LOCK"
	equal "$status" 0
}

# bats test_tags=own
@test "wait returns when the lock is released, and is silent" {
	take
	start "$DLOCK" wait "$LOCK"
	local waiter=$PID out=$OUT err=$ERR
	holds_for 500 alive "$waiter"
	# dlock wait takes no place in line, so that it stops no other client.
	waiters 0
	give
	join "$waiter" 3
	equal "$status $(<"$out")$(<"$err")" "0 "
	is_free
	nothing_left
}

@test "wait returns when the holder is killed, and when a lease ends" {
	owner
	take --pid "$OWNER"
	start "$DLOCK" wait "$LOCK"
	local waiter=$PID
	holds_for 200 alive "$waiter"
	kill -KILL "$OWNER"
	join "$waiter" 3
	equal "$status" 0
	take -t 1s
	timed "$DLOCK" wait -w 10s "$LOCK"
	equal "$status" 0
	took "$MS" 100 4000
}

@test "wait waits for all of a shared lock" {
	offers shared || { refuses shared; return; }
	local first second
	first=$("$DLOCK" acquire -s "$LOCK")
	second=$("$DLOCK" acquire -s "$LOCK")
	start "$DLOCK" wait "$LOCK"
	give "$first"
	holds_for 400 alive "$PID"
	give "$second"
	join "$PID" 7
	equal "$status" 0
}

# bats test_tags=program,more
@test "wait -w gives up with 124 or -E's number, and reports who has it" {
	take
	timed "$DLOCK" wait -w 2s "$LOCK"
	equal "$status" 124
	took "$MS" 1990 3500
	one_line "^dlock: $LOCK: held by"
	equal "$output" ""
	timed "$DLOCK" wait -w 0 "$LOCK"
	equal "$status" 124
	took "$MS" 0 1500
	run -9 "$DLOCK" wait -w 0 -E 9 "$LOCK"
	run -0 "$DLOCK" wait -w 0 -E 0 "$LOCK"
	run --separate-stderr -124 "$DLOCK" wait -q -w 0 "$LOCK"
	equal "$stderr" ""
	run -124 env DLOCK_WAIT=0 "$DLOCK" wait "$LOCK"
	holds
	give
}

# bats test_tags=program,more
@test "TERM ends a wait at once" {
	take
	start "$DLOCK" wait "$LOCK"
	holds_for 200 alive "$PID"
	kill -TERM "$PID"
	join "$PID" 2
	equal "$status" 143
	give
	nothing_left
}

# ---- break

# bats test_tags=program
@test "break needs --yes where there is nobody to ask" {
	take
	run --separate-stderr -125 "$DLOCK" break "$LOCK" </dev/null
	one_line -- --yes
	holds
	is_held
	give
}

# bats test_tags=own
@test "break --yes prints what it broke, and the lock is free" {
	owner
	take --pid "$OWNER"
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line "^dlock: $LOCK: .*$(uname -n) pid $OWNER \($(id -un)\)"
	equal "$output" ""
	is_free
	holds_not
	run -123 "$DLOCK" renew "$LOCK" "$TOKEN"
	run -123 give
	local fence=$FENCE
	# The keeper of the broken hold does nothing to the hold of the next client.
	take
	((FENCE > fence)) || fail "fence $FENCE after $fence"
	holds
	give
	wait_until 12 no_strays
	nothing_left
}

@test "break of a free lock reports that and creates nothing" {
	contents >before
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	one_line "^dlock: $LOCK: "
	contents | diff before -
	run --separate-stderr -125 "$DLOCK" break --yes
}

# bats test_tags=own
@test "break: the holder stops at its next renewal, with 123" {
	hold -t 3s -k 500ms -- "$TOOLS/witness" -i -l "$T/log"
	wait_until 5 has_line log alive
	run -0 "$DLOCK" break --yes "$LOCK"
	join "$HOLDER" 8
	equal "$status" 123
	has_line "$HOLDER_ERR" "^dlock: $LOCK: .*lost"
	has_line log ' TERM$'
	ended "$COMMAND"
	is_free
	nothing_left
}

# bats test_tags=own
@test "break wakes the next waiter" {
	take -t 1h
	in_line 1
	local waiter=$PID out=$OUT
	run -0 "$DLOCK" break --yes "$LOCK"
	join "$waiter" 5
	equal "$status" 0
	holds "$(<"$out")"
	holds_not
	give "$(<"$out")"
	wait_until 2 is_free
	# A keeper that has lost the lease finds out at its next renewal.
	for PID in $(strays); do
		# The process may be ending by itself at this moment.
		kill -TERM "$PID" 2>/dev/null || ended "$PID"
	done
	nothing_left
}

# take_some NAME...: acquires $LOCK-NAME for each NAME; sets TOKENS
take_some() {
	local name
	TOKENS=()
	for name; do
		TOKENS+=("$("$DLOCK" acquire -t 1h "$LOCK-$name")")
	done
}

# names_held: of those that begin with $LOCK, in one line without that
names_held() {
	"$DLOCK" status --names | sed -n "s/^$LOCK-//p" | paste -sd ' '
}

@test "break and status of several names, and of a pattern that matches what the backend lists" {
	local refused=0
	take_some a1 a2 b é
	equal "$("$DLOCK" status "$LOCK-[ab]*" "$LOCK-?" "$LOCK-a1" | sed -n "s/^$LOCK-\([^ ]*\) .*/\1/p" | paste -sd ' ')" \
		"a1 a2 b é" "what the patterns match"
	"$DLOCK" status --json "$LOCK-a*" >json || refused=$?
	equal "$refused $(jq -r .name json | paste -sd ' ')" "1 $LOCK-a1 $LOCK-a2"
	# one that nothing matches is the name of a lock that is free
	run -0 "$DLOCK" status "$LOCK-z*"
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK-z*"
	one_line "^dlock: $LOCK-z\*: nobody holds it$"
	equal "$(names_held)" "a1 a2 b é"
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK-a?" "$LOCK-none" "$LOCK-b"
	equal "$(sed -E "s/^dlock: $LOCK-//; s/(broken); was held by .*/\1/" <<<"$stderr" | paste -sd ,)" \
		"a1: broken,a2: broken,b: broken,none: nobody holds it"
	equal "$(names_held)" é
	run -123 "$DLOCK" verify "$LOCK-a1" "${TOKENS[0]}"
	"$DLOCK" verify "$LOCK-é" "${TOKENS[3]}"
	"$DLOCK" release "$LOCK-é" "${TOKENS[3]}"
	leave_no_keepers
}

# bats test_tags=more
@test "a lock whose name has * ? [ is shown and broken by its name, and no other lock with it" {
	local name
	take_some 'j[1]' j1 '*' 'j?'
	for name in '*' 'j[1]' 'j?'; do
		equal "$("$DLOCK" status --json "$LOCK-$name" | jq -r .name)" "$LOCK-$name"
		run --separate-stderr -0 "$DLOCK" break --yes "$LOCK-$name"
		equal "${#stderr_lines[@]}" 1 lines
	done
	equal "$(names_held)" j1
	# a backslash quotes
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK-j\\[1]"
	one_line 'nobody holds it'
	# which is a pattern, once the name is free
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK-j[1]"
	one_line "^dlock: $LOCK-j1: broken"
	leave_no_keepers
}

# leave_no_keepers: ends those of holds that were broken, which would find out at their next renewal
leave_no_keepers() {
	for PID in $(strays); do
		# The process may be ending by itself at this moment.
		kill -TERM "$PID" 2>/dev/null || ended "$PID"
	done
}

# bats test_tags=more
@test "wait for several locks: until all are free, or no longer than -w" {
	take_some a b
	run --separate-stderr -124 "$DLOCK" wait -w 0 "$LOCK-none" "$LOCK-a" "$LOCK-b"
	one_line "^dlock: $LOCK-a: held by "
	start "$DLOCK" wait -v "$LOCK-a" "$LOCK-b"
	wait_until 5 has_line "$ERR" "$LOCK-a: waiting"
	"$DLOCK" release "$LOCK-a" "${TOKENS[0]}"
	wait_until 5 has_line "$ERR" "$LOCK-b: waiting"
	# the first one is held again when the second one becomes free
	TOKENS[0]=$("$DLOCK" acquire -t 1h "$LOCK-a")
	"$DLOCK" release "$LOCK-b" "${TOKENS[1]}"
	wait_until 5 has_line "$ERR" "$LOCK-b: free"
	holds_for 300 alive "$PID"
	timed "$DLOCK" wait -w 2s -E 3 "$LOCK-b" "$LOCK-a" "$LOCK-none"
	equal "$status" 3
	"$DLOCK" release "$LOCK-a" "${TOKENS[0]}"
	join "$PID" 5
	equal "$status" 0
	# a name with a * is a name
	run -0 "$DLOCK" wait -w 0 "$LOCK-*"
}

@test "break takes a lock from all who share it" {
	offers shared || { refuses shared; return; }
	local first second
	first=$("$DLOCK" acquire -s -t 3s "$LOCK")
	second=$("$DLOCK" acquire -s -t 3s "$LOCK")
	run --separate-stderr -0 "$DLOCK" break --yes "$LOCK"
	equal "$(grep -c "^dlock: $LOCK: broken; was held by " <<<"$stderr")" 2 "holders: $stderr"
	holds_not "$first"
	holds_not "$second"
	is_free
	if offers slots; then
		first=$("$DLOCK" acquire --slots 2 -t 3s "$LOCK")
		second=$("$DLOCK" acquire --slots 2 -t 3s "$LOCK")
		run -0 "$DLOCK" break --yes "$LOCK"
		holds_not "$first"
		holds_not "$second"
		# Both slots are free again.
		first=$("$DLOCK" acquire --slots 2 -n "$LOCK")
		second=$("$DLOCK" acquire --slots 2 -n "$LOCK")
		give "$first"
		give "$second"
	fi
	wait_until 6 no_strays
	nothing_left
}

# break_asks: runs `dlock break $LOCK` at a terminal until it asks; then what is written to descriptor 5
# is typed there
break_asks() {
	need script
	rm -f keys screen
	mkfifo keys
	# Not with start, because dlock has to read an answer from its standard input.
	script -qefc '"$DLOCK" break "$LOCK"; echo "status $?"' screen <keys >/dev/null 2>&1 3>&- 4>&- &
	PID=$!
	STARTED+=("$PID")
	exec 5>keys
	wait_until 5 has_line screen 'y/N'
	has_line screen "held by $(uname -n) pid"
}

# answer ANSWER: types the last answer; sets STATUS
answer() {
	printf '%s\n' "$1" >&5
	wait_until 5 has_line screen '^status '
	exec 5>&-
	STATUS=$(sed -n 's/^status \([0-9]*\).*/\1/p' screen)
}

# bats test_tags=program
@test "break asks on a terminal, and leaves the lock alone unless the answer is yes" {
	take
	break_asks
	answer n
	equal "$STATUS" 1 "status after no"
	holds
	break_asks
	answer y
	equal "$STATUS" 0 "status after yes"
	is_free
	leave_no_keepers
}

# bats test_tags=program
@test "break of a pattern lists what it would take, and asks once" {
	local real=$LOCK
	take_some a b c
	LOCK="$real-[ab]" break_asks
	equal "$(grep -cE "^dlock: $real-[ab]: held by " screen)" 2 "locks in the list"
	answer n
	equal "$STATUS $(grep -c 'left as it is' screen)" "1 2"
	equal "$(names_held)" "a b c"
	LOCK="$real-[ab]" break_asks
	"$DLOCK" release "$real-b" "${TOKENS[1]}"
	TOKENS[1]=$("$DLOCK" acquire "$real-b")
	answer y
	has_line screen "^dlock: $real-b: it has changed hands"
	equal "$STATUS $(grep -c 'y/N' screen)" "0 1"
	equal "$(names_held)" "b c"
	"$DLOCK" release "$real-b" "${TOKENS[1]}"
	"$DLOCK" release "$real-c" "${TOKENS[2]}"
	leave_no_keepers
}

# bats test_tags=program,more
@test "break takes nothing away when the lock changes hands before the answer" {
	take
	break_asks
	give
	take
	answer y
	equal "$STATUS" 0 status
	has_line screen 'it has changed hands, or is free'
	holds
	give
}

# ---- check and setup

# bats test_tags=own
@test "check: a finding a line, the last one by taking a lock; --json the same" {
	run --separate-stderr "$DLOCK" check
	matches "$status" '^[01]$'
	equal "$stderr" ""
	local line code=$status
	for line in "${lines[@]}"; do
		matches "$line" '^(ok|note|warning) +[a-z-]+ +.+'
	done
	matches "$output" 'probe +.* ms'
	"$DLOCK" check --json >json || equal "$?" "$code"
	jq -e '(keys == ["backend", "findings", "verdict"]) and (.findings | length > 2) and
		all(.findings[]; (keys == ["finding", "remedy", "severity", "topic"])
			and (.severity | IN("ok", "note", "warning"))
			and (.topic | length > 0) and (.finding | length > 0)
			and (.severity == "ok" or .remedy != null))' json
	matches "$code $(jq -r .verdict json)" '^(0 (ok|note)|1 warning)$'
	equal "$(jq -r '.findings[].topic' json)" "$(awk '{ print $2 }' <<<"$output")" topics
	run --separate-stderr -125 "$DLOCK" check "$LOCK"
	one_line
}

# bats test_tags=program
@test "setup succeeds, and again" {
	run --separate-stderr -0 "$DLOCK" setup
	equal "$stderr$output" ""
	run -0 "$DLOCK" setup
	run -125 "$DLOCK" setup "$LOCK"
	is_free
}

# bats test_tags=program
@test "setup --dry-run prints what it would create, contacts no server, and creates nothing" {
	contents >before
	run --separate-stderr -0 "$DLOCK" setup --dry-run
	if [[ $output ]]; then
		equal "$stderr" ""
	else
		one_line '^dlock: nothing needs to be set up on '
	fi
	diff before <(contents)
	local line
	for line in "${lines[@]}"; do
		not grep -q '[{}]' <<<"$line"
	done
	run -125 "$DLOCK" check --dry-run
}
