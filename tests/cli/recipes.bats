# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The recipes of the README and of docs/recipes.md, and the examples of the manual pages, do what is
# written beside them: the tests take them from there and run them, with the suite's server in the
# place of redis.example.com.

load ../lib/helpers
load ../redis/server

# blocks LANGUAGE: the fenced blocks of that language, those of the README first, each into
# ./block.N
blocks() {
	rm -f block.*
	awk -v fence='```'"$1" '
		$0 == fence { on = 1; n++; next }
		/^```/ { on = 0 }
		on { print > ("block." n) }' "$TOP/README.md" "$TOP/docs/recipes.md"
}

# block LANGUAGE TEXT: the one of them that has TEXT in it, with the suite's server in it,
# into ./block
block() {
	local found
	blocks "$1"
	found=$(grep -lF -e "$2" block.*)
	equal "$(wc -l <<<"$found")" 1 "blocks with '$2'"
	local_words <"$found" >block
}

# local_words: lines of a recipe on standard input, with the server of the suite in them
local_words() {
	sed "s|redis://redis.example.com|$REDIS|g"
}

# stub NAME...: programs that the recipes start, which tell that they ran, and do what
# ./NAME.does says
stub() {
	local name
	mkdir -p bin
	for name; do
		printf '#!/bin/sh\necho "%s $* $DLOCK_NAME" >>%q\n[ ! -e %q ] || . %q\n' "$name" "$T/ran" \
			"$T/$name.does" "$T/$name.does" >"bin/$name"
		chmod +x "bin/$name"
		ln -sf "bin/$name" "$name"
	done
	[[ -e bin/dlock ]] || ln -s "$DLOCK" bin/dlock
	PATH=$T/bin:$PATH
	unset DLOCK_BACKEND
}

# held NAME: somebody holds it, on the suite's server
held() {
	run "$DLOCK" status -b "$REDIS" "$1"
	((status == 1))
}

# kind FILE: prints what an example is
kind() {
	case $(<"$1") in
	'#!'*) echo script ;;
	PATH=* | [0-9*]*' * * '*) echo crontab ;;
	'class '*) echo python ;;
	'-- '*) echo sql ;;
	*)
		if has_line "$1" '^(fence|hold) [0-9a-f]+'; then
			echo lock-file
		elif has_line "$1" '^[a-z-]+ = '; then
			echo dlock.conf
		else
			echo commands
		fi
		;;
	esac
}

# displays PAGE RENDERER [COLUMNS]: the displays of a manual page as mandoc or groff shows them on a
# terminal of 80 columns, each into ./display.N, and as the page has them, into ./source.N
displays() {
	local -x LC_ALL=C.UTF-8
	local width=$((${3:-80} - 2))
	rm -f display.* source.*
	awk '
		function start() { n++; print ".Pp\nDISPLAY\n.Pp" }
		function line(text) {
			gsub(/\\-/, "-", text)
			gsub(/\\e/, "\\", text)
			print text > ("source." n)
		}
		/^\.Dl / { start(); print; print ".Pp\nTEXT\n.Pp"; line(substr($0, 5)); next }
		/^\.Bd -literal/ { start(); on = 1; print; next }
		/^\.Ed/ && on { on = 0; print; print ".Pp\nTEXT\n.Pp"; next }
		on { line($0) }
		{ print }' "$1" >marked
	case $2 in
	# letters that are bold or underlined are written over others
	mandoc) mandoc -T utf8 -O width=$width marked | sed $'s/.\b//g' ;;
	groff) groff -mandoc -Tutf8 -P-cbou -rLL=${width}n -rcR=1 marked 2>/dev/null ;;
	esac >rendered
	awk '
		/^ *DISPLAY$/ { on = 1; n++; indent = 0; next }
		/^ *TEXT$/ { on = 0; next }
		on && /[^ ]/ {
			if (!indent)
				indent = match($0, /[^ ]/)
			print substr($0, indent) > ("display." n)
		}' rendered
	local there=(source.*) shown=(display.*)
	equal "${#shown[@]}" "${#there[@]}" "displays of ${1##*/}"
}

# bats test_tags=deeper,more
@test "manual pages: at 80 columns and more an example has the lines that it has in the page" {
	local page renderer columns file count=0 widths lock_files
	need mandoc groff
	read -ra widths < <(long_or '80 90 100 120' 80)
	for page in "$TOP"/man/*.[0-9]; do
		lock_files=
		for renderer in "${widths[@]/#/mandoc }" "${widths[@]/#/groff }"; do
			columns=${renderer#* }
			displays "$page" "${renderer% *}" "$columns"
			for file in source.*; do
				if [[ $renderer == "mandoc 80" && -e $file && $(kind "$file") == lock-file ]]; then
					lock_files+=" $file "
				fi
				[[ -e $file && $lock_files != *" $file "* ]] || continue
				# each renderer has its own width of a tab
				diff -Bw "$file" "display.${file#*.}" || fail "${page##*/}, $renderer: broken"
				((++count))
			done
			equal "$(LC_ALL=C.UTF-8 grep -E "^.{$((columns + 1))}" rendered)" "" \
				"${page##*/}, $renderer: wider"
			# so is a command in the text, which may be pasted, too
			# shellcheck disable=SC1112 # these quotes are meant
			not grep -n '‘dlock [^’]*$' rendered || fail "${page##*/}, $renderer: broken"
		done
	done
	between "$count" $((20 * ${#widths[@]})) 9999 displays
}

# mapped NAME COMMAND...: ./bin/NAME runs COMMAND with its own arguments, in which ./map has put the
# hosts and directories of the test
mapped() {
	cat >"bin/$1" <<-END
		#!/bin/bash
		[[ -z \${DLOCK_BACKEND-} ]] || DLOCK_BACKEND=\$(sed -Ef '$T/map' <<<"\$DLOCK_BACKEND")
		args=()
		for arg; do
			args+=("\$(sed -Ef '$T/map' <<<"\$arg")")
		done
		exec ${@:2} "\${args[@]}"
	END
}

# sandbox: lets the examples of the pages run. The programs that they call get the servers of the test
# and its directory in the place of those that the pages name.
sandbox() {
	stub
	rm bin/dlock
	load ../etcd/etcd
	private_etcd
	# Whom dlock-etcd.7 names.
	ec user add USER:three >/dev/null
	local etcd=$P_PORT
	private_zookeeper
	local zookeeper=$P_PORT
	load ../mysql/mysql
	private_mysql
	pmy "CREATE DATABASE jobs; CREATE USER admin@'127.0.0.1' IDENTIFIED BY 'one';
		CREATE USER jobs@'%' IDENTIFIED BY 'two'; GRANT ALL ON jobs.* TO admin@'127.0.0.1';
		GRANT SELECT, INSERT, UPDATE, DELETE ON jobs.* TO jobs@'%'"
	source "$TOP/tests/lib/services/postgres.bash"
	postgres_start "$T/postgres"
	postgres_at "$T/postgres" "CREATE ROLE admin LOGIN PASSWORD 'one'; CREATE ROLE jobs LOGIN PASSWORD 'two';
		GRANT admin TO jobs" >/dev/null
	postgres_at "$T/postgres" "CREATE DATABASE jobs OWNER admin" >/dev/null
	mkdir -p root/{etc,home/ann,run/dlock,run/lock/dlock,srv,var/lib/prometheus/node-exporter}
	cat >map <<-END
		s|redis\.example\.com|127.0.0.1:$REDIS_PORT|
		s#^(postgres(ql)?://[^@]*@)db\.example\.com#\1127.0.0.1:$(<"$T/postgres/port")#
		s|db\.example\.com|127.0.0.1:$P_PORT|
		s|zk1,zk2,zk3|127.0.0.1:$zookeeper|
		s|etcd1[^/]*etcd3(\.example\.com)?|127.0.0.1:$etcd|
		s#(^|=|//)/(etc|home|run|srv|var)(/|\$)#\1$T/root/\2\3#
		# a group of the pages that this machine may not have
		s|^jobs\$|$(id -gn)|
	END
	mapped dlock "$DLOCK"
	mapped flock "$(type -P flock)"
	mapped install "$(type -P install)"
	mapped redis-cli "$(type -P "$REDIS_CLI")" -e -s "$REDIS_DIR/sock"
	printf '#!/bin/sh\nETCDCTL_API=3 exec %q --endpoints 127.0.0.1:%s "$@"\n' "$(type -P "$ETCDCTL")" \
		"$etcd" >bin/etcdctl
	printf '#!/bin/sh\nexec %q --no-defaults --socket=%q --user=root\n' "$(type -P mariadb)" \
		"$P_DIR/sock" >bin/mariadb
	printf '#!/bin/sh\nexec %q -X -q -h %q -p %s -U postgres jobs\n' "$(type -P psql)" "$T/postgres" \
		"$(<"$T/postgres/port")" >bin/psql
	# so that nobody waits for long
	printf '#!/bin/sh\n[ "$*" != 10 ] || set -- 2\nexec %q "$@"\n' "$(type -P sleep)" >bin/sleep
	chmod +x bin/*
	install -m 600 <(echo one) admin.pw
	install -m 600 <(echo two) root/etc/db.pw
	blocks ini
	sed -Ef map block.1 >"$XDG_CONFIG_HOME/dlock.conf"
}

tidy() {
	[[ ! -f $T/postgres/pid ]] || postgres_stop "$T/postgres"
}

# is_recipe FILE: a script of a page is one of the recipes, which have tests of their own
is_recipe() {
	local language file
	for language in sh bash; do
		blocks "$language"
		for file in block.*; do
			! diff -Bqw "$1" "$file" >/dev/null || return 0
		done
	done
	fail "not a recipe: $(<"$1")"
}

# run_example FILE: somebody pastes it
run_example() {
	local word
	case $(kind "$1") in
	script)
		is_recipe "$1"
		return
		;;
	python)
		/usr/bin/python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$1"
		return
		;;
	dlock.conf)
		mkdir -p conf
		cp "$1" conf/dlock.conf
		XDG_CONFIG_HOME=$T/conf "$DLOCK" run -b "$FILE" "$LOCK" -- true
		return
		;;
	lock-file) return ;;
	sql)
		grep '^SELECT' "$1" >statement
		psql <statement >/dev/null
		return
		;;
	crontab) cron_line "$1" ;;
	commands) cp "$1" line ;;
	esac
	while read -r word; do
		type -P "$word" >/dev/null || stub "$word"
	done < <(grep -oE ' -- [^ ]+' "$1" | sed 's/ -- //')
	run --separate-stderr bash -eo pipefail line
	if grep -q 'sleep 10 &' "$1"; then
		# the second one gives up
		equal "$status" 124
		one_line '^dlock: backup: held by .* pid [0-9]+ \(.*\) for .*: sleep \(on [a-z]+[: ].*\)$'
	else
		equal "$status" 0 "$(<"$1")"
	fi
}

# bats test_tags=more
@test "manual pages: every example works as it is rendered" {
	local page file n count=0
	need groff
	sandbox
	for page in "$TOP"/man/*.[0-9]; do
		# the one file
		if [[ $page == */dlock-postgres.7 && $("$DLOCK" version) == *'postgresql: not installed'* ]]; then
			continue
		fi
		displays "$page" groff
		for ((n = 1; ; n++)); do
			[[ -e display.$n ]] || break
			run_example "display.$n"
			((++count))
		done
		# what a crontab's line keeps for some time
		rcli flushall
	done
	between "$count" 10 999 examples
	# no command has run without a lock
	between "$(wc -l <ran)" 3 99 "commands under a lock"
	not has_line ran ' $'
	tidy
	wait_until 5 no_strays_but "${SERVICES[@]}"
}

@test "README and recipes: every dlock command line works as it stands" {
	sandbox
	release
	blocks sh
	local count=0 file
	for file in $(printf '%s\n' block.* | sort -V); do
		# a script has a test of its own, what operators do, too; the installation is not
		# tested here
		if ! grep -q dlock "$file" || grep -qE '^(#!|sudo|dlock check)' "$file"; then
			continue
		fi
		run_example "$file"
		((++count))
	done
	between "$count" 5 99 "blocks with command lines"
	has_line ran '^./deploy.sh  deploy$'
	not has_line ran ' $'
	# nobody else can release the lock
	equal "$(find . -name '*.token' -perm /077)" "" "readable by others"
	tidy
	wait_until 5 no_strays_but "${SERVICES[@]}"
}

# cron_line FILE: what cron runs for the line of this crontab, as ./line: its command, with no more in
# its environment than cron and the crontab put there. The test's programs are in the place of
# /usr/local/bin.
cron_line() {
	local command
	# five fields, and in /etc/cron.d the user
	command=$(sed -En 's/^([^ =]+ ){5}(root )?//p' "$1")
	matches "$command" $'^[^%\n]+$' "one command, which has no %"
	{
		printf 'env -i DLOCK_TEST_MARK=%q XDG_CONFIG_HOME=%q ' "$MARK" "$XDG_CONFIG_HOME"
		printf 'HOME=%q LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin ' "$HOME"
		sed -n "s|/usr/local/bin|$T/bin|; s/^\([A-Z]*=.*\)/\1 /p" "$1" | tr -d '\n'
		printf 'sh -c %q\n' "$command"
	} >line
}

# crontab_line TEXT: the same for the block of a crontab that has TEXT in it
crontab_line() {
	block crontab "$1"
	cron_line block
}

# cron_hosts SHIFT...: runs ./line on as many hosts, whose clocks are this far from the true time: cron
# there starts it when the host's clock says so. Sets PIDS. What cron would mail is in OUT and ERR.
cron_hosts() {
	local shift host=0
	PIDS=()
	for shift; do
		((++host))
		mkdir -p "bin.$host"
		clock "$shift" "clock.$host"
		printf '#!/bin/sh\nTORTURE_CLOCK=%q LD_PRELOAD=%q exec %q "$@"\n' "$T/clock.$host" \
			"$BUILD/tests/preload/wallclock.so" "$DLOCK" >"bin.$host/dlock"
		chmod +x "bin.$host/dlock"
		sed "s|=$T/bin|=$T/bin.$host:$T/bin|" line >"line.$host"
		start sh -c 'sleep "$(($1 - $2))"; exec sh "$3"' sh "$1" "$shift" "line.$host"
		PIDS+=("$PID")
	done
}

# mailed STATUS...: with which status the lines of cron_hosts end, and that cron mails nothing
mailed() {
	local wanted
	for wanted; do
		join "${PIDS[0]}" 20
		equal "$status" "$wanted"
		PIDS=("${PIDS[@]:1}")
	done
	cat out.* err.* >mail
	equal "$(<mail)" "" "what cron would mail"
}

@test "cron recipe: one of three hosts does the work, although their clocks are 4 s apart" {
	stub nightly-backup
	crontab_line '--once-per 12h -E 0 nightly -- nightly-backup'
	cron_hosts +4 0 -4
	mailed 0 0 0
	equal "$(<ran)" "nightly-backup  nightly" "runs"
	between "$(rcli pttl dlock:nightly)" 43180000 43192000
	# the next night
	rcli del dlock:nightly
	sh line
	equal "$(wc -l <ran)" 2 runs
	rcli del dlock:nightly
}

@test "cron recipe: a job that fails on one host, and a host that dies, are followed by the next host" {
	local family statuses=()
	stub nightly-backup
	echo "case \$(wc -l <$T/ran) in 1) sleep 1; exit 7 ;; 2) >$T/second; exec sleep 60 ;; esac" \
		>nightly-backup.does
	crontab_line '--once-per 12h -E 0 nightly -- nightly-backup'
	sed -i 's/--once-per/-t\\ 2s\\ &/' line
	cron_hosts 0 0 0
	wait_until 10 test -e second
	# the second host crashes: all that runs there is gone at once, and nothing is released
	family=
	for PID in "${PIDS[@]}"; do
		if [[ $(tree "$PID" | xargs ps -o args= -p) == *"sleep 60"* ]]; then
			family=$(tree "$PID")
		fi
	done
	matches "$family" '[0-9]' "the processes of the second host"
	# shellcheck disable=SC2086 # words
	kill -STOP $family
	# shellcheck disable=SC2086 # words
	kill -KILL $family
	for PID in "${PIDS[@]}"; do
		join "$PID" 20
		statuses+=("$status")
	done
	equal "$(printf '%s\n' "${statuses[@]}" | sort -n | xargs)" "0 7 137"
	equal "$(wc -l <ran)" 3 runs
	rcli del dlock:nightly
}

# bats test_tags=more
@test "at-most-once recipe: a host that crashes in the job is not followed by another one" {
	local host family
	stub send-invoices
	echo "echo \$\$ >$T/sender; exec sleep 60" >send-invoices.does
	crontab_line send-invoices
	start sh line
	wait_until 10 test -s sender
	# the host crashes: all that runs there is gone at once, and nothing is released
	family=$(tree "$PID")
	# shellcheck disable=SC2086 # words
	kill -STOP $family
	# shellcheck disable=SC2086 # words
	kill -KILL $family
	wait_until 5 no_strays
	for host in 2 3; do
		run --separate-stderr -0 sh line
		equal "$output$stderr" "" "what cron would mail on host $host"
	done
	equal "$(<ran)" "send-invoices  invoices" runs
	# for as long as the page says
	between "$(rcli pttl dlock:invoices)" 840000 900000
	rcli del dlock:invoices
	# and for as long after a job that has ended
	rm send-invoices.does
	run --separate-stderr -0 sh line
	between "$(rcli pttl dlock:invoices)" 840000 900000
	rcli del dlock:invoices
}

@test "scripts parse, and pass shellcheck where it is" {
	local file language
	for language in sh bash; do
		blocks "$language"
		grep -l '^#!' block.* >scripts
		while read -r file; do
			bash -n "$file"
			! type -P shellcheck >/dev/null || run -0 shellcheck "$file"
		done <scripts
	done
}

@test "script recipe" {
	stub
	block sh 'importing with fence'
	install block import.sh
	local command
	# however it is started
	for command in ./import.sh "$T/import.sh" 'sh import.sh' "env PATH=$PATH:$T import.sh"; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr $command
		equal "$status" 0 "$command"
		matches "$output" '^importing with fence [0-9]{16}$' "$command"
		equal "$stderr" ""
	done
}

# reports: the bash recipe in the background, once its last step runs under the lock
reports() {
	stub collect-reports merge-reports publish-reports
	echo "echo \$\$ >$T/publisher; exec sleep 60" >publish-reports.does
	block bash publish-reports
	# so that the loss shows soon
	DLOCK_TTL=1s start bash block
	wait_until 10 test -s publisher
	held reports
}

@test "bash recipe" {
	stub collect-reports merge-reports publish-reports
	block bash publish-reports
	run --separate-stderr -0 bash block
	equal "$output$stderr" ""
	equal "$(<ran)" $'collect-reports  \nmerge-reports  \npublish-reports  '
	not held reports
	wait_until 5 no_strays
	# a step that fails ends it
	echo 'exit 7' >merge-reports.does
	run --separate-stderr -7 bash block
	not held reports
}

# bats test_tags=more
@test "bash recipe: killed" {
	reports
	kill -KILL "$PID"
	wait_until 1 not held reports
	kill "$(<publisher)"
	join "$PID"
}

# bats test_tags=more
@test "bash recipe: ended, and lost" {
	reports
	kill -TERM "$PID"
	join "$PID"
	equal "$status" 143
	ended "$(<publisher)"
	not held reports
	equal "$(<"$ERR")" ""
	rm publisher
	reports
	"$DLOCK" break -q -b "$REDIS" --yes reports
	join "$PID" 5
	equal "$status" 123
	ended "$(<publisher)"
	equal "$(<"$ERR")" \
		"dlock: reports: this token does not hold the lock; if its hold has ended, unset DLOCK_TOKEN"
}

@test "POSIX sh recipe" {
	local shell
	stub import-file
	block sh import-file
	mkdir inbox
	touch inbox/a inbox/b
	for shell in dash bash; do
		need "$shell"
		rm -f ran
		run --separate-stderr -0 "$shell" block
		equal "$output$stderr" ""
		equal "$(<ran)" $'import-file inbox/a \nimport-file inbox/b '
		not held inbox
	done
	# somebody else is at it
	rm ran
	token=$("$DLOCK" acquire -b "$REDIS" inbox)
	run --separate-stderr -0 dash block
	equal "$output$stderr" ""
	not test -e ran
	"$DLOCK" release -b "$REDIS" inbox "$token"
	# lost in the first step: there is no second one
	echo "dlock break -q -b $REDIS --yes inbox" >import-file.does
	run --separate-stderr -123 dash block
	equal "$(wc -l <ran)" 1 "steps"
	equal "${stderr_lines[0]}" \
		"dlock: inbox: this token does not hold the lock; if its hold has ended, unset DLOCK_TOKEN"
}

# yaml_lines KEY: the list items, or the text, of that key in ./block
yaml_lines() {
	awk -v key="$1:" '
		$1 == key || ($1 == "-" && $2 == key) {
			match($0, /[a-z_]+:/)
			text = substr($0, RSTART + RLENGTH + 1)
			on = text == ""
			if (!on) print text
			next
		}
		on && !/^ *- / { on = 0 }
		on { sub(/^ *- /, ""); print }' block
}

# ci_environment: exports what ./block sets for its jobs: the backend, and that one is required
ci_environment() {
	local required
	required=$(sed -n 's/^ *DLOCK_REQUIRE_BACKEND: "\(.*\)"/\1/p' block)
	run --separate-stderr -125 env DLOCK_REQUIRE_BACKEND="$required" dlock status
	one_line 'no backend is named'
	DLOCK_BACKEND=$(sed -n 's/^ *DLOCK_BACKEND: //p' block)
	equal "$DLOCK_BACKEND" "$REDIS"
	export DLOCK_BACKEND DLOCK_REQUIRE_BACKEND=$required
}

# release: puts a release's file into ./released, its address and sum into the environment, and commands
# before curl, install and sudo, which fetch it and write below $T
release() {
	mkdir -p bin released
	cp "$BUILD/dlock" released/dlock
	export DLOCK_RELEASE=https://releases.example.com/dlock PATH=$T/bin:$PATH
	DLOCK_SHA256=$(sha256sum <released/dlock)
	export DLOCK_SHA256=${DLOCK_SHA256%% *}
	cat >bin/curl <<-'END'
		#!/bin/sh
		[ "$1 $3" = "-fsSLo $DLOCK_RELEASE" ] && cp "$T/released/dlock" "$2"
	END
	cat >bin/install <<-'END'
		#!/bin/sh
		[ "$1 $2 $3 $4" = "-m 755 dlock /usr/local/bin/" ] && cp "$3" "$T/installed"
	END
	printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
	chmod 755 bin/*
}

# fetches SCRIPT: it installs the release's file, and stops at one that is another
fetches() {
	run -0 bash -eo pipefail "$1"
	cmp installed released/dlock
	rm installed
	echo more >>released/dlock
	run bash -eo pipefail "$1"
	[[ $status != 0 && ! -e installed ]]
}

@test "the one file in a job: only the file with the release's sum is used" {
	release
	block sh DLOCK_RELEASE
	run -0 sh -e block
	[[ -x dlock ]]
	echo more >>released/dlock
	run sh -e block
	[[ $status != 0 ]]
}

@test "GitLab CI, the simple way" {
	stub deploy.sh
	block yaml deploy-production
	ci_environment
	release
	yaml_lines before_script >fetch.sh
	equal "$(wc -l <fetch.sh)" 3
	fetches fetch.sh
	yaml_lines script >work.sh
	run --separate-stderr -0 bash -eo pipefail work.sh
	matches "$stderr" 'acquired after [0-9a-z.]+, fence [0-9]+'
	equal "$(<ran)" "deploy.sh production deploy-production"
}

# bats test_tags=more
@test "GitLab CI, in steps" {
	stub migrate.sh deploy.sh
	block yaml after_script
	ci_environment
	yaml_lines script >work.sh
	yaml_lines after_script >after.sh
	equal "$(wc -l <work.sh) $(wc -l <after.sh)" "4 2" lines
	# what others may read of it, and what a log shows
	echo 'stat -c "%a %s" .dlock-token >mode; dlock status production >held || :' >deploy.sh.does
	run --separate-stderr bash -eo pipefail work.sh
	equal "$status" 0
	equal "$output" ""
	not grep -qE '[0-9a-f]{32}' <<<"$stderr"
	equal "$(<ran)" $'migrate.sh  \ndeploy.sh production '
	equal "$(<mode)" "600 33"
	has_line held '^production +exclusive'
	held production
	run --separate-stderr -0 bash -eo pipefail after.sh
	equal "$output$stderr" ""
	not held production
	not test -e .dlock-token
	# a step fails
	echo 'exit 3' >migrate.sh.does
	run -3 bash -eo pipefail work.sh
	run -0 bash -eo pipefail after.sh
	not held production
	# it is not obtained: nothing is to be given back
	token=$("$DLOCK" acquire production)
	sed -i 's/-w 30m/-w 2s/' work.sh
	run -124 bash -eo pipefail work.sh
	run -0 bash -eo pipefail after.sh
	"$DLOCK" release production "$token"
}

# bats test_tags=more
@test "GitHub Actions recipe" {
	local step steps
	stub deploy.sh
	block yaml RUNNER_TEMP
	ci_environment
	release
	sed -n '/run: |/,/- name/{s/^ \{10\}//p}' block | sed 's/\${{ vars.\([A-Z0-9_]*\) }}/$\1/' >fetch.sh
	equal "$(wc -l <fetch.sh)" 3
	fetches fetch.sh
	export RUNNER_TEMP=$T/runner
	mkdir runner
	mapfile -t steps < <(sed '/run: |/d' block >rest; mv rest block; yaml_lines run)
	equal "${#steps[@]}" 3 steps
	for step in "${steps[@]}"; do
		run --separate-stderr bash -e -c "$step"
		equal "$status" 0 "$step"
		not grep -qE '[0-9a-f]{32}' <<<"$output$stderr"
	done
	equal "$(<ran)" "deploy.sh production "
	equal "$(stat -c %a runner/lock)" 600
	not held production
	# not obtained: the last step has nothing to give back
	token=$("$DLOCK" acquire production)
	run -124 bash -e -c "${steps[0]/-w 30m/-w 2s}"
	run -0 bash -e -c "${steps[2]}"
	"$DLOCK" release production "$token"
	# the lock was lost before: it fails
	run -0 bash -e -c "${steps[0]}"
	"$DLOCK" break -q --yes production
	run -123 bash -e -c "${steps[2]}"
}

# flow_command: the words of `command: [...]` in ./block, each on a line; and its backend into the
# environment
flow_command() {
	sed -n 's/^ *command: \[\(.*\)\]$/\1/p' block | sed 's/, /\n/g; s/"//g' >words
	[[ -s words ]]
	DLOCK_BACKEND=$(sed -n '/name: DLOCK_BACKEND/{n;s/^ *value: //p}' block)
	export DLOCK_BACKEND
	equal "$DLOCK_BACKEND" "$REDIS"
	mapfile -t WORDS <words
}

# grace_of WORD...: the seconds of -k, which a service must give it before it kills all
grace_of() {
	printf '%s\n' "$@" | sed -n '/^-k$/{n;s/s$//p}'
}

# nightly SECONDS WORD...: of three that run these words one does the work, and has the time of -k to
# end, for the service kills all only after SECONDS
nightly() {
	local n
	for n in 1 2 3; do
		run --separate-stderr "${@:2}"
		equal "$status" 0 "number $n"
	done
	equal "$(<ran)" "nightly-backup  nightly" runs
	(($1 > $(grace_of "${@:2}")))
	rcli del dlock:nightly
}

@test "Kubernetes: the CronJob" {
	stub nightly-backup
	block yaml 'kind: CronJob'
	flow_command
	nightly "$(sed -n 's/^ *terminationGracePeriodSeconds: //p' block)" "${WORDS[@]}"
}

# bats test_tags=more
@test "Kubernetes: the init step of a Deployment" {
	local n pids=()
	stub migrate-database
	echo 'echo begins >>steps; sleep 0.3; echo ends >>steps' >migrate-database.does
	block yaml 'kind: Deployment'
	flow_command
	for n in 1 2 3; do
		start "${WORDS[@]}"
		pids+=("$PID")
	done
	for n in "${pids[@]}"; do
		join "$n"
		equal "$status" 0
	done
	equal "$(tr '\n' ' ' <steps)" 'begins ends begins ends begins ends '
}

# bats test_tags=more
@test "Nomad recipe" {
	stub nightly-backup
	block hcl periodic
	! type -P terraform >/dev/null || run -0 terraform fmt -check - <block
	equal "$(tr -cd '{' <block | wc -c)" "$(tr -cd '}' <block | wc -c)" braces
	equal "$(sed -n 's/^ *command *= "\(.*\)"$/\1/p' block)" "$(sed -n 's/^ *destination *= "\(.*\)"$/\1/p' block)"
	sed -n 's/^ *args *= //p' block | jq -r '.[]' >words
	mapfile -t WORDS <words
	DLOCK_BACKEND=$(sed -n 's/^ *DLOCK_BACKEND *= "\(.*\)"$/\1/p' block)
	export DLOCK_BACKEND
	nightly "$(sed -n 's/^ *kill_timeout *= "\(.*\)s"$/\1/p' block)" dlock "${WORDS[@]}"
}

# bats test_tags=more
@test "Dockerfile: its instructions, its packages, and what it installs" {
	local file=$TOP/docs/Dockerfile
	not grep -vE '^(#.*|FROM debian:[0-9]+-slim( AS build)?|(RUN|COPY|ENTRYPOINT) .*|)$' "$file"
	# the packages that README names for the build, and the C library's headers
	{
		sed -n '/\.deb$/d; s/^sudo apt install //p' "$TOP/README.md" | tr ' ' '\n'
		echo libc6-dev
	} | sort >wanted
	sed -n 's/^RUN apt-get install -y --no-install-recommends //p' "$file" | tr ' ' '\n' | sort | diff wanted -
	# the shell lines parse
	sed -n 's/^RUN //p' "$file" >lines
	sh -n lines
	# make install makes the program with these settings
	sed -n 's|^RUN make -C /tmp/dlock \(.*\)|\1|p' "$file" | sed "s|/tmp/image|$T/image|" >settings
	# shellcheck disable=SC2046 # words
	run -0 make -s -C "$TOP" -o all BUILD="$BUILD" $(<settings)
	[[ -x image/usr/bin/dlock && -e image/usr/lib/dlock/dlock-tls.so ]]
	equal "$(sed -n 's/^ENTRYPOINT //p' "$TOP/docs/Dockerfile")" '["dlock"]'
}

# bats test_tags=more
@test "YAML recipes are YAML" {
	local file
	blocks yaml
	for file in block.*; do
		not grep -n $'\t' "$file"
		/usr/bin/python3 -c 'import yaml' 2>/dev/null || continue
		/usr/bin/python3 -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1])))' "$file" >loaded
		# a colon or a brace at the wrong place makes something else of a command line
		not grep -qE '(script|run|cmd).: (\{|None)' loaded || fail "$file: $(<loaded)"
	done
}

# series HOST: reads metrics, and writes them as promtool takes them, the same for 30 hours
series() {
	sed -n "s/^\(dlock_.*host=\"\)[^\"]*\(.*}\) \(.*\)/  - series: '\1$1\2'\n    values: '\3+0x30'/p"
}

# alerts NAME: those that the rules in ./rules.yml raise after 27 hours of the metrics in ./a.prom
# and ./b.prom must be these: of that name, or none
alerts() {
	{
		printf 'rule_files: [rules.yml]\ntests:\n- interval: 1h\n  input_series:\n'
		series a <a.prom
		series b <b.prom
		printf '  promql_expr_test:\n  - expr: %s\n    eval_time: 27h\n    exp_samples: %s\n' \
			"count by (alertname) (ALERTS{alertstate=\"firing\"})" \
			"[${1:+{labels: '{alertname=\"$1\"\}', value: 1\}}]"
	} >unit.yml
	run promtool test rules unit.yml
	((status == 0)) || fail "alerts: expected ${1:-none}"
}

# bats test_tags=more
@test "Prometheus recipe" {
	need promtool
	stub nightly-backup
	block yaml JobMissing
	cp block rules.yml
	run -0 promtool check rules rules.yml
	crontab_line nightly.prom
	sed -i "s|/var/lib/prometheus/node-exporter/|$T/|" line
	# two hosts: one does the job, the other one finds the lock taken
	sh line
	mv nightly.prom a.prom
	sh line
	mv nightly.prom b.prom
	equal "$(wc -l <ran)" 1 runs
	alerts
	# neither of them does it
	mv a.prom done.prom
	cp b.prom a.prom
	alerts JobMissing
	# one of them does it without success, and the other one has done it
	rcli del dlock:nightly
	echo 'exit 3' >nightly-backup.does
	run -3 sh line
	mv nightly.prom a.prom
	mv done.prom b.prom
	alerts JobFailed
	rcli del dlock:nightly
}

# lock_alerts NAME SAMPLE...: the rules in ./rules.yml raise this alert alone, or none, with these
# values of the metrics of a lock, each METRIC=VALUE, which are there for an hour
lock_alerts() {
	local metric
	{
		printf 'rule_files: [rules.yml]\ntests:\n- interval: 1m\n  input_series:\n'
		for metric in "${@:2}"; do
			printf "  - series: 'dlock_lock_%s{name=\"a\",backend=\"b\"}'\n    values: '%s+0x60'\n" \
				"${metric%=*}" "${metric#*=}"
		done
		printf '  promql_expr_test:\n  - expr: %s\n    eval_time: 30m\n    exp_samples: %s\n' \
			"count by (alertname) (ALERTS{alertstate=\"firing\"})" \
			"[${1:+{labels: '{alertname=\"$1\"\}', value: 1\}}]"
	} >unit.yml
	run promtool test rules unit.yml
	((status == 0)) || fail "alerts of ${*:2}: expected ${1:-none}"
}

# bats test_tags=more
@test "Prometheus recipe for all locks" {
	need promtool
	block yaml LockHeldTooLong
	cp block rules.yml
	run -0 promtool check rules rules.yml
	lock_alerts '' age_seconds=20000 held=1 waiters=0
	lock_alerts LockHeldTooLong age_seconds=22000 held=1 waiters=0
	# a queue that moves, one that does not, and one at a lock that nobody takes
	lock_alerts '' age_seconds=100 held=1 waiters=9 oldest_wait_seconds=4000
	lock_alerts WaitersWithoutProgress age_seconds=1900 held=1 waiters=9 oldest_wait_seconds=1850
	lock_alerts WaitersWithoutProgress held=0 waiters=1 oldest_wait_seconds=1850
	lock_alerts '' held=1 age_seconds=1900 waiters=1 oldest_wait_seconds=1700
	# these metrics are those that dlock prints
	grep -oE 'dlock_lock_[a-z_]+' rules.yml | sort -u >named
	"$DLOCK" status --prometheus | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' >known
	not grep -vxF -f known named
}

# setting NAME: of ./block
setting() {
	sed -n "s/^$1=//p" block
}

# bats test_tags=more
@test "systemd recipe" {
	local n codes=
	stub nightly-backup
	block ini nightly.service
	cp block nightly.service
	setting Environment >environment
	setting ExecStart >line
	equal "$(setting SuccessExitStatus)" 75
	# three hosts; for a name without a slash systemd looks where make install and the package put it
	for n in 1 2 3; do
		# shellcheck disable=SC2046 # words, as systemd takes them
		run --separate-stderr env "$(<environment)" $(<line)
		codes+="$status "
	done
	equal "$codes" "0 75 75 "
	equal "$(<ran)" "nightly-backup  nightly" runs
	rcli del dlock:nightly
	block ini nightly.timer
	cp block nightly.timer
	if type -P systemd-analyze >/dev/null; then
		equal "$(setting OnCalendar)" '*-*-* 03:00:00'
		run -0 systemd-analyze calendar "$(setting OnCalendar)"
		# it wants a program that is there
		sed -i 's/^ExecStart=dlock /ExecStart=true /' nightly.service
		run systemd-analyze verify --man=no ./nightly.service ./nightly.timer
		not grep -E 'nightly\.(service|timer)' <<<"$output"
	fi
}

# unit_is_good FILE...: systemd finds nothing wrong with the first unit, with all of these files and
# with dlock where they look for it
unit_is_good() {
	sed -i "s|^ExecStart=dlock |ExecStart=$DLOCK |" "$@"
	run -0 env SYSTEMD_UNIT_PATH="$T/units:" systemd-analyze verify --man=no "$1"
	equal "$output" "" "systemd-analyze verify $1"
}

# bats test_tags=more
@test "dlock-status.service and its timer: valid, and the file is replaced in one step" {
	need promtool systemd-analyze
	local prom=$T/dlock.prom path
	stub
	make -s -o all -C "$TOP" BUILD="$BUILD" DESTDIR="$T/root" PREFIX=/usr install
	cp -r root/usr/lib/systemd/system units
	equal "$(cd units && echo *)" "dlock-status.service dlock-status.timer"
	for path in units/*; do
		unit_is_good "$path"
	done
	run -0 systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' units/dlock-status.timer)"
	# where Debian's node_exporter looks, as in the other recipe
	equal "$(sed -n 's/^Environment=FILE=//p' units/dlock-status.service)" \
		/var/lib/prometheus/node-exporter/dlock.prom
	sed -n 's/^ExecStart=/exec /p' units/dlock-status.service >line
	hold -b "$REDIS" --
	export FILE=$prom
	DLOCK_BACKEND=$REDIS run -0 sh line
	equal "$(promtool check metrics <dlock.prom 2>&1)" "" promtool
	has_line dlock.prom "^dlock_lock_held\\{name=\"$LOCK\",backend=\"redis .*\"\\} 1$"
	equal "$(stat -c %a dlock.prom)" 644 mode
	# a backend that is down leaves the file as it is
	cp dlock.prom before
	DLOCK_BACKEND=redis://127.0.0.1:1 run -122 sh line
	cmp dlock.prom before
	release
}

# bats test_tags=more
@test "systemd drop-in: it runs the command of a service under the lock of its name" {
	need systemd-analyze
	stub nightly-backup
	mkdir -p units/nightly.service.d
	printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >units/nightly.service
	sed "s|/usr/bin/COMMAND ARG|$T/bin/nightly-backup all|" "$TOP/docs/systemd/lock.conf" >units/nightly.service.d/lock.conf
	sed -n 's/^ExecStart=//p' units/nightly.service.d/lock.conf | sed 's/%N/nightly/; 1d' >line
	unit_is_good units/nightly.service units/nightly.service.d/lock.conf
	sed "s|^Environment=||; s|redis://redis.example.com|$REDIS|" units/nightly.service.d/lock.conf |
		grep ^DLOCK_BACKEND >environment
	run -0 env "$(<environment)" sh line
	equal "$(<ran)" "nightly-backup all nightly"
	start "$DLOCK" run -b "$REDIS" nightly -- sleep 300
	wait_until 5 held nightly
	# what the drop-in counts as a success
	run -75 env "$(<environment)" sh line
	equal "$(sed -n 's/^SuccessExitStatus=//p' units/nightly.service.d/lock.conf)" 75
	kill "$PID"
	join "$PID"
}

# ansible_command N: the Nth command of ./block, with its standard input
ansible_command() {
	yaml_lines cmd | sed -n "$1p"
}

@test "Ansible recipes" {
	local lock
	stub migrate-database upgrade-everything
	block yaml "cmd: dlock run -w 10m migrate"
	DLOCK_BACKEND=$(sed -n 's/^ *DLOCK_BACKEND: //p' block)
	export DLOCK_BACKEND
	# no shell, so no word that only a shell would understand
	not grep -q '[$&|;<>]' <(yaml_lines cmd)
	run --separate-stderr -0 bash -c "$(ansible_command 1)"
	equal "$(<ran)" "migrate-database  migrate"
	block yaml upgrade-everything
	not grep -q '[$&|;<>]' <(yaml_lines cmd)
	equal "$(yaml_lines cmd | wc -l)" 3 commands
	equal "$(yaml_lines stdin)" '"{{ lock.stdout }}"'
	lock=$(bash -c "$(ansible_command 1)")
	held upgrade
	bash -c "$(ansible_command 2)"
	bash -c "$(ansible_command 3)" <<<"$lock"
	not held upgrade
	equal "$(tail -n 1 ran)" "upgrade-everything  "
}

@test "what operators do" {
	local token
	need jq script
	stub
	export DLOCK_BACKEND=$REDIS
	"$DLOCK" acquire nightly
	start "$DLOCK" run nightly -- true
	wait_until 5 in_line nightly
	block sh 'dlock check'
	while read -r line; do
		run --separate-stderr bash -c "$line"
		between "$status" 0 1 "$line"
		equal "$stderr" "" "$line"
		printf '%s\n' "$output"
	done <block >said
	has_line said '^ok +probe '
	has_line said '^nightly +exclusive +[0-9].* pid [0-9]+ .*'
	has_line said '^ +waiter 1 +[0-9].* true$'
	has_line said "^nightly $(hostname)\$"
	# the columns in the recipes are those
	run "$DLOCK" status nightly
	grep -qxF "    ${lines[0]}" "$TOP/docs/recipes.md" || fail "the recipe has other columns"
	block sh 'dlock break'
	run --separate-stderr -0 bash block
	one_line '^dlock: nightly: broken; was held by .* pid [0-9]+'
	join "$PID"
	equal "$status" 0
	# on a terminal it asks
	"$DLOCK" acquire nightly
	sed -i 's/ --yes//' block
	run script -qec 'bash block' /dev/null <<<n
	equal "$status" 1
	matches "$output" 'Take the lock away\?'
	held nightly
	run script -qec 'bash block' /dev/null <<<y
	equal "$status" 0
	not held nightly
}

in_line() {
	[[ $(rcli zcard "{dlock:$1}:queue") == 1 ]]
}
