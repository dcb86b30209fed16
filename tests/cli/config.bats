# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The configuration for the commands other than run; for that one, see run.bats.

load ../lib/helpers
load ../redis/server

# private_etc COMMAND...: with ./etc for /etc and no backend in the environment
private_etc() {
	env -u DLOCK_BACKEND unshare -m sh -c 'mount --bind etc /etc && exec "$@"' sh "$@"
}

# A token that nobody has; and a line of the commands that need a backend.
NOBODY=0123456789abcdef0123456789abcdef

commands() {
	printf '%s\n' "acquire $LOCK" "renew $LOCK $NOBODY" "verify $LOCK $NOBODY" \
		"release $LOCK $NOBODY" "status $LOCK" status "wait $LOCK" "break --yes $LOCK" check setup
}

@test "every command takes a backend by its name, from the command line and the environment" {
	mkdir -m 0700 one two
	printf 'backend = one\n[one]\nuri = file://%s/one\n[two]\nuri = file://%s/two\n' "$T" "$T" \
		>"$XDG_CONFIG_HOME/dlock.conf"
	unset DLOCK_BACKEND
	local token
	token=$("$DLOCK" acquire -b two "$LOCK")
	run -0 "$DLOCK" status "$LOCK"
	run -1 "$DLOCK" status -b two "$LOCK"
	run -1 env DLOCK_BACKEND=two "$DLOCK" status "$LOCK"
	run -0 env DLOCK_BACKEND=two "$DLOCK" status -b one "$LOCK"
	run -124 env DLOCK_BACKEND=two "$DLOCK" wait -w 0 "$LOCK"
	run -0 "$DLOCK" verify -b two "$LOCK" "$token"
	run -0 "$DLOCK" renew -b two "$LOCK" "$token"
	run -123 env DLOCK_BACKEND=one "$DLOCK" verify "$LOCK" "$token"
	equal "$("$DLOCK" status --json -b two | jq -r .name)" "$LOCK"
	equal "$("$DLOCK" status --json)" ""
	matches "$("$DLOCK" check -b two)" "$T/two"
	matches "$("$DLOCK" check)" "$T/one"
	run -0 "$DLOCK" release -b two "$LOCK" "$token"
}

@test "a backend with a name is passed on by its name, and its password stays in the file" {
	private_redis --requirepass Sesame8
	local conf=$XDG_CONFIG_HOME/dlock.conf
	printf 'backend = r\n[r]\nuri = redis://:Sesame8@127.0.0.1:%s\n' "$P_PORT" >"$conf"
	chmod 0600 "$conf"
	unset DLOCK_BACKEND
	local how
	for how in '' '-b r'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -0 "$DLOCK" run $how "$LOCK" -- sh -c 'env
			"$DLOCK" run -v -n "$LOCK" -- env
			"$DLOCK" run -v -n "inner $LOCK" -- "$DLOCK" run -v -n "$LOCK" -- env'
		not matches "$output" Sesame8
		equal "$(grep -c '^DLOCK_BACKEND=r$' <<<"$output")" 3
		equal "$(grep -c 'already held' <<<"$stderr")" 2
	done
	run -0 env DLOCK_BACKEND=r "$DLOCK" run --if-down run "$LOCK" -- sh -c 'echo "$DLOCK_BACKEND"'
	equal "$output" r
	kill -KILL "$P_PID"
	wait_until 5 ended "$P_PID"
	run --separate-stderr -0 "$DLOCK" run --if-down run "$LOCK" -- sh -c 'echo "$DLOCK_BACKEND"'
	equal "$output" r
}

@test "files that a URI names by a relative path are passed on with an absolute one" {
	private_redis --requirepass Sesame8
	mkdir -m 0700 'a b%' elsewhere
	echo Sesame8 >'a b%/secret'
	chmod 0600 'a b%/secret'
	cd 'a b%'
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?timeout=3s&password-file=secret&prefix=p:" "$LOCK" -- sh -c '
		cd ../elsewhere && env && "$DLOCK" run -v -n "$LOCK" -- true && "$DLOCK" run other -- true'
	matches "$output" "DLOCK_BACKEND=${P_URI}[?]timeout=3s&password-file=$T/a%20b%25/secret&prefix=p:"
	matches "$stderr" 'already held'
	run --separate-stderr -0 "$DLOCK" run -b "$P_URI?password-file=$T/a%20b%25/secret" "$LOCK" -- env
	matches "$output" "DLOCK_BACKEND=${P_URI}[?]password-file=$T/a%20b%25/secret"
}

@test "acquire nests in the hold of a named backend under that name" {
	mkdir -m 0700 one
	printf '[one]\nuri = file://%s/one\n' "$T" >"$XDG_CONFIG_HOME/dlock.conf"
	export DLOCK_BACKEND=one
	local token
	token=$("$DLOCK" acquire "$LOCK")
	equal "$(DLOCK_NAME=$LOCK DLOCK_TOKEN=$token timeout 10 "$DLOCK" acquire -w 3s "$LOCK")" "$token+1"
	"$DLOCK" release "$LOCK" "$token"
	run -0 "$DLOCK" status "$LOCK"
}

@test "TTL and wait of the file hold for acquire and wait; the environment beats it" {
	printf 'ttl = 100s\nwait = 0\n' >"$XDG_CONFIG_HOME/dlock.conf"
	export DLOCK_BACKEND=$REDIS
	local token
	token=$("$DLOCK" acquire "$LOCK")
	between "$(rcli pttl "$KEY")" 90000 100000
	run -124 "$DLOCK" acquire "$LOCK"
	run -124 "$DLOCK" wait "$LOCK"
	timed env DLOCK_WAIT=300ms "$DLOCK" wait "$LOCK"
	equal "$status" 124
	took "$MS" 290 3000
	# a hold that is there keeps its own
	DLOCK_TTL=50s "$DLOCK" renew "$LOCK" "$token"
	between "$(rcli pttl "$KEY")" 90000 100000
	DLOCK_TTL=50s "$DLOCK" renew -t 200s "$LOCK" "$token"
	between "$(rcli pttl "$KEY")" 190000 200000
	"$DLOCK" renew "$LOCK" "$token"
	between "$(rcli pttl "$KEY")" 190000 200000
	"$DLOCK" release "$LOCK" "$token"
	token=$(DLOCK_TTL=50s "$DLOCK" acquire "$LOCK")
	between "$(rcli pttl "$KEY")" 40000 50000
	"$DLOCK" release "$LOCK" "$token"
}

@test "the user's file beats the system's, key by key; its sections are added" {
	need_root
	local dir
	for dir in user system etc; do
		mkdir -m 0700 "$dir"
	done
	cp -a /etc/passwd /etc/group /etc/nsswitch.conf etc
	chmod 0755 etc
	printf 'backend = a\nwait = 0\n[a]\nuri = file://%s/system\n[b]\nuri = file://%s/system\n' "$T" "$T" >etc/dlock.conf
	matches "$(private_etc "$DLOCK" check)" "$T/system"
	printf '[a]\nuri = file://%s/user\n' "$T" >"$XDG_CONFIG_HOME/dlock.conf"
	matches "$(private_etc "$DLOCK" check)" "$T/user"
	matches "$(private_etc "$DLOCK" check -b b)" "$T/system"
	matches "$(private_etc env DLOCK_BACKEND=b "$DLOCK" check)" "$T/system"
	matches "$(private_etc env DLOCK_BACKEND=b "$DLOCK" check -b a)" "$T/user"
	# what the user's file leaves out is the system's: do not wait
	DLOCK_BACKEND=file://$T/user hold --
	run -124 private_etc "$DLOCK" wait "$LOCK"
	run -124 private_etc "$DLOCK" acquire "$LOCK"
	echo 'wait = nonsense' >etc/dlock.conf
	run --separate-stderr -125 private_etc "$DLOCK" status
	one_line /etc/dlock.conf
}

@test "an empty DLOCK_BACKEND is no default: every command refuses it, with what to do" {
	local args
	export DLOCK_BACKEND=
	echo 'backend = file:' >"$XDG_CONFIG_HOME/dlock.conf"
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" $args
		one_line 'DLOCK_BACKEND is set, but empty.* unset DLOCK_BACKEND'
		equal "$output" ""
	done < <(commands; echo "run $LOCK -- touch ran")
	[[ ! -e ran ]]
	run -0 "$DLOCK" status -b "$FILE"
	run --separate-stderr -125 "$DLOCK" status -b ''
	one_line "^dlock: --backend: '' is neither a URI nor "
}

@test "require-backend and DLOCK_REQUIRE_BACKEND refuse the default, and nothing else" {
	local conf=$XDG_CONFIG_HOME/dlock.conf args
	unset DLOCK_BACKEND
	run -0 env DLOCK_REQUIRE_BACKEND=0 "$DLOCK" status
	run -0 env DLOCK_REQUIRE_BACKEND= "$DLOCK" status
	for args in no false off No; do
		run -0 env DLOCK_REQUIRE_BACKEND=$args "$DLOCK" status
	done
	run --separate-stderr -125 env DLOCK_REQUIRE_BACKEND=true "$DLOCK" status
	one_line 'no backend is named, and DLOCK_REQUIRE_BACKEND '
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 env DLOCK_REQUIRE_BACKEND=1 "$DLOCK" $args
		one_line 'no backend is named, and DLOCK_REQUIRE_BACKEND .*-b URI.*DLOCK_BACKEND'
	done < <(commands; echo "run $LOCK -- touch ran")
	[[ ! -e ran ]]
	run -0 env DLOCK_REQUIRE_BACKEND=1 "$DLOCK" status -b "$FILE"
	run -0 env DLOCK_REQUIRE_BACKEND=1 DLOCK_BACKEND=file: "$DLOCK" status
	echo "backend = $FILE" >"$conf"
	run -0 env DLOCK_REQUIRE_BACKEND=1 "$DLOCK" status
	echo 'require-backend = yes' >"$conf"
	run --separate-stderr -125 "$DLOCK" run "$LOCK" -- touch ran
	one_line 'no backend is named, and require-backend '
	[[ ! -e ran ]]
	run -0 "$DLOCK" status -b file:
	run -0 env DLOCK_BACKEND="$FILE" "$DLOCK" status
	run -0 env DLOCK_REQUIRE_BACKEND=0 "$DLOCK" status
	echo 'require-backend = no' >"$conf"
	run -0 "$DLOCK" status
	echo 'require-backend = 1' >"$conf"
	run --separate-stderr -125 "$DLOCK" status
	one_line "^dlock: $conf:1: require-backend: write yes or no$"
}

@test "a file that is wrong stops every command, by path and line" {
	local args
	printf '\nttl = soon\n' >"$XDG_CONFIG_HOME/dlock.conf"
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" $args
		one_line "$XDG_CONFIG_HOME/dlock.conf.*2"
		equal "$output" ""
	done < <(commands)
	equal "$(ls -A "$LOCKS")" ""
}

@test "a file that cannot be read stops every command that needs it, by name" {
	local conf=$XDG_CONFIG_HOME/dlock.conf args
	echo 'ttl = 1m' >"$conf"
	chmod 0 "$conf"
	local as=(env)
	if ((EUID == 0)); then
		# root reads everything, unless it gives that up
		local caps='-dac_override,-dac_read_search'
		as=(setpriv --bounding-set "$caps" --inh-caps "$caps")
	fi
	unset DLOCK_BACKEND
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "${as[@]}" "$DLOCK" $args
		one_line "$conf" 'denied'
	done < <(commands)
}

@test "a file that others can write is refused by every command, with what to do" {
	local conf=$XDG_CONFIG_HOME/dlock.conf args mode
	echo 'wait = 1h' >"$conf"
	chmod 0622 "$conf"
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" $args
		one_line "^dlock: $conf: other users can write to it; chmod go-w it$"
	done < <(commands; echo "run $LOCK -- touch ran")
	[[ ! -e ran ]]
	for mode in 0620 0602; do
		chmod $mode "$conf"
		run -125 "$DLOCK" status
	done
	chmod 0640 "$conf"
	run -0 "$DLOCK" status
}

@test "a file of another user is refused, unless that is root" {
	strangers
	export DLOCK_BACKEND=file:
	local conf=$OPEN/dlock.conf
	echo 'wait = 1h' >"$conf"
	run -0 as "$ALICE" "$OPEN/dlock" status
	chown "$ALICE" "$conf"
	run -0 as "$ALICE" "$OPEN/dlock" status
	run --separate-stderr -125 as "$BOB" "$OPEN/dlock" run "$LOCK" -- touch ran
	one_line "^dlock: $conf: it belongs to user $ALICE; it must belong to root or to you$"
	run --separate-stderr -125 "$DLOCK" status
	one_line "^dlock: $conf: it belongs to user $ALICE; it must belong to root or to you$"
}

# [33]
@test "a password in a file that others can read: a warning from every command, unless -q" {
	private_redis --requirepass Sesame8
	local conf=$XDG_CONFIG_HOME/dlock.conf args
	printf 'backend = r\n[r]\nuri = redis://:Sesame8@127.0.0.1:%s\n' "$P_PORT" >"$conf"
	unset DLOCK_BACKEND
	export DLOCK_WAIT=0
	chmod 0644 "$conf"
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr "$DLOCK" $args
		between "$status" 0 124 "status of $args"
		equal "$(grep -c "$conf" <<<"$stderr")" 1 "warnings of $args"
		[[ $stderr$output != *Sesame* ]]
		# shellcheck disable=SC2086 # words
		run --separate-stderr "$DLOCK" ${args/#${args%% *}/${args%% *} -q}
		[[ $stderr != *"$conf"* ]] || fail "$args -q"
	done < <(commands)
	chmod 0600 "$conf"
	while read -r args; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr "$DLOCK" $args
		[[ $stderr != *"$conf"* ]] || fail "$args"
	done < <(commands)
}

@test "a URI's password shows in no argument list of any command" {
	private_redis --requirepass Sesame8
	kill -STOP "$P_PID"
	local args pids=()
	while read -r args; do
		# no answer comes: there is time to look
		# shellcheck disable=SC2086 # words
		start "$DLOCK" ${args/#${args%% *}/${args%% *} -b redis://:Sesame8@127.0.0.1:$P_PORT?timeout=5s}
		pids+=("$PID")
		wait_until 3 has_line "/proc/$PID/cmdline" '\*\*\*'
	done < <(commands)
	not grep -aqs Sesame8 "${pids[@]/#//proc/}"
	local pid
	for pid in $(strays); do
		not grep -aqs Sesame8 "/proc/$pid/cmdline"
	done
	kill -CONT "$P_PID"
	for pid in "${pids[@]}"; do
		# the one that acquires may come before one that waits: then its lease must end
		join "$pid" 60
		not grep -qs Sesame8 out.* err.*
	done
}

@test "a named backend has a TTL, a wait and a kill-after of its own; none is no limit" {
	local pttl='redis-cli -p "$0" pttl "dlock:$DLOCK_NAME"'
	printf '%s\n' 'ttl = 100s' 'wait = 0' '[own]' "uri = $REDIS" 'ttl = 50s' 'wait = none' \
		'kill-after = 100ms' '[plain]' "uri = $REDIS" >"$XDG_CONFIG_HOME/dlock.conf"
	run -0 "$DLOCK" run -b own "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 40000 50000
	run -0 "$DLOCK" run -b plain "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 90000 100000
	run -0 "$DLOCK" run -b own -t 10s "$LOCK" -- sh -c "$pttl" "$REDIS_PORT"
	between "$output" 1 10000

	hold -b plain --
	run -124 "$DLOCK" run -b plain "$LOCK" -- true
	run -124 env DLOCK_WAIT=500ms "$DLOCK" run -b own "$LOCK" -- true
	# without a limit: only timeout(1) ends it
	run -124 timeout -s INT 0.3 "$DLOCK" run -b own "$LOCK" -- true
	run -130 timeout --preserve-status -s INT 0.3 "$DLOCK" run -b plain -w none "$LOCK" -- true
	run -130 timeout --preserve-status -s INT 0.3 env DLOCK_WAIT=none \
		"$DLOCK" wait -b plain "$LOCK"
	release

	# what the command leaves is killed 100 ms after TERM, not 5 s
	run --separate-stderr -0 timeout 3 "$DLOCK" run -b own "$LOCK" -- \
		sh -c '(trap "" TERM; while :; do sleep 0.05; done) & exit 0'
}

@test "a configuration file that this user may not read is an error only for commands that need it" {
	need_root
	mkdir -m 0755 etc
	cp -a /etc/passwd /etc/group /etc/nsswitch.conf etc
	printf '[prod]\nuri = redis://:Sesame8@127.0.0.1:1\n' >etc/dlock.conf
	chmod 0600 etc/dlock.conf
	local as=(private_etc setpriv --reuid=65534 --regid=65534 --clear-groups "$DLOCK") args
	run --separate-stderr -0 "${as[@]}" run -b "$REDIS" "$LOCK" -- true
	equal "$stderr" ""
	for args in status 'status -b prod' 'run x -- true'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "${as[@]}" $args
		one_line '/etc/dlock.conf: Permission denied'
	done
}

@test "a section's URI that cannot be used is reported with its file and line" {
	mkdir -p "$T/xdg"
	printf '[r]\nttl = 5\nuri = redi://h\n' >"$T/xdg/dlock.conf"
	XDG_CONFIG_HOME=$T/xdg run --separate-stderr -125 "$DLOCK" status -b r
	one_line "^dlock: $T/xdg/dlock.conf:3: unknown backend 'redi:'"
	printf '[r]\nuri = redis://h:99999\n' >"$T/xdg/dlock.conf"
	XDG_CONFIG_HOME=$T/xdg run --separate-stderr -125 "$DLOCK" status -b r
	one_line "^dlock: $T/xdg/dlock.conf:2: bad redis URI"
}

@test "a value of the file is shown without control characters, in one line" {
	local evil=${EVIL//$'\n'/} setting
	unset DLOCK_BACKEND
	for setting in "backend = ${evil%%:*}" "backend = redis://h/$evil" "backend = redis://h/?$evil=1" \
		"backend = redi$evil://h" "backend = redis://h/?timeout=1$evil" "ttl = 5$evil" \
		"wait = $evil" "log = $evil" "key$evil = 1" "[a$evil]" $'[a]\nuri = file:\nttl = 1'"$evil"; do
		echo "$setting" >"$XDG_CONFIG_HOME/dlock.conf"
		run --separate-stderr -125 "$DLOCK" run "$LOCK" -- true
		harmless "$stderr"
		one_line
	done
}

@test "an unknown backend, and a TTL that is too short, are reported with file and line" {
	local conf=$XDG_CONFIG_HOME/dlock.conf
	unset DLOCK_BACKEND
	run --separate-stderr -125 "$DLOCK" status -b redi://h
	one_line "^dlock: --backend: unknown backend 'redi:'"
	run --separate-stderr -125 env DLOCK_BACKEND=redi://h "$DLOCK" status
	one_line "^dlock: DLOCK_BACKEND: unknown backend 'redi:'"
	printf '\nbackend = redi://h\n' >"$conf"
	run --separate-stderr -125 "$DLOCK" status
	one_line "^dlock: $conf:2: unknown backend 'redi:'"
	printf '[one]\nuri = file:\nttl = 10ms\n' >"$conf"
	run --separate-stderr -125 "$DLOCK" status
	one_line "^dlock: $conf:3: ttl: 10ms is too short; the least is 1s$"
}

@test "a comment may follow a value" {
	printf '%s\n' 'ttl = 20s # twenty' 'backend = one	; the directory' '[one] # that' \
		"uri = $FILE # here" 'wait = 0 ; # at once' >"$XDG_CONFIG_HOME/dlock.conf"
	unset DLOCK_BACKEND
	run --separate-stderr -0 "$DLOCK" run -v "$LOCK" -- true
	matches "$stderr" "on file:$LOCKS"
	printf 'ttl = 20s#no\n' >"$XDG_CONFIG_HOME/dlock.conf"
	run -125 "$DLOCK" status
}
