# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# How the program is put together: one dynamically linked dlock, a module beside it or in
# LIBDIR for a backend whose library costs time to load, and a copy of dlock alone that has
# the backends file and redis.

load ../lib/helpers
load ../redis/server

prepare() {
	# dlock does not take this name for an IP address, but the resolver does.
	NAMED=redis://127.1:$REDIS_PORT
	unset DLOCK_BACKEND
}

@test "a host by name: the command runs under the lock, and has the backend as it was named" {
	run --separate-stderr "$DLOCK" run -b "$NAMED" "$LOCK" -- \
		sh -c 'echo "$DLOCK_NAME $DLOCK_BACKEND"; exit 3'
	equal "$status" 3
	equal "$output" "$LOCK $NAMED"
	equal "$stderr" ""
}

@test "no answer within -w: 122 with the reason on every server, never the status of -E" {
	local at pids=() errs=() i
	tool listener
	for at in redis://H redlock://H,127.0.0.2,127.0.0.3 redis+sentinel://H/m redis+cluster://H \
		zookeeper://H etcd://H mysql://u@H/db postgresql://u@H/db; do
		at=${at/H/127.0.0.1:$TOOL_PORT}
		start "$DLOCK" run -q -w 1s -E 0 -b "$at" "$LOCK" -- touch ran
		pids+=("$PID") errs+=("$ERR")
		start "$DLOCK" wait -q -w 1s -E 0 -b "$at" "$LOCK"
		pids+=("$PID") errs+=("$ERR")
	done
	for i in "${!pids[@]}"; do
		join "${pids[i]}" 10
		equal "$status" 122 "$i: $(<"${errs[i]}")"
		has_line "${errs[i]}" '^dlock: .*127\.0\.0\.'
	done
	[[ ! -e ran ]]
}

@test "a host by name and one by address share their locks" {
	hold -b "$NAMED" --
	run --separate-stderr "$DLOCK" run -n -b "$REDIS" "$LOCK" -- true
	equal "$status" 124
	release
	run --separate-stderr "$DLOCK" run -n -b "$REDIS" "$LOCK" -- true
	equal "$status" 0
}

@test "a host by name: its password is blanked" {
	hold -b "$NAMED" --
	redis_at "$REDIS_DIR" acl setuser "$LOCK" on '>open-sesame' '~*' '&*' +@all
	start "$DLOCK" run -b "redis://$LOCK:open-sesame@127.1:$REDIS_PORT" "$LOCK" -- true
	keeper_of "$PID"
	has_line "/proc/$PID/cmdline" "$LOCK:\\*+@127.1"
	not has_line "/proc/$PID/cmdline" open-sesame
	release
	join "$PID"
	equal "$status" 0
}

@test "an unknown host is named" {
	run --separate-stderr "$DLOCK" run -b redis://no-such-host.invalid "$LOCK" -- true
	equal "$status" 122
	one_line no-such-host.invalid resolve
}

@test "dlock alone, copied elsewhere: file and redis work, names included; a module that is missing is named" {
	local backend
	mkdir bin
	cp "$DLOCK" bin/dlock
	for backend in "file://$T/locks" "$REDIS" "$NAMED"; do
		run --separate-stderr bin/dlock run -b "$backend" "$LOCK" -- true
		equal "$status" 0
	done
	for backend in zookeeper etcd mysql; do
		run --separate-stderr bin/dlock run -b "$backend://127.0.0.1/" "$LOCK" -- true
		equal "$status" 125
		one_line "there is no dlock-$backend\.so; apt install dlock-$backend\$"
	done
	run --separate-stderr bin/dlock run -b rediss://127.0.0.1 "$LOCK" -- true
	equal "$status" 125
	one_line 'module for tls .*dlock-tls\.so; apt install dlock-tls$'
}

@test "version says what can be used now, and with -v by which library; a part that is not installed is no failure" {
	local part
	run --separate-stderr "$DLOCK" version -v
	equal "$status" 0
	equal "$stderr" ""
	for part in 'redis: hiredis' 'zookeeper: ZooKeeper C client' 'etcd: json-c' 'mysql: .*' \
		'postgresql: libpq' 'TLS: OpenSSL'; do
		grep -Eq "^$part [0-9]+\.[0-9]+" <<<"$output" || fail "no line for $part"
	done
	mkdir bin
	cp "$DLOCK" bin/dlock
	run --separate-stderr bin/dlock version -v
	equal "$status" 0
	equal "$stderr" ""
	equal "${lines[1]}" 'with file, redis, redlock'
	equal "$(grep 'not installed' <<<"$output")" "zookeeper: not installed; apt install dlock-zookeeper
etcd: not installed; apt install dlock-etcd
mysql: not installed; apt install dlock-mysql
postgresql: not installed; apt install dlock-postgres
TLS: not installed; apt install dlock-tls"
	# Without -v the same, less the libraries.
	run --separate-stderr -0 "$DLOCK" version
	equal "${lines[*]:1}" 'with file, redis, redlock, zookeeper, etcd, mysql, postgresql, TLS'
	run --separate-stderr -0 bin/dlock version
	equal "$stderr" ""
	equal "${lines[1]}" 'with file, redis, redlock'
	equal "${lines[3]}" 'etcd: not installed; apt install dlock-etcd'
	equal "${#lines[@]}" 7
}

@test "version fails when a module is there and does not load" {
	local verbose
	mkdir bin
	cp "$DLOCK" bin/dlock
	cat >module.c <<-END
		void no_library_has_this(void);
		void (*dlock_module)(void) = no_library_has_this;
	END
	cc -shared -fPIC -o bin/dlock-mysql.so module.c
	for verbose in '' -v; do
		# shellcheck disable=SC2086 # may be empty
		run --separate-stderr bin/dlock version $verbose
		equal "$status" 125
		one_line 'mysql .*no_library_has_this'
		equal "${lines[1]}" 'with file, redis, redlock'
	done
	matches "$output" 'redis: hiredis'
}

@test "a module of another version is refused" {
	mkdir bin
	cp "$DLOCK" bin/dlock
	cat >module.c <<-END
		#include "lock/backend.h"
		const struct backend_module dlock_module = { .module.version = "x" };
	END
	cc -shared -fPIC -I"$TOP/src" -o bin/dlock-mysql.so module.c
	run --separate-stderr bin/dlock run -b mysql://127.0.0.1/ "$LOCK" -- true
	equal "$status" 125
	one_line "another version"
	# as in an installed tree, where it is not the first place that is tried
	mkdir -p lib/dlock
	mv bin/dlock-mysql.so lib/dlock/
	run --separate-stderr bin/dlock run -b mysql://127.0.0.1/ "$LOCK" -- true
	equal "$status" 125
	one_line "another version"
}

@test "installed: bin/dlock finds its modules in lib/dlock, and all of it can be uninstalled" {
	make -s -o all -C "$TOP" BUILD="$BUILD" DESTDIR="$T/root" PREFIX=/opt install
	# Nothing listens there: the error shows that dlock has tried to connect.
	local uri
	for uri in mysql://127.0.0.1:1/none rediss://127.0.0.1:1; do
		run --separate-stderr "$T/root/opt/bin/dlock" run -b "$uri" "$LOCK" -- true
		equal "$status" 122
		one_line 127.0.0.1:1
	done
	make -s -C "$TOP" DESTDIR="$T/root" PREFIX=/opt uninstall
	run find "$T/root" ! -type d
	equal "$output" ""
}

@test "a privileged dlock loads no module that lies beside it" {
	need_root
	local as=(env -i PATH="$PATH" setpriv --reuid 65534 --clear-groups) open
	# This is a directory that a user without rights can enter.
	open=$(mktemp -d)
	chmod 755 "$open"
	cp "$DLOCK" "$open/dlock"
	: >module.c
	cc -shared -fPIC -o "$open/dlock-mysql.so" module.c
	run --separate-stderr "${as[@]}" "$open/dlock" run -b mysql://127.0.0.1/ "$LOCK" -- true
	matches "$stderr" "no dlock_module" "of a program like any other"
	chmod 4755 "$open/dlock"
	run --separate-stderr "${as[@]}" "$open/dlock" run -b mysql://127.0.0.1/ "$LOCK" -- true
	rm -r "$open"
	equal "$status" 125
	not matches "$stderr" "no dlock_module"
}

# misused STATUS MESSAGE WORD...: dlock with these words ends with STATUS and one line, MESSAGE
misused() {
	local wanted=$1 message=$2
	shift 2
	run --separate-stderr "$DLOCK" "$@" </dev/null
	equal "$status" "$wanted" "dlock $*"
	equal "$stderr" "dlock: $message" "dlock $*"
	equal "$output" "" "dlock $*"
}

# bats test_tags=more
@test "-v: a waiter reports each minute who holds the lock" {
	local uri i waiters=() errors=() holders=()
	"$DLOCK" setup -b "file://$T/locks"
	for uri in "file://$T/locks" "$REDIS"; do
		start "$DLOCK" run -b "$uri" "$LOCK" -- sleep 100
		holders+=("$PID")
		wait_until 5 not "$DLOCK" status -q -b "$uri" "$LOCK"
		start "$DLOCK" run -v -w 62s -b "$uri" "$LOCK" -- true
		waiters+=("$PID") errors+=("$ERR")
		start "$DLOCK" wait -v -w 62s -b "$uri" "$LOCK"
		waiters+=("$PID") errors+=("$ERR")
	done
	for i in "${!waiters[@]}"; do
		join "${waiters[i]}" 70
		equal "$status" 124
		equal "$(grep -c ': waiting, .*held by .* pid ' "${errors[i]}")" 2 "lines of a wait"
		matches "$(<"${errors[i]}")" ': waiting, .* for (59s|1m0[0-3]s): sleep'
	done
	kill "${holders[@]}"
}

@test "a wrong command line: one line with what to write" {
	local token=0123456789abcdef0123456789abcdef
	misused 125 "no NAME given; usage: dlock wait [OPTION]... NAME|PATTERN..." wait
	misused 125 "too many operands; usage: dlock acquire [OPTION]... NAME" acquire a b
	misused 125 "too many operands; usage: dlock release [OPTION]... NAME [TOKEN]" \
		release a "$token" x
	local word
	for word in acquire wait break; do
		misused 125 "a command behind '--' is for 'dlock run' only" "$word" a -- cmd
	done
	for word in short "$token+0" "$token+01" "$token+1000000" "$token+"; do
		misused 125 "this is no token: a token is the 32 hex digits that 'dlock acquire' prints, or these with a level: TOKEN+1" \
			verify a "$word"
	done
	misused 125 "-c cannot be combined with a command behind '--'" run a -c x -- true
	misused 125 "option -c needs an argument" run a -c
	misused 125 "--command: no STRING given" run a --command=
	misused 125 "there is also 'hi': put all of the STRING of -c in quotes" run a -c echo hi
	misused 125 "there is no terminal to ask on; --yes breaks the lock without asking" break a
	misused 125 "too many operands; usage: dlock help [COMMAND]" help run b
	misused 125 "unknown command 'frob'; try 'dlock --help', or to run a command under a lock: dlock run frob -- COMMAND" \
		help frob
	local example="belongs behind the name of a command, as in 'dlock run [OPTION]... NAME -- COMMAND'"
	misused 125 "option -b $example" -b file: status
	misused 125 "option --backend $example" \
		--backend=redis://:secret@h status
	misused 125 "option --frob $example" --frob
	misused 125 "unknown option '-n'; did you mean --names?" status -n
	misused 125 "unknown option '-y'; did you mean --yes?" break -y a
	misused 125 "too many operands; usage: dlock version [OPTION]..." version x
	misused 125 "--pid 4194304: there is no such process" acquire --pid 4194304 a
	misused 125 "unknown option '-x'; a lock is exclusive unless --shared is given" \
		run --ttl=1m -xn a -- true
	misused 125 "too many operands; usage: dlock check [OPTION]..." check redis://u:secret@h
	# A backend without its -b may have a password.
	misused 125 "a backend is named by -b, not 'redis://u:***@h'" \
		run a redis://u:secret@h -- true
	misused 125 "unknown command 'redis://u:***@h'; try 'dlock --help', or to run a command under a lock: dlock run \
redis://u:***@h -- COMMAND" redis://u:secret@h -- true
	misused 125 "unknown command 'redis://u:***@h'; try 'dlock --help', or to run a command under a lock: dlock run \
redis://u:***@h -- COMMAND" help redis://u:secret@h
	misused 125 "unknown option '--no'; did you mean --nonblock?" acquire --no a
	misused 125 "unknown option '--max'; did you mean --max-run?" run --max 1m a -- true
	misused 125 "unknown option '--verb'; did you mean --verbose?" status --verb
	misused 125 "unknown option '--js'; did you mean --json?" status --js
	misused 125 "unknown option '--min-hol'; did you mean --min-hold?" run --min-hol=1m a -- true
	for mode in --shared --slots=2 --min-hold=1s; do
		misused 125 "--once-per cannot be combined with --shared, --slots or --min-hold" \
			run --once-per 1m $mode a -- true
	done
	misused 125 "unknown option '--tim'; did you mean --timeout?" run --tim 1m a -- true
	misused 125 "unknown option '--wai'; did you mean --wait?" run --wai
	misused 125 "option --wait needs an argument" run --wait
	misused 125 "option --quiet takes no argument" status --quiet=1
	misused 125 "option -w needs an argument" run -vw
	misused 125 "unknown option '--'; try 'dlock run --help'" run --=x
	DLOCK_TOKEN=short misused 125 "DLOCK_TOKEN: this is no token: a token is the 32 hex digits that \
'dlock acquire' prints, or these with a level: TOKEN+1" verify a
	misused 125 "--names shows all locks, and cannot be combined with a NAME, --json or --watch" status --names a
	misused 125 "redis: wrong number of hosts (0): write redis://HOST[:PORT][/DB]" wait -b redis: a
	misused 125 "redis: wrong number of hosts (2): write redis://HOST[:PORT][/DB]" \
		wait -b redis://h,i a
	misused 125 "redlock: 2 nodes are named: name 3, 5 or 7, since an even number survives no \
more failures than one node fewer" wait -b redlock://h,i a
}

@test "a backend in the configuration that is not there is named with file and line" {
	local ini=$XDG_CONFIG_HOME/dlock.conf
	unset DLOCK_BACKEND
	printf '# first\nbackend = prod\n' >"$ini"
	misused 125 "$ini:2: 'prod' is neither a URI nor a section of $ini or /etc/dlock.conf" status
	printf '\nbackend = redis://h:port/\n' >"$ini"
	run --separate-stderr -125 "$DLOCK" status
	matches "$stderr" "^dlock: $ini:2: bad redis URI"
}

@test "a URI in the place of another value shows no password, wherever it stands" {
	local uri option
	for uri in redis://:SECRET@h redis://u:SECRET@h redis://SECRET@h; do
		for option in -w -t -k --timeout --slots -E --min-hold --once-per --max-run --until \
			--on-lost --leftovers --if-down --log; do
			run --separate-stderr -125 "$DLOCK" run "$option" "$uri" "$LOCK" -- true
			one_line '[*][*][*]@h'
			not matches "$stderr" SECRET
		done
		for option in DLOCK_TTL DLOCK_WAIT; do
			run --separate-stderr -125 env "$option=$uri" "$DLOCK" run "$LOCK" -- true
			one_line "^dlock: $option: .*[*][*][*]@h"
			not matches "$stderr" SECRET
		done
		for option in "ttl = $uri" "wait = $uri" "$uri = 1" "backend = $uri" "contain = $uri"; do
			echo "$option" >"$XDG_CONFIG_HOME/dlock.conf"
			run --separate-stderr -125 "$DLOCK" check -b none
			one_line
			not matches "$stderr" SECRET
		done
		rm "$XDG_CONFIG_HOME/dlock.conf"
		for option in "--$uri" "$uri" "-w5 $uri" "run --$uri x -- true" "run $uri x y -c true" \
			"run -b file: --metrics $T/$uri/no x -- true" "run -n -b $NAMED $uri -- $uri" \
			"help $uri" "run -b file: x -- $uri" "acquire --pid $uri x"; do
			# shellcheck disable=SC2086 # words
			run --separate-stderr "$DLOCK" $option
			not equal "$stderr" ""
			not matches "$stderr$output" SECRET
		done
	done
}

@test "every value that is given is checked, whether it is used or not" {
	run --separate-stderr -125 "$DLOCK" run -n -w nightly -b "$NAMED" -- touch ran
	one_line "^dlock: --wait: bad duration 'nightly'"
	run --separate-stderr -125 "$DLOCK" run -w nightly -w 5 "$LOCK" -- touch ran
	one_line "^dlock: --wait: bad duration 'nightly'"
	local option
	for option in -n '-w 5'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 env DLOCK_WAIT=abc "$DLOCK" run $option "$LOCK" -- touch ran
		one_line "^dlock: DLOCK_WAIT: bad duration 'abc'"
	done
	for option in 'run -t 5' 'acquire -t 5' 'renew -t 5' status; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 env DLOCK_TTL=abc "$DLOCK" $option "$LOCK" -- touch ran
		# some commands have no command behind "--", which is refused first
		matches "$stderr" "^dlock: (DLOCK_TTL: bad duration 'abc'|a command behind)"
	done
	for option in -w -t -k -w5\ -w; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" run $option -- touch ran
		one_line "^dlock: --[a-z-]*: bad duration '--'"
	done
	for option in -b --note --metrics -c; do
		run --separate-stderr -125 "$DLOCK" run "$option" -- touch ran
		one_line '^dlock: --[a-z]*: no [A-Z]* given$'
	done
	misused 125 "--once-per: it must be more than 0" run --once-per 0 a -- touch ran
	misused 125 "--metrics: '-' is not the name of a file" run --metrics - a -- touch ran
	[[ ! -e ran && ! -e - ]]
}

@test "-k that is more than a third of the TTL is refused, and the default is cut" {
	run --separate-stderr -125 "$DLOCK" run -b "$NAMED" -k 20s "$LOCK" -- touch ran
	one_line '^dlock: --kill-after: .* third of the TTL.* -t 60s'
	run --separate-stderr -125 "$DLOCK" run -b "$NAMED" -t 59s -k 20s "$LOCK" -- touch ran
	run --separate-stderr -125 env DLOCK_TTL=3s "$DLOCK" run -b "$NAMED" -k 1001ms "$LOCK" -- touch ran
	one_line ' -t 4s'
	printf '[r]\nuri = %s\nkill-after = 20s\n' "$NAMED" >"$XDG_CONFIG_HOME/dlock.conf"
	run --separate-stderr -125 "$DLOCK" run -b r "$LOCK" -- touch ran
	one_line "^dlock: $XDG_CONFIG_HOME/dlock.conf:3: .* -t 60s"
	[[ ! -e ran ]]
	run -0 "$DLOCK" status -b r
	run -0 "$DLOCK" run -b r -t 60s "$LOCK" -- true
	run -0 "$DLOCK" run -b r -k 1s "$LOCK" -- true
	run -0 "$DLOCK" run -b "$NAMED" -t 3s "$LOCK" -- true
	# a lock in a directory has no lease
	"$DLOCK" setup -b "file://$T/locks"
	run -0 "$DLOCK" run -b "file://$T/locks" -k 20s "$LOCK" -- true
}

@test "options behind NAME, and other names of options" {
	export DLOCK_BACKEND=$NAMED
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -v -t 20s -- echo -v --frob
	equal "$output" '-v --frob'
	matches "$stderr" 'acquired'
	run --separate-stderr -7 "$DLOCK" run "$LOCK" -n -c 'exit 7'
	run --separate-stderr -0 "$DLOCK" run "$LOCK" -h
	equal "$output" "$("$DLOCK" help run)"
	run --separate-stderr -125 "$DLOCK" run "$LOCK" --frob -- true
	one_line "unknown option '--frob'"
	# the "--" is missing
	run --separate-stderr -125 "$DLOCK" run "$LOCK" ls -l
	one_line "no command given: put it behind '--'"
	hold --
	local option
	for option in --nonblocking --nb --no-wait --timeout=0 '--timeout 0'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -124 "$DLOCK" run $option "$LOCK" -- true
		# shellcheck disable=SC2086 # words
		run --separate-stderr -124 "$DLOCK" acquire "$LOCK" $option
	done
	run --separate-stderr -124 "$DLOCK" wait --timeout 0 "$LOCK"
	release
	for option in -V --version 'run -V' 'status --version'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -0 "$DLOCK" $option
		equal "$output" "$("$DLOCK" version)"
	done
}

@test "help: 80 columns, what is usual first, examples, the environment" {
	local command
	for command in '' run acquire renew verify release status wait break check setup help version; do
		# shellcheck disable=SC2086 # may be empty
		run -0 "$DLOCK" help $command
		not grep -E '.{80}' <<<"$output"
		[[ $command == version ]] || not matches "$output" 'with version|for renew'
	done
	for command in --help 'help run'; do
		# shellcheck disable=SC2086 # words
		run -0 "$DLOCK" $command
		equal "$(grep -c '^    dlock run ' <<<"$output")" 3 examples
		matches "$output" 'DLOCK_BACKEND, DLOCK_TTL, DLOCK_WAIT'
	done
	"$DLOCK" help run | sed -n '/^Usual/,/^$/p' >usual
	equal "$(grep -cE '^  .{3} --' usual)" 10 options
	# nothing has run
	run --separate-stderr -125 "$DLOCK"
	equal "$output" ""
	equal "$stderr" "$("$DLOCK" --help)"
}

@test "where CI is set, a wait of 10 s writes a line" {
	local variables errors=() waiters=()
	export DLOCK_BACKEND=$NAMED
	hold --
	for variables in CI=true CI= CI=true:-q CI=true:-v; do
		# shellcheck disable=SC2046 # may be empty
		start env "${variables%%:*}" "$DLOCK" run -w 13s \
			$([[ $variables != *:* ]] || echo "${variables#*:}") "$LOCK" -- true
		waiters+=("$PID") errors+=("$ERR")
	done
	for variables in "${waiters[@]}"; do
		join "$variables" 30
	done
	release
	equal "$(grep -c 'waiting, .*held by .* for 1[0-9]s' "${errors[0]}")" 1
	equal "$(grep -c . "${errors[0]}")" 2 "lines: and that it was not obtained"
	not grep waiting "${errors[1]}" "${errors[2]}"
	matches "$(<"${errors[3]}")" 'waiting, .*held by'
}

@test "a blank at an end of a name is shown in quotes" {
	export DLOCK_BACKEND=$NAMED
	local name
	for name in "$LOCK " " $LOCK"; do
		start "$DLOCK" run "$name" -- sleep 100
		wait_until 5 not "$DLOCK" status -q "$name"
		run --separate-stderr -124 "$DLOCK" run -n "$name" -- true
		one_line "^dlock: '$name': held by "
		run --separate-stderr -1 "$DLOCK" status "$name"
		matches "${lines[1]}" "^'$name' "
		kill "$PID"
		join "$PID"
	done
}
