# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Manual pages, README and completions say what the program says. `dlock help`, made
# from the option table, is the source: nothing of it may be missing elsewhere, and
# nothing else may be there.

load ../lib/helpers
load ../redis/server

prepare() {
	COMPLETIONS=$TOP/completions
	PAGES=(dlock.1 dlock-output.5 dlock.conf.5 dlock-backends.7 dlock-etcd.7 dlock-file.7 dlock-mysql.7
		dlock-postgres.7 dlock-redis.7 dlock-zookeeper.7)
	export TOP COMPLETIONS
}

# same FILE FILE WHAT: both have the same lines, in any order. Starts no program, because it is called for
# each line that a shell completes.
same() {
	local -A wanted=() found=()
	local line lines missing='' extra=''
	mapfile -t lines <"$1"
	for line in "${lines[@]}"; do
		wanted[x$line]=1
	done
	mapfile -t lines <"$2"
	for line in "${lines[@]}"; do
		found[x$line]=1
		[[ -n ${wanted[x$line]-} ]] || extra+=", $line"
	done
	((${#wanted[@]})) || fail "$3: nothing found to compare"
	for line in "${!wanted[@]}"; do
		[[ -n ${found[$line]-} ]] || missing+=", ${line#x}"
	done
	[[ -z $missing ]] || fail "$3: missing: ${missing#, }"
	[[ -z $extra ]] || fail "$3: there, but not in the program: ${extra#, }"
}

# ---- what the program says

commands() {
	"$DLOCK" --help | sed -n 's/^  dlock \([a-z]*\).*/\1/p'
}

# options COMMAND: as help shows them: "-b, --backend URI", "--on-lost kill|warn"
options() {
	[[ -e options.$1 ]] || read_options "$1" >"options.$1"
	cat "options.$1"
}

read_options() {
	"$DLOCK" help "$1" | sed -n 's/^ *\(\(-[a-zA-Z], \)\{0,1\}--[a-z-]*\( [^ ]\{1,\}\)\{0,1\}\)\(  .*\)\{0,1\}$/\1/p'
}

# option_words COMMAND: each on a line: -b, --backend
option_words() {
	options "$1" | grep -oE '(^|[ ])--?[a-zA-Z][a-z-]*' | tr -d ' '
}

# those that have an argument, or have none
option_words_with_value() {
	options "$1" | grep -E -- '--[a-z-]+ ' | grep -oE '(^| )--?[a-zA-Z][a-z-]*' | tr -d ' '
}

option_words_without_value() {
	options "$1" | grep -vE -- '--[a-z-]+ ' | grep -oE '(^| )--?[a-zA-Z][a-z-]*' | tr -d ' '
}

# choices COMMAND: "--on-lost kill warn" of each option that has some
choices() {
	options "$1" | sed -n 's/^\(-., \)\{0,1\}\(--[a-z-]*\) \([a-z]*\)|\([a-z|]*\)$/\2 \3 \4/p' | tr '|' ' '
}

# help_section TITLE: first column and text of a table below it
help_section() {
	"$DLOCK" help run | awk -v title="$1:" '$0 == title { on = 1; next } on && !/^  / { on = 0 } on' |
		sed 's/^  //'
}

schemes() {
	help_section Backends | sed 's/ .*//'
}

statuses() {
	help_section 'Exit status' | sed 's/ .*//; /^$/d'
}

# ---- what mdoc says

# mdoc_options HEADING: those that dlock.1 lists there, in the same form as options
mdoc_options() {
	awk -v title=".Ss $1" '
		/^\.S[sh] / { on = ($0 == title) }
		on && /^\.It Fl / { print }' "$TOP/man/dlock.1" |
		sed -E 's/^\.It //; s/Fl -/--/g; s/Fl /-/g; s/ ,/,/g; s/ (Ar|Cm) / /g; s/ \| /|/g'
}

# mdoc_flags HEADING MARK: the options, a word a line, that dlock.1 names there in the first line of
# options behind the line that begins with MARK
mdoc_flags() {
	awk -v title="$1" -v mark="$2" '
		/^\.S[sh] / { on = ($0 == title) }
		on && index($0, mark) == 1 { behind = 1 }
		on && behind && /^\.Fl / { print; exit }' "$TOP/man/dlock.1" |
		sed -E 's/^\.Fl //; s/[ ,.]+$//; s/ , /\n/g' | sed 's/^/-/'
}

# mdoc_items FILE SECTION: the tags of the lists of a section
mdoc_items() {
	awk -v title=".Sh $2" '/^\.Sh / { on = ($0 == title) } on && /^\.It / { print $2 }' "$1"
}

# ---- what completions offer: words on standard output, one a line

# bash_start [LIBRARY]: starts a bash with the completion, and with that of other programs if LIBRARY is
# the file of the bash-completion package. Each line is completed in a subshell.
bash_start() {
	cat >bash-driver <<-'DRIVER'
		if [[ -n ${LIBRARY-} ]]; then
			source "$LIBRARY"
		fi
		source "$COMPLETIONS/dlock.bash"
		# bash sets this for a terminal, and splits by it
		COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
		complete_line() {
			COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=()
			rest=$1
			while [[ $rest =~ ^[[:space:]]*([:=]+|[^[:space:]:=]+)(.*)$ ]]; do
				COMP_WORDS+=("${BASH_REMATCH[1]}")
				rest=${BASH_REMATCH[2]}
			done
			if [[ $1 == *[[:space:]] ]]; then
				COMP_WORDS+=('')
			fi
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			COMPREPLY=()
			_dlock dlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
			echo "${#COMPREPLY[@]}"
			for word in "${COMPREPLY[@]}"; do
				printf '%s\n' "${word% }"
			done
		}
		while IFS= read -r line; do
			(complete_line "$line" </dev/null)
		done
	DRIVER
	coproc COMPLETER { LIBRARY=${1-} exec bash --norc bash-driver 3>&- 4>&-; }
	STARTED+=("$COMPLETER_PID")
}

bash_offers() {
	[[ -n ${COMPLETER_PID-} ]] || bash_start
	ask_completer "$1"
}

bash_library_offers() {
	[[ -n ${COMPLETER_PID-} ]] || bash_start /usr/share/bash-completion/bash_completion
	ask_completer "$1"
}

# ask_completer LINE: what the shell offers that runs as a coprocess, and answers each line with the
# number of words and the words
ask_completer() {
	local count words=()
	printf '%s\n' "$1" >&"${COMPLETER[1]}"
	read -r count <&"${COMPLETER[0]}" || return
	((count == 0)) || mapfile -n "$count" -u "${COMPLETER[0]}" words
	printf '%s' "${words[@]}"
}

fish_start() {
	coproc COMPLETER { exec fish --no-config -c '
		source $COMPLETIONS/dlock.fish
		while read --line --local line
			set found (complete -C $line | string split -f 1 \t)
			count $found
			set -q found[1]; and printf "%s\n" $found
		end' 3>&- 4>&-; }
	STARTED+=("$COMPLETER_PID")
}

fish_offers() {
	[[ -n ${COMPLETER_PID-} ]] || fish_start
	ask_completer "$1"
}

# zsh_start: starts a zsh on a terminal of its own, and one that types there, for each line that it
# reads, this line and Tab. It answers with what is given to compadd, which is what zsh offers.
zsh_start() {
	mkdir zsh
	cat >zsh/.zshrc <<-'INNER'
		fpath=($COMPLETIONS $fpath)
		autoload -Uz compinit
		compinit -u -D
		unsetopt auto_list auto_menu
		compadd() {
			local -a found
			# not when it is only asked what matches
			if (( ! ${@[(I)-[OAD]]} )); then
				builtin compadd -O found "$@"
				(( $#found )) && print -rl -- $found >>zsh/found
			fi
			builtin compadd "$@"
		}
		finish() {
			: >>zsh/found
			mv zsh/found zsh/done
			# zsh forgets it after each completion
			comppostfuncs=(finish)
		}
		comppostfuncs=(finish)
		# what is typed before zsh edits the line may be lost
		zle-line-init() { : >zsh/ready }
		zle -N zle-line-init
	INNER
	cat >zsh/outer <<-'OUTER'
		zmodload zsh/zpty zsh/zselect
		await() {
			local i
			for ((i = 0; i < 1000; i++)); do
				zpty -r -t shell junk
				[[ -e $1 ]] && return
				zselect -t 2
			done
			print -u2 "zsh: no $1"
			exit 1
		}
		zpty -b shell env ZDOTDIR=zsh zsh -d -i
		await zsh/ready
		while IFS= read -r line; do
			# Control-U removes what is left of the line before
			zpty -w -n shell $'\025'$line$'\t'
			await zsh/done
			wc -l <zsh/done
			cat zsh/done
			rm zsh/done
		done
	OUTER
	coproc COMPLETER { TERM=dumb exec zsh -f zsh/outer 3>&- 4>&-; }
	STARTED+=("$COMPLETER_PID")
}

zsh_offers() {
	[[ -n ${COMPLETER_PID-} ]] || zsh_start
	ask_completer "$1"
}

# offers SHELL LINE: what that shell offers at the end of LINE, into ./offers
offers() {
	"$1_offers" "$2" >offers || fail "$1: cannot complete '$2'"
}

# offers_only SHELL LINE WORD...
offers_only() {
	local shell=$1 line=$2
	shift 2
	offers "$shell" "$line"
	printf '%s\n' "$@" >wanted
	same wanted offers "$shell: '$line'"
}

offers_nothing() {
	offers "$1" "$2"
	equal "$(<offers)" "" "$1: '$2'"
}

offers_among() {
	local shell=$1 line=$2
	shift 2
	offers "$shell" "$line"
	for word; do
		grep -qxF -e "$word" offers || fail "$shell: '$line' does not offer $word: $(<offers)"
	done
}

# some: prints its input, or each eighth line in the core of the tests. The shells get the same words from
# dlock, so that each fourth one will do with all but bash.
some() {
	awk -v step="$(long_or "$([[ $shell == bash ]] && echo 1 || echo 4)" 8)" 'NR % step == 0'
}

# drive SHELL: all that its completion has to do
drive() {
	local shell=$1 command option values words choice

	mkdir bin
	printf '#!/bin/sh\n' >bin/dlock-test-wrapped
	chmod +x bin/dlock-test-wrapped
	# the completions ask the program what there is to offer
	ln -s "$DLOCK" bin/dlock
	export PATH=$T/bin:$PATH

	mapfile -t words < <(commands)
	offers "$shell" 'dlock '
	printf '%s\n' "${words[@]}" >wanted
	# bash offers its options along with them
	same wanted <(grep -v '^-' offers) "$shell: commands"
	offers_only "$shell" 'dlock -' -h --help -V --version
	offers_only "$shell" 'dlock help ' "${words[@]}"

	for command in run acquire $(printf '%s\n' "${words[@]:2}" | some); do
		offers "$shell" "dlock $command -"
		option_words "$command" >wanted
		same wanted <(grep -vx -e -- offers) "$shell: options of $command"
		offers "$shell" "dlock $command --"
		grep '^--' wanted >long
		same long <(grep -vx -e -- offers) "$shell: long options of $command"
	done

	# an option that wants a value gets none that is an option, nor a program, nor a file unless
	# it wants one; another one does
	: >dlock-test-file
	for option in --metrics $(option_words_with_value run | some); do
		offers_nothing "$shell" "dlock run $option -"
		if [[ $option == --metrics ]]; then
			offers_only "$shell" "dlock run -q $option dlock-test-" dlock-test-file
		else
			offers_nothing "$shell" "dlock run -q $option dlock-test-"
		fi
	done
	for option in $(option_words_without_value run | some); do
		# help is all there is to say
		[[ $option != -h && $option != --help ]] || continue
		offers_among "$shell" "dlock run $option --bac" --backend
	done
	offers_among "$shell" "dlock run -w 3 -nt 1m --min-hold=5 --bac" --backend
	offers_among "$shell" "dlock acquire -w 3 --pid 1 --js" --json

	choices run >with-choices
	while read -r option values; do
		read -ra choice <<<"$values"
		offers_only "$shell" "dlock run $option " "${choice[@]}"
	done <with-choices
	offers_only "$shell" 'dlock run -n --on-lost w' warn
	offers "$shell" 'dlock acquire --pid '
	[[ -s offers ]]
	not has_line offers '[^0-9]'

	# options may follow the name, but not behind "--"
	for command in $(printf '%s\n' acquire renew verify release status wait break | some); do
		offers_nothing "$shell" "dlock $command dlock-test-"
		offers_among "$shell" "dlock $command name --bac" --backend
		offers_nothing "$shell" "dlock $command -- --bac"
	done
	offers_nothing "$shell" 'dlock check dlock-test-'

	# after the name of run there are the command, or -c, and options
	offers_only "$shell" 'dlock run -n name ' -- -c
	offers_among "$shell" 'dlock run -n name -' -c --backend --wait
	offers_among "$shell" 'dlock run name -n --bac' --backend
	offers_among "$shell" 'dlock run --timeout 5 name -w 3 --bac' --backend

	mkdir -p "$XDG_CONFIG_HOME"
	printf 'backend = prod\n[prod]\nuri = file:\n  [our-lab]\nuri = redis://h\n' \
		>"$XDG_CONFIG_HOME/dlock.conf"
	offers_only "$shell" 'dlock check -b our' our-lab
	offers "$shell" 'dlock run -b '
	{
		printf 'prod\nour-lab\n'
		# those that name a server need more, and go on
		schemes
		if [[ -r /etc/dlock.conf ]]; then
			sed -n 's/^ *\[\([^]]*\)\].*/\1/p' /etc/dlock.conf
		fi
	} >wanted
	same wanted <(sed 's,//$,,' offers) "$shell: backends"
	offers_only "$shell" 'dlock run -n --backend our' our-lab

	# the wrapped command: programs, then its own arguments
	offers_only "$shell" 'dlock run -n name -- dlock-test-w' dlock-test-wrapped
	offers_only "$shell" 'dlock run -- dlock-test-w' dlock-test-wrapped
}

# shell_start SHELL: starts a real shell on a terminal of its own, which is there for type_into
shell_start() {
	local command
	rm -rf typing
	mkdir typing
	case $1 in
	bash | bash_library)
		cat >typing/rc <<-'RC'
			[[ -z ${LIBRARY-} ]] || source "$LIBRARY"
			source "$COMPLETIONS/dlock.bash"
			PROMPT_COMMAND='touch "$T/typing/ready"'
		RC
		command='bash --noprofile --rcfile typing/rc -i'
		;;
	zsh)
		cat >typing/.zshrc <<-'RC'
			fpath=($COMPLETIONS $fpath)
			autoload -Uz compinit
			# The first shell writes down which completions there are, and the others read that.
			compinit -u -d "$T/zcompdump"
			# what is typed before zsh edits the line may be lost
			zle-line-init() { touch "$T/typing/ready" }
			zle -N zle-line-init
		RC
		command="env ZDOTDIR=$T/typing zsh -d -i"
		;;
	fish)
		# A fish that starts for the first time would read all manual pages in the background.
		mkdir -p "$HOME/.local/share/fish/generated_completions"
		cat >typing/rc <<-'RC'
			source $COMPLETIONS/dlock.fish
			function dlock; printf '[%s]' $argv >$T/typing/new; mv $T/typing/new $T/typing/args; end
			function at_prompt --on-event fish_prompt; touch $T/typing/ready; end
			set -g fish_greeting
		RC
		command="fish -C 'source typing/rc'"
		;;
	esac
	if [[ $1 != fish ]]; then
		cat >>"$(ls -A typing/rc typing/.zshrc 2>/dev/null)" <<-'RC'
			dlock() { printf '[%s]' "$@" >"$T/typing/new"; mv "$T/typing/new" "$T/typing/args"; }
		RC
	fi
	mkfifo typing/keys
	[[ $1 != bash_library ]] ||
		local -x LIBRARY=/usr/share/bash-completion/bash_completion
	TERM=xterm LC_ALL=C.UTF-8 script -qefc "$command" typing/screen \
		<>typing/keys >/dev/null 2>&1 3>&- 4>&- &
	PID=$!
	STARTED+=("$PID")
}

# shell_end: ends it, so that the next one has the environment of that time
shell_end() {
	wait_until 20 test -e typing/ready
	printf 'exit\r' >typing/keys
	join "$PID"
}

# type_into SHELL KEYS: has it read these keys and then Enter. Sets ARGS to the arguments that the
# shell then gives to dlock, each between brackets, and MS to the time from the first key to that.
type_into() {
	local shell=$1 keys=$2 start
	wait_until 20 test -e typing/ready || fail "$shell: no prompt: $(<typing/screen)"
	rm -f typing/ready typing/args
	now
	start=$NOW
	printf '%s\r' "$keys" >typing/keys
	wait_until 20 test -e typing/args || fail "$shell: '$keys' ran nothing: $(<typing/screen)"
	now
	MS=$((NOW - start))
	ARGS=$(<typing/args)
}

# completes SHELL KEYS ARGS: what is typed and Tab make these arguments
completes() {
	type_into "$1" "$2"$'\t'
	equal "$ARGS" "$3" "$1: '$2'"
}

# drive_names SHELL: all that its completion has to do with the names of locks
drive_names() {
	local shell=$1 command name
	need script
	mkdir -p bin
	ln -sf "$DLOCK" bin/dlock
	# 300 ms may be too little while all tests run; the test of the server that hangs has them
	printf '#!/bin/sh\nshift 3\nexec %s -s KILL 20 "$@"\n' "$(type -P timeout)" >bin/timeout
	chmod +x bin/timeout
	export PATH=$T/bin:$PATH

	for name in plain 'a b c' "it's \"all\" \$x \`y\` \\z&" 'co:lon=x@y' 'Ünï' '--dash' '!tilde~*'; do
		"$DLOCK" acquire -q -t 10m -- "$name" >/dev/null
	done
	shell_start "$shell"
	for command in status wait break renew release verify; do
		completes "$shell" "dlock $command pl" "[$command][plain]"
	done
	completes "$shell" 'dlock status -v Ü' '[status][-v][Ünï]'
	completes "$shell" 'dlock status a' '[status][a b c]'
	completes "$shell" 'dlock status a\ b' '[status][a b c]'
	completes "$shell" "dlock status 'a b" '[status][a b c]'
	completes "$shell" 'dlock status "a ' '[status][a b c]'
	for name in it "'it" '"it'; do
		completes "$shell" "dlock status $name" "[status][it's \"all\" \$x \`y\` \\z&]"
	done
	completes "$shell" 'dlock status co:lo' '[status][co:lon=x@y]'
	completes "$shell" 'dlock status co:lon=x' '[status][co:lon=x@y]'
	completes "$shell" 'dlock status "co:lo' '[status][co:lon=x@y]'
	completes "$shell" 'dlock status -- --d' '[status][--][--dash]'
	completes "$shell" 'dlock status -- \!t' '[status][--][!tilde~*]'
	# one name, and then a token
	completes "$shell" 'dlock renew x pl' '[renew][x][pl]'
	for command in status wait break; do
		completes "$shell" "dlock $command x pl" "[$command][x][plain]"
	done

	# the backend on the line, wherever it is, and in the configuration
	shell_end
	unset DLOCK_BACKEND
	shell_start "$shell"
	printf '[lab]\nuri = %s\n' "$FILE" >"$XDG_CONFIG_HOME/dlock.conf"
	for name in "-b $FILE" "--backend $FILE" "-vb $FILE" '-b lab'; do
		completes "$shell" "dlock status $name pl" "[status][${name/ /][}][plain]"
		completes "$shell" "dlock status x $name pl" "[status][x][${name/ /][}][plain]"
	done
	for name in "--backend=$FILE" "-b$FILE" "-vb$FILE"; do
		completes "$shell" "dlock status $name pl" "[status][$name][plain]"
	done
	for name in "'$FILE'" "\"$FILE\""; do
		completes "$shell" "dlock status -b $name pl" "[status][-b][$FILE][plain]"
	done
	# the cursor stands before it; fish tells only of what is before the cursor
	[[ $shell == fish ]] ||
		completes "$shell" " -b $FILE"$'\x01'"dlock status pl" "[status][plain][-b][$FILE]"
	# nothing that the shell would run is run
	type_into "$shell" "dlock status -b \$(touch ran; echo $FILE) pl"$'\t\x15'"dlock none"
	equal "$ARGS" '[none]'
	not test -e ran
	completes "$shell" 'dlock status pl' '[status][pl]'
	shell_end
	export DLOCK_BACKEND=$FILE
	"$DLOCK" status --names | while IFS= read -r name; do
		"$DLOCK" break -q --yes -- "$name"
	done
	wait_until 5 no_strays
}

# hung_server SHELL: a server that hangs, and one that is not there, do not stop the shell
hung_server() {
	need script
	mkdir -p bin
	ln -sf "$DLOCK" bin/dlock
	export PATH=$T/bin:$PATH
	private_redis
	"$DLOCK" acquire -q -t 10m -b "$P_URI" plain >/dev/null
	kill -STOP "$P_PID"
	shell_start "$1"
	type_into "$1" "dlock status -b $P_URI pl"$'\t'
	equal "$ARGS" "[status][-b][$P_URI][pl]"
	# dlock itself would wait for longer
	took "$MS" 0 1900 'ms until the shell goes on'
	kill -KILL "$P_PID"
	wait_until 5 ended "$P_PID"
	type_into "$1" "dlock status -b $P_URI pl"$'\t'
	equal "$ARGS" "[status][-b][$P_URI][pl]"
	took "$MS" 0 1900 'ms until the shell goes on'
	shell_end
	wait_until 5 no_strays
}

# ---- manual pages

@test "manual pages are clean mdoc" {
	need mandoc
	local page
	for page in "$TOP"/man/*.[1-9]; do
		run -0 mandoc -T lint -W warning "$page"
		equal "$output" "" "${page##*/}"
		run -0 mandoc -T utf8 "$page"
	done
}

# bats test_tags=more
@test "manual pages: the list of them is the same everywhere" {
	local page
	printf '%s\n' "${PAGES[@]}" >wanted
	(cd "$TOP/man" && printf '%s\n' *) >found
	same wanted found 'man/'
	"$DLOCK" --help | grep -oE '[a-z.-]+\([0-9]\)' | tr '(' '.' | tr -d ')' >found
	same wanted found 'dlock --help'
	make -s -C "$TOP" -o all install DESTDIR="$T/image" BUILD="$BUILD"
	find image -path '*/man/*' -type f -printf '%f\n' >found
	same wanted found 'make install'
	make -s -C "$TOP" uninstall DESTDIR="$T/image" BUILD="$BUILD"
	equal "$(find image -type f)" "" "make uninstall leaves"
	# one leads to all others
	sed -n 's/^\.Xr \(dlock[a-z.-]*\) \([0-9]\).*/\1.\2/p' "$TOP/man/dlock.1" \
		"$TOP/man/dlock-backends.7" >found
	same wanted found 'SEE ALSO'
	# a page that another one or a message names is there
	grep -rohE 'dlock[a-z.-]*\([1-8]\)' "$TOP"/{src,cmd,man,completions,docs,debian} "$TOP"/*.md |
		tr '(' '.' | tr -d ')' | sort -u | while read -r page; do
		grep -qxF "$page" wanted || fail "somebody names $page"
	done
	# nor is a section of another page or of none
	for page in "${PAGES[@]}"; do
		sed -n 's/^\.Sx //p' "$TOP/man/$page" | sed 's/ [.,;:)]*$//' | while read -r section; do
			has_line "$TOP/man/$page" "^\.S[sh] $section\$" || fail "$page has no $section"
		done
	done
}

@test "manual pages: a search finds each heading once" {
	local page heading
	for page in "${PAGES[@]}"; do
		sed -n 's/^\.S[sh] //p' "$TOP/man/$page" >headings
		equal "$(sort -f headings | uniq -di)" "" "$page: headings"
	done
}

@test "manual pages: dlock takes every URI in their examples" {
	local page uri count=0
	for page in "${PAGES[@]}"; do
		sed -n 's/^\.It Li \([a-z+]*:.*\)/\1/p' "$TOP/man/$page"
	done | sed "s|/etc/dlock.password|$T/password|; s|/etc/ssl/.*|$T/ca.pem|" >uris
	install -m 600 <(echo secret) password
	while read -r uri; do
		run -0 "$DLOCK" setup --dry-run -b "$uri"
		count=$((count + 1))
	done <uris
	between "$count" 12 99 URIs
}

@test "dlock.1 has every command and exit status, and no other" {
	commands >wanted
	same wanted <(sed -n 's/^\.Ss dlock //p' "$TOP/man/dlock.1") commands
	# the synopsis
	same wanted <(awk '/^\.Sh / { on = ($2 == "SYNOPSIS") } on && /^\.Cm / { print }' \
		"$TOP/man/dlock.1" | sed 's/^\.Cm //; s/ | /\n/g') synopsis
	statuses >wanted
	mdoc_items "$TOP/man/dlock.1" 'EXIT STATUS' >found
	same wanted found 'exit status'
}

@test "--help explains a pattern where there may be one" {
	equal "$("$DLOCK" help status | grep -c "^A PATTERN has ")$("$DLOCK" help break | grep -c "^A PATTERN has ")" 11
	not grep -q PATTERN <<<"$("$DLOCK" help check)"
}

# bats test_tags=more
@test "dlock.1 has the options of run in one list, and of other commands what differs" {
	local command flag
	for command in $(commands); do
		options "$command" >wanted
		mdoc_options "dlock $command" >own
		sed -E 's/.*--([a-z-]+).*/\1/' own | LC_ALL=C sort -c || fail "$command: not by the alphabet"
		cp own found
		if [[ $command == run ]]; then
			cp own of-run
		else
			{
				case $command in
				completion | help | version) mdoc_flags '.Sh COMMANDS' ".Ic $command" ;;
				*) mdoc_flags '.Sh COMMANDS' 'All commands have' ;;
				esac
				mdoc_flags ".Ss dlock $command" 'Options as in'
			} >flags
			while read -r flag; do
				grep -E -e "(^|, )$flag( |,|\$)" of-run || fail "$command: run has no $flag"
			done <flags >>found
		fi
		same wanted found "options of $command"
		equal "$(sort found | uniq -d)" "" "listed twice for $command"
	done
}

# json_keys OBJECT [TABLE]: the keys that dlock-output.5 documents for the output of OBJECT, in
# its Nth table
json_keys() {
	awk -v title=".Ss Output of $1 --json" -v table="${2:-1}" '
		/^\.S[sh] / { on = ($0 == title); n = 0 }
		on && /^\.Bl / { n++ }
		on && n == table && /^\.It Cm / { print }' "$TOP/man/dlock-output.5" |
		sed 's/^\.It Cm //; s/ , /\n/g'
}

# keys_are OBJECT TABLE FILTER: of what is in ./json
keys_are() {
	json_keys "$1" "$2" >wanted
	jq -r "$3 | keys_unsorted[]" json >found
	same wanted found "$1 --json, $3"
}

@test "dlock-output.5 has every key of the JSON that commands print, and no other" {
	need jq
	local uri token
	for uri in "$REDIS" "$FILE"; do
		export DLOCK_BACKEND=$uri
		"$DLOCK" acquire --json -t 20s --slots 2 "$LOCK" >json
		keys_are acquire 1 .
		token=$(jq -r .token json)
		matches "$token" '^[0-9a-f]{32}$'
		jq -e '(.fence | . > 0 and . < pow(2; 53)) and
			(.expires_at | test("^[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z$")) and
			(.expires_in_ms | . > 0 and . <= 20000)' json
		"$DLOCK" renew --json "$LOCK" "$token" >json
		keys_are renew 1 .
		if [[ $uri == "$REDIS" ]]; then
			start "$DLOCK" run "$LOCK" -- true
			wait_until 5 status_counts 1
			keys_are status 3 '.waiters[0]'
			jq -e '.waiters[0] | .position == 1 and .mode == "exclusive"' json
			kill -TERM "$PID"
			join "$PID"
		fi
		"$DLOCK" status --json "$LOCK" >json || equal $? 1
		keys_are status 1 .
		keys_are status 2 '.holders[0]'
		jq -e '.held and (.holders[0] | .mode == "slot" and .slots == 2)' json
		not grep -q "$token" json
		"$DLOCK" release "$LOCK" "$token"
		"$DLOCK" status --json "$LOCK" >json
		jq -e '.held == false and .holders == [] and .waiters == []' json
		"$DLOCK" check --json >json || equal $? 1
		keys_are check 1 .
		keys_are check 2 '.findings[0]'
	done
	wait_until 5 no_strays
}

# status_counts N: that many wait; ./json is what status said
status_counts() {
	"$DLOCK" status --json "$LOCK" >json || [[ $? == 1 ]]
	[[ $(jq '.waiters | length' json) == "$1" ]]
}

@test "dlock.1 has the environment that the code reads and sets" {
	cat "$TOP"/cmd/*.c "$TOP"/src/*/*.c "$TOP"/src/backends/*/*.c |
		grep -oE '"(DLOCK_[A-Z_]+=?|XDG_[A-Z_]+|HOME)"' | tr -d '"=' |
		grep -vxE 'DLOCK_VERSION' >wanted
	awk '/^\.Sh / { on = ($2 == "ENVIRONMENT") } on && /^\.It Ev/' "$TOP/man/dlock.1" |
		sed 's/^\.It Ev //; s/ , /\n/g' >found
	same wanted found ENVIRONMENT
}

@test "dlock-backends.7 has every scheme, and no other" {
	schemes >wanted
	awk '/^\.Sh / { on = ($2 == "DESCRIPTION") } on && /^\.It Cm/' "$TOP/man/dlock-backends.7" |
		sed 's/^\.It Cm //; s/ , /\n/g' >found
	same wanted found schemes
}

@test "the pages of the backends have every parameter of a URI, and no other" {
	# the program lists them itself when it sees another
	local uri
	for uri in file:///tmp? redis://localhost? rediss://localhost? redis+unix:///tmp? \
		redis+sentinel://localhost/m? redis+cluster://localhost? 'redlock://a,b,c?' \
		zookeeper://localhost? etcd://localhost? \
		mysql://localhost/db? 'mysql://localhost/db?strategy=row&' \
		'mysql://localhost/db?dialect=shedlock&' postgresql://localhost/db?; do
		run --separate-stderr -125 "$DLOCK" run -b "${uri}no-such-parameter=1" "$LOCK" -- true
		sed -n 's/.*known are: //p' <<<"$stderr" | tr -d ' ' | tr ',' '\n'
	done >wanted
	sed -n 's/^\.It Cm \([a-z-]*\) Ns = .*/\1/p' "$TOP"/man/*.7 >found
	same wanted found parameters
}

@test "dlock-redis.7 has the keys that the code uses" {
	grep -ohE "[\"']:[a-z]+:?[\"']" "$TOP"/src/backends/redis/{client.c,lua/lock.lua} | tr -d "\"':" >wanted
	sed -n 's/^\.It Li {key}:\([a-z]*\).*/\1/p' "$TOP/man/dlock-redis.7" >found
	same wanted found keys
}

@test "dlock-file.7 shows the content of a lock file" {
	local line token
	token=$("$DLOCK" acquire -t 3s "$LOCK")
	sed -n 's/^\.Dl fence /fence /p' "$TOP/man/dlock-file.7" >shown
	equal "$(wc -l <shown)" 1 lines
	# the same words, of the same length where that is fixed
	while read -r line; do
		has_line "$LOCKS/$LOCK.lock" "^$(sed -E 's/[0-9]{20}/[0-9]{20}/
			s/ Ar ID No x [0-9]+ [0-9]+ / [0-9a-f]{64} x [0-9]+ [0-9]+ .*/
			s/=[^&]*/=[^\&]+/g' <<<"$line")" || fail "not so: $line: $(<"$LOCKS/$LOCK.lock")"
	done <shown
	"$DLOCK" release "$LOCK" "$token"
	equal "$(stat -c %s "$LOCKS/$LOCK.lock")" 1024 "bytes of one record"
}

@test "dlock.conf.5: its example is taken, its keys are the ones there are" {
	awk '/^\.Bd -literal/ { on = 1; next } /^\.Ed/ { on = 0 } on' "$TOP/man/dlock.conf.5" \
		>"$XDG_CONFIG_HOME/dlock.conf"
	has_line "$XDG_CONFIG_HOME/dlock.conf" '^\[prod\]$'
	"$DLOCK" run -b "$FILE" "$LOCK" -- true
	printf 'none = 1\n' >"$XDG_CONFIG_HOME/dlock.conf"
	run --separate-stderr -125 "$DLOCK" run "$LOCK" -- true
	matches "$stderr" 'backend, ttl, wait, contain, log and require-backend'
	printf '[a]\nnone = 1\n' >"$XDG_CONFIG_HOME/dlock.conf"
	run --separate-stderr -125 "$DLOCK" run "$LOCK" -- true
	matches "$stderr" 'has uri, ttl, wait and kill-after'
	printf '%s\n' backend ttl wait contain log require-backend uri kill-after >wanted
	sed -n 's/^\.It Cm //p' "$TOP/man/dlock.conf.5" >found
	same wanted found keys
}

# acl WORD: the first command of dlock-redis.7 that gives rights and has this word, a word a line
acl() {
	redis_acl "$1" | xargs -n 1
}

# bats test_tags=more
@test "the permissions in dlock-redis.7 are those that the code needs" {
	{
		acl +evalsha
		acl +lpush
	} | sed -n 's/^+//p' >found
	{
		printf '%s\n' eval evalsha subscribe select
		cat "$TOP"/src/backends/redis/lua/{common,plain,lock}.lua | grep -oE "redis\.p?call\('[A-Z]+'" | grep -oE '[A-Z]{2,}' |
			tr '[:upper:]' '[:lower:]' | sed 's/^pubsub$/pubsub|numsub/'
	} >wanted
	same wanted found commands
	# and what else is sent is for operators
	{
		acl +scan
		acl +wait
		acl +role
		acl +asking
	} | sed -n 's/^+//p' >>found
	# a list of words may begin in the next line
	sed '/= {$/ { N; s/\n[[:space:]]*/ /; }' "$TOP"/src/backends/redis/*.c | grep -oE 'argv?\[.*= ("|\{ ")[A-Z]+"|send_before\(conn, "[A-Z]+"|\[\](\)| =) ?\{ "[A-Z]+"' |
		sed 's/"$//; s/.*"//' | tr '[:upper:]' '[:lower:]' | sed 's/^config$/config|get/; s/^cluster$/cluster|slots/' |
		grep -vxe auth -e ssubscribe -e sentinel >>wanted # to log in needs no permission; sentinels have users of their own
	same wanted found "commands of operators"
	{
		acl '~redisson_*'
		acl +spublish
	} | sed -n 's/^+//p' >found
	{
		printf '%s\n' eval evalsha subscribe ssubscribe select
		cat "$TOP"/src/backends/redis/lua/{common,redisson,lock}.lua | grep -oE "redis\.p?call\('[A-Z]+'" |
			grep -oE '[A-Z]{2,}' | tr '[:upper:]' '[:lower:]' | sed 's/^pubsub$/pubsub|numsub/'
	} >wanted
	same wanted found "commands of the dialect redisson"
}

# permitted: all that needs no operator, with the DLOCK_BACKEND that is set
permitted() {
	local waiter token
	hold -t 2s --
	start "$DLOCK" run -w 10s "$LOCK" -- true
	waiter=$PID
	start "$DLOCK" run -w 1s "$LOCK" -- true
	join "$PID"
	equal "$status" 124
	start "$DLOCK" run "$LOCK" -- true
	wait_until 5 alive "$PID"
	kill -KILL "$PID"
	# long enough for a renewal
	holds_for 1000 alive "$COMMAND"
	release
	join "$waiter"
	equal "$status" 0
	"$DLOCK" run "$LOCK" -- "$DLOCK" run "$LOCK" -- true
	"$DLOCK" run -t 2s --no-renew "$LOCK" -- true
	"$DLOCK" run --min-hold 50ms "$LOCK" -- true
	for mode in --shared --slots=2 -n; do
		token=$("$DLOCK" acquire -w 5s "$mode" "$LOCK")
		"$DLOCK" renew "$LOCK" "$token"
		DLOCK_NAME=$LOCK DLOCK_TOKEN=$token "$DLOCK" acquire -n "$mode" "$LOCK"
		"$DLOCK" verify "$LOCK" "$token"
		"$DLOCK" release "$LOCK" "$token+1"
		run -1 "$DLOCK" status "$LOCK"
		start "$DLOCK" wait "$LOCK"
		"$DLOCK" release "$LOCK" "$token"
		join "$PID"
		equal "$status" 0
	done
	token=$("$DLOCK" acquire "$LOCK")
	"$DLOCK" break --yes "$LOCK"
}

# permit WORD [SED]: gives user jobs of the private server what the command with that word says,
# changed by SED
permit() {
	local words
	mapfile -t words < <(acl "$1" | sed "${2-}")
	equal "${words[*]:0:3}" "redis-cli acl setuser"
	run -0 redis_at "$P_DIR" "${words[@]:1}"
	equal "$output" OK
}

@test "the permissions in dlock-redis.7 suffice" {
	local uri
	private_redis
	permit +evalsha
	uri=redis://jobs:PASSWORD@127.0.0.1:$P_PORT
	for DLOCK_BACKEND in "$uri" "$uri/2"; do
		export DLOCK_BACKEND
		permitted
	done
	run -122 "$DLOCK" status
	run --separate-stderr -122 "$DLOCK" break --yes "$LOCK-*"
	one_line 'a pattern needs the list of all locks: .*'
	run -1 "$DLOCK" check
	permit +scan
	run -0 "$DLOCK" status
	run -0 "$DLOCK" setup
	run "$DLOCK" check
	# with warnings, but about nothing that is not allowed
	between "$status" 0 1
	not grep -q 'cannot be read' <<<"$output"
	# and they say so when one is missing
	redis_at "$P_DIR" acl setuser jobs -zadd
	export DLOCK_BACKEND=$uri
	hold --
	run --separate-stderr -122 "$DLOCK" run -w 5s "$LOCK" -- true
	release
}

replica_online() {
	[[ $(printf 'set probe 1\nwait 1 200\n' | redis_at "$P_DIR" | tail -n 1) == 1 ]]
}

# bats test_tags=more
@test "the permissions in dlock-redis.7 suffice for ?replicas=" {
	private_redis
	private_redis --replicaof 127.0.0.1 "$P_PORT"
	P_DIR=$T/redis.0
	P_PORT=$(<"$P_DIR/port")
	wait_until 10 replica_online
	permit +evalsha
	permit +wait
	export DLOCK_BACKEND="redis://jobs:PASSWORD@127.0.0.1:$P_PORT?replicas=1"
	permitted
}

# ---- completions

# bats test_tags=deeper
@test "bash completion" {
	drive bash
	offers_only bash 'dlock run --on-lost=' kill warn
	offers_only bash 'dlock run --leftovers=' kill wait leave
	# bash takes what stands behind the last ':' for the word
	offers_only bash 'dlock run -b redis:' //
	mkdir -p "$T/some/locks"
	offers_only bash "dlock run -b file://$T/some/l" "//$T/some/locks/"
}

# bats test_tags=more
@test "bash completion, with the bash-completion package" {
	[[ -r /usr/share/bash-completion/bash_completion ]] || not_here "needs bash-completion"
	drive bash_library
	mkdir -p "$T/some/files"
	offers_only bash_library "dlock run -b redis://h:1/0 name -- ls $T/some/" "$T/some/files"
}

# bats test_tags=more
@test "zsh completion" {
	need zsh
	drive zsh
	mkdir -p "$T/some/files"
	offers_only zsh "dlock run name -- ls $T/some/" files
}

# bats test_tags=more
@test "fish completion" {
	need fish
	drive fish
	mkdir -p "$T/some/files"
	offers_only fish "dlock run name -- ls $T/some/" "$T/some/files/"
}

@test "bash completion: names of locks" {
	drive_names bash
}

# bats test_tags=more
@test "bash completion: names of locks, with the bash-completion package" {
	[[ -r /usr/share/bash-completion/bash_completion ]] || not_here "needs bash-completion"
	drive_names bash_library
}

# bats test_tags=more
@test "zsh completion: names of locks" {
	need zsh
	drive_names zsh
}

# bats test_tags=more
@test "fish completion: names of locks" {
	need fish
	drive_names fish
}

@test "completion of names does not wait for a server that hangs" {
	local shell
	for shell in bash zsh fish; do
		if type -P "$shell" >/dev/null; then
			hung_server "$shell"
		fi
	done
}

# ---- README

@test "all pages: a URI with ? or & has quotes where a shell reads it" {
	not grep -nE '(-b|--backend|DLOCK_BACKEND)[ =]*[a-z+]+://[^ ]*[?&]' "$TOP"/*.md "$TOP"/docs/* \
		"$TOP"/man/* "$TOP"/completions/* "$TOP"/debian/control "$TOP"/cmd/*.c "$TOP"/src/*/*.c \
		"$TOP"/src/backends/*/*.c
	# and the reader knows why
	grep -q 'In a shell, quote a URI' "$TOP/README.md"
	grep -q 'In a shell, quote a URI' "$TOP/man/dlock-backends.7"
	"$DLOCK" help run | grep -q 'In a shell, quote a URI'
}

@test "README: the packages to install are those that the build installs" {
	"$TOP/tests/packages" -l build | tr ' ' '\n' >wanted
	sed -n '/\.deb$/d; s/^sudo apt install //p' "$TOP/README.md" | tr ' ' '\n' >found
	same wanted found packages
}

@test "README and other pages: files that they name are there" {
	local page link
	for page in README.md CONTRIBUTING.md docs/{recipes,code,peers}.md; do
		grep -oE '\]\([^):]*\)' "$TOP/$page" | tr -d '()]' >links
		[[ -s links ]]
		while read -r link; do
			link=${link%%#*}
			[[ -e $TOP/${page%"${page##*/}"}$link ]] || fail "$page links to $link, which is not there"
		done <links
	done
	grep -oE '^    make [a-z]+' "$TOP/README.md" | while read -r _ target; do
		grep -Eqh "^([a-z-]+ )*$target( [a-z-]+)*:" "$TOP/Makefile" "$TOP/tests/rules.mk" || fail "README: no make $target"
	done
}

# bats test_tags=more
@test "the manual for the web: no link leads nowhere" {
	local page
	"$TOP/docs/html" "$T/html"
	cd "$T/html"
	for page in index.html recipes.html dlock.1.html dlock-file.7.html; do
		[[ -s $page ]]
	done
	{
		printf '%s\n' *
		grep -oE 'id="[^"]+"' -- *.html | sed 's/:id="/#/; s/"$//'
	} | sort >"$T/there"
	grep -oE '(href|src)="[^"]+"' -- *.html | sed -E 's/:(href|src)="/ /; s/"$//' |
		awk '$2 !~ /^(https?|mailto):/ { print $2 ~ /^#/ ? $1 $2 : $2 }' | sort -u >"$T/linked"
	[[ -s $T/linked ]]
	equal "$(comm -13 "$T/there" "$T/linked")" ''
	cd "$T"
}

@test "docs/speed.md: its charts are those of its table" {
	local picture
	for picture in ratios waiters; do
		"$TOP/docs/pictures/charts" "$picture" <"$TOP/docs/speed.md" |
			diff "$TOP/docs/pictures/$picture.svg" -
		has_line "$TOP/docs/speed.md" "\(pictures/$picture\.svg\)"
	done
}

# bats test_tags=more
@test "README: its picture shows what happens today" {
	need_root
	need tmux redis-server
	local file
	"$TOP/docs/pictures/terminals" "$DLOCK" >now
	for file in now "$TOP/docs/pictures/terminals.svg"; do
		sed -E 's/[0-9.]+m?s\b/Ns/g; s/(pid|fence) [0-9]+/\1 N/g' "$file" >"${file##*/}.text"
	done
	diff terminals.svg.text now.text
}

@test "README: at most 150 lines; exit statuses, backends, and a link to each page" {
	local page
	(($(wc -l <"$TOP/README.md") <= 150))
	statuses | grep -xE '[0-9]+' >wanted
	awk '/^## / { on = ($0 == "## Exit status") } on' "$TOP/README.md" | grep -oE '\b12[0-9]\b' >found
	same wanted found 'exit status'
	# all but those that are another name
	help_section Backends | grep -v 'another name for' | sed 's/ .*//' >wanted
	awk '/^## / { on = ($0 == "## Stores") } on' "$TOP/README.md" |
		grep '^| `' | cut -d'|' -f2 | grep -oE '`[a-z+]+:' | tr -d '`' | sort -u >found
	same wanted found backends
	for page in "$TOP"/man/* "$TOP"/docs/{recipes,peers,speed}.md; do
		page=${page#"$TOP/"}
		grep -qF "($page)" "$TOP/README.md" || fail "README does not link to $page"
	done
}

@test "README and recipes: options that they name are there" {
	# in lines that speak of dlock's own, each option is in the table
	local command option
	for command in $(commands); do
		option_words "$command"
	done >known
	grep -ohE '`-{1,2}[a-zA-Z][a-z-]*( [0-9a-zA-Z]+)?`' "$TOP/README.md" "$TOP/docs/recipes.md" |
		tr -d '`' | sed 's/ .*//' | sort -u >named
	[[ -s named ]]
	while read -r option; do
		grep -qxF -e "$option" known || fail "no option $option"
	done <named
}

@test "CONTRIBUTING and others: files, names and targets that they name are there" {
	local word
	grep -ohE '`(src|cmd|tests|man|debian)/[a-zA-Z0-9_./-]+`' \
		"$TOP"/{CONTRIBUTING,SECURITY,docs/code,docs/backend}.md | tr -d '`' | grep -v NAME | sort -u >named
	[[ -s named ]]
	while read -r word; do
		[[ -e $TOP/$word ]] || fail "CONTRIBUTING names $word"
	done <named
	# functions, structures and their members
	grep -ohE '`(struct |enum )?[a-z]+(_[a-z]+)+`' "$TOP"/{CONTRIBUTING,docs/code,docs/backend}.md | tr -d '`' |
		sort -u >named
	[[ -s named ]]
	while read -r word; do
		grep -rqw "$word" "$TOP"/{src,cmd,tests/conformance} || fail "CONTRIBUTING names $word"
	done <named
	grep -oE '^    make [a-z0-9-]+' "$TOP/CONTRIBUTING.md" | while read -r _ word; do
		grep -Eqh "^([a-z-]+ )*$word( [a-z-]+)*:" "$TOP/Makefile" "$TOP/tests/rules.mk" || fail "CONTRIBUTING: no make $word"
	done
}

@test "docs/backend.md: it names every function of a backend" {
	sed -nE '/^struct backend_ops \{/,/^};/s/.*\*([a-z_]+)(;|\)\().*/\1/p' "$TOP/src/lock/backend.h" >wanted
	equal "$(wc -l <wanted)" 12 functions
	while read -r name; do
		has_line "$TOP/docs/backend.md" "\`(mem_)?${name%_hold}\(\)" || fail "no $name"
	done <wanted
}

@test "tests/redis/redis.bash, tests/file/file.bats: each number in their lists names a test" {
	sed -n 's/^#\t\([0-9][0-9]*b\{0,1\}\)\t.*/\1/p' "$TOP"/tests/{redis/redis.bash,file/file.bats} | sort >wanted
	(($(wc -l <wanted) == 34))
	{
		grep -hE '^# \[.*\]$' "$TOP"/tests/{redis,redlock,file,cli,conformance}/*.bats
		grep -hE '^/\* \[.*\] \*/$' "$TOP"/tests/unit/*.c
	} | grep -oE '[0-9]+b?' | sort -u >found
	same wanted found "numbers above tests"
}
