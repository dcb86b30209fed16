# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of dlock(1) for bash. It works without the bash-completion package; with it, the
# arguments of the wrapped command are completed, too. `dlock help --words` prints what is offered.

# Sets words to the words of the line, cword to the number of the current one, and cur to that word.
# Bash itself splits words at ':' and '=', which here are joined again.
_dlock_words()
{
	local rest=${COMP_LINE} i joined
	words=() cword=0
	for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
		joined=
		if ((i > 0)) && [[ ${rest:0:1} != [[:space:]] && -n $rest ]]; then
			joined=1
		fi
		rest=${rest#"${rest%%[![:space:]]*}"}
		rest=${rest#"${COMP_WORDS[i]}"}
		if [[ -n $joined && -n ${COMP_WORDS[i]} ]]; then
			words[${#words[@]} - 1]+=${COMP_WORDS[i]}
		else
			words+=("${COMP_WORDS[i]}")
		fi
		if ((i == COMP_CWORD)); then
			cword=$((${#words[@]} - 1))
		fi
	done
	cur=${words[cword]}
}

# Offers those of its arguments that begin with cur. Where bash takes only what follows the last
# ':' for the current word, the part before that is cut off.
_dlock_reply()
{
	local word lead=
	if [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]]; then
		lead=${cur%"${cur##*:}"}
	fi
	for word; do
		if [[ $word == "$cur"* ]]; then
			COMPREPLY+=("${word#"$lead"}")
		fi
	done
}

_dlock_backends()
{
	local names=() dirs dir
	if [[ $cur == file://* ]]; then
		mapfile -t dirs < <(compgen -d -- "${cur#file://}")
		for dir in "${dirs[@]}"; do
			names+=("file://$dir/")
		done
	else
		mapfile -t names < <(sed -n 's/^[[:space:]]*\[\([^]]*\)\].*/\1/p' \
			"${XDG_CONFIG_HOME:-$HOME/.config}/dlock.conf" /etc/dlock.conf 2>/dev/null)
		names+=("${schemes[@]/%/://}")
		names=("${names[@]/#file:\/\//file:}")
	fi
	_dlock_reply "${names[@]}"
	if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
		compopt -o nospace 2>/dev/null
	fi
}

# Offers values for the option $1.
_dlock_value()
{
	local choices
	case ${takes[$1]} in
	URI) _dlock_backends ;;
	FILE)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	PID)
		choices=(/proc/[0-9]*)
		_dlock_reply "${choices[@]#/proc/}"
		;;
	*'|'*)
		IFS='|' read -ra choices <<<"${takes[$1]}"
		_dlock_reply "${choices[@]}"
		;;
	esac
}

# Completes the command behind "--", which is word number $1, and its arguments.
_dlock_wrapped()
{
	local i
	if declare -F _comp_command_offset >/dev/null; then
		# bash-completion 2.12 and later counts the words of the array words.
		_comp_command_offset "$1"
	elif declare -F _command_offset >/dev/null; then
		# Versions before it count words as bash splits them.
		for ((i = 1; i < COMP_CWORD; i++)); do
			if [[ ${COMP_WORDS[i]} == -- ]]; then
				_command_offset $((i + 1))
				return
			fi
		done
	elif ((cword == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -d -- "$cur")
	else
		compopt -o default 2>/dev/null
	fi
}

# Sets plain to the word $1 as the shell reads it, without quotes and backslashes; quote to a
# quotation mark that is still open at its end; and kept to the number of characters of plain that
# bash leaves as they are when it inserts what is offered, or to -1 where a quotation mark was
# closed, which nothing is offered for. Fails where the shell would put something else in the place
# of a part of the word, since that may run a command.
_dlock_unquote()
{
	local i char
	plain='' quote='' kept=0
	for ((i = 0; i < ${#1}; i++)); do
		char=${1:i:1}
		case $quote$char in
		\" | \')
			quote=$char kept=${#plain}
			;;
		\"\" | \'\')
			quote='' kept=-1
			;;
		\\)
			plain+=${1: ++i:1}
			;;
		\"\\)
			if [[ ${1:i+1:1} != [\$\`\"\\] ]]; then
				plain+=$char
			fi
			plain+=${1: ++i:1}
			;;
		\$ | \` | \"\$ | \"\`)
			return 1
			;;
		*)
			plain+=$char
			if [[ -z $quote && $kept -ge 0 && $COMP_WORDBREAKS == *"$char"* ]]; then
				kept=${#plain}
			fi
			;;
		esac
	done
}

# Offers the names of the locks on the backend of this line, quoted as the current word is. When the
# backend needs longer than 300 ms, no name is offered.
_dlock_names()
{
	local plain quote kept names name rest char
	if [[ -n $backend ]]; then
		_dlock_unquote "$backend" || return
		# A password would show in an argument.
		local -x DLOCK_BACKEND=$plain
	fi
	_dlock_unquote "$cur" && ((kept >= 0)) || return
	names=$(timeout -s KILL 0.3 "$program" status --names </dev/null 2>/dev/null) ||
		return
	while IFS= read -r name; do
		if [[ -z $name || $name != "$plain"* || ($name == -* && $ended == 0) ]]; then
			continue
		fi
		rest=${name:kept}
		case $quote in
		\') rest=${rest//\'/\'\\\'\'} ;;
		\")
			# The backslash comes first, since each of the others gets one.
			for char in \\ \" \$ \`; do
				rest=${rest//"$char"/"\\$char"}
			done
			;;
		*) [[ -z $rest ]] || printf -v rest %q "$rest" ;;
		esac
		COMPREPLY+=("$rest")
	done <<<"$names"
}

# Reads the words behind the command $1, also those behind the current word. Sets
#	operands	to the number of operands before the current word,
#	waiting		to the option whose value the current word is, or to nothing,
#	ended		to the number of the word "--" before the current word, or to 0,
#	backend		to the value of -b as it was typed, or to nothing.
_dlock_parse()
{
	local i word
	operands=0 waiting='' ended=0 backend=''
	for ((i = 2; i < ${#words[@]}; i++)); do
		word=${words[i]}
		if ((i == cword)); then
			continue
		fi
		case $word in
		--)
			if ((i < cword)); then
				ended=$i
				((operands += cword - i - 1))
			fi
			return
			;;
		--backend=*)
			backend=${word#*=}
			;;
		--*=*) ;;
		-?*)
			if _dlock_takes_value "$word"; then
				((++i))
				if ((i == cword)); then
					waiting=$OPTION
				elif [[ ${takes[$OPTION]} == URI ]]; then
					backend=${words[i]-}
				fi
			elif [[ $OPTION == -b ]]; then
				backend=$VALUE
			fi
			;;
		*)
			if ((i < cword)); then
				((++operands))
			fi
			;;
		esac
	done
}

# Completes options of the command $1, their values, and operands.
_dlock_command()
{
	local operands waiting ended backend word
	_dlock_parse "$1"
	if [[ -n $waiting ]]; then
		_dlock_value "$waiting"
		return
	fi
	if [[ $1 == run && $ended != 0 ]]; then
		_dlock_wrapped $((ended + 1))
		return
	fi
	if [[ $1 == run && $operands != 0 && $cur != -* ]]; then
		[[ ${words[cword - 1]} == -c ]] || _dlock_reply -- -c
		return
	fi
	case $ended$cur in
	0--*=*)
		word=${cur%%=*}
		cur=${cur#*=}
		_dlock_value "$word"
		if [[ $COMP_WORDBREAKS != *=* ]]; then
			COMPREPLY=("${COMPREPLY[@]/#/$word=}")
		fi
		;;
	0-*)
		_dlock_reply "${options[@]}"
		;;
	*)
		_dlock_operand "$1"
		;;
	esac
}

# Completes an operand of the command $1.
_dlock_operand()
{
	case $1 in
	help) _dlock_reply "${commands[@]}" ;;
	completion) _dlock_reply bash zsh fish ;;
	status | wait | break) _dlock_names ;;
	renew | verify | release)
		if ((operands == 0)); then
			_dlock_names
		fi
		;;
	esac
}

# True when $1, which may be a cluster (-nqw), ends in an option whose value is the next word. Sets
# OPTION to that option; or to one whose value stands in the same word, as in -w5, and VALUE to that.
_dlock_takes_value()
{
	local i
	OPTION=$1
	if [[ $1 != --* ]]; then
		for ((i = 1; i < ${#1}; i++)); do
			OPTION=-${1:i:1} VALUE=${1:i+1}
			[[ -z ${takes[$OPTION]-} ]] || break
		done
		((i == ${#1} - 1)) || return
	fi
	[[ -n ${takes[$OPTION]-} ]]
}

_dlock()
{
	local words cword cur OPTION VALUE program=$1 of option argument
	local commands=() options=() schemes=()
	local -A takes=([--timeout]=DUR)
	COMPREPLY=()
	_dlock_words
	while IFS=';' read -r of option argument _; do
		case $of/$option in
		/*) schemes+=("$option") ;;
		*/) commands+=("$of") ;;
		"${words[1]}"/*) options+=("$option") takes[$option]=$argument ;;
		esac
	done < <(command "$program" help --words 2>/dev/null)
	if ((cword == 1)); then
		_dlock_reply "${commands[@]}" -h --help -V --version
	elif ((${#options[@]})); then
		[[ ${words[1]} != run ]] || options+=(--)
		_dlock_command "${words[1]}"
	fi
}

complete -F _dlock dlock
