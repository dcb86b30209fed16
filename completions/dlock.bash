# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of dlock(1) for bash. It works without the bash-completion package; with it, the
# arguments of the wrapped command are completed, too.

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

# Prints the names of the sections of both configuration files.
_dlock_sections()
{
	local file
	for file in "${XDG_CONFIG_HOME:-$HOME/.config}/dlock.conf" /etc/dlock.conf; do
		if [[ -r $file ]]; then
			sed -n 's/^[[:space:]]*\[\([^]]*\)].*/\1/p' "$file"
		fi
	done 2>/dev/null
}

_dlock_backends()
{
	local names dirs dir
	if [[ $cur == file://* ]]; then
		mapfile -t dirs < <(compgen -d -- "${cur#file://}")
		names=()
		for dir in "${dirs[@]}"; do
			names+=("file://$dir/")
		done
	else
		mapfile -t names < <(_dlock_sections)
		names+=(file: redis:// rediss:// redis+unix:// redis+sentinel:// redis+cluster://
			valkey:// valkeys:// valkey+unix:// valkey+sentinel:// valkey+cluster://
			redlock:// zookeeper:// zk:// mysql:// mariadb://)
	fi
	_dlock_reply "${names[@]}"
	if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
		compopt -o nospace 2>/dev/null
	fi
}

# Offers values for the option $1.
_dlock_value()
{
	case $1 in
	-b | --backend) _dlock_backends ;;
	--on-lost) _dlock_reply kill warn ;;
	--if-down) _dlock_reply fail run ;;
	--leftovers) _dlock_reply kill wait ;;
	--queue) _dlock_reply oldest newest ;;
	--log) _dlock_reply text json ;;
	--metrics)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	--pid) _dlock_pids ;;
	esac
}

_dlock_pids()
{
	local dirs=(/proc/[0-9]*)
	_dlock_reply "${dirs[@]#/proc/}"
}

# Prints the options of the command $1.
_dlock_options()
{
	local options='-h --help'
	case $1 in
	help) ;;
	version) options+=' -v --verbose' ;;
	*) options+=' -b --backend -q --quiet -v --verbose' ;;
	esac
	case $1 in
	run | acquire)
		options+=' -n --nonblock -s --shared --slots --min-hold --on-lost --note --syslog'
		options+=' --priority --queue --replace-waiters --log' ;;
	esac
	case $1 in
	run | acquire | wait) options+=' -w --wait -E --conflict-exit-code' ;;
	esac
	case $1 in
	run | acquire | renew) options+=' -t --ttl' ;;
	esac
	case $1 in
	acquire | renew | status | check) options+=' --json' ;;
	esac
	case $1 in
	run) options+=' --no-renew -k --kill-after --leftovers --max-run --until --contain --no-contain --if-down'
		options+=' --metrics --' ;;
	acquire) options+=' --pid' ;;
	status) options+=' --watch' ;;
	break) options+=' --yes' ;;
	setup) options+=' --dry-run' ;;
	esac
	echo "$options"
}

# Completes the command behind "--", which is word number $1, and its arguments.
_dlock_wrapped()
{
	local offset i
	if declare -F _comp_command_offset >/dev/null; then
		offset=_comp_command_offset
	elif declare -F _command_offset >/dev/null; then
		offset=_command_offset
	fi
	if [[ -n ${offset-} ]]; then
		# The functions of bash-completion count words as bash splits them.
		for ((i = 1; i < COMP_CWORD; i++)); do
			if [[ ${COMP_WORDS[i]} == -- ]]; then
				"$offset" $((i + 1))
				return
			fi
		done
	elif ((cword == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -d -- "$cur")
	else
		compopt -o default 2>/dev/null
	fi
}

# Completes options of the command $1, their values, and operands.
_dlock_command()
{
	local i word options name=
	for ((i = 2; i < cword; i++)); do
		word=${words[i]}
		case $word in
		--)
			if [[ $1 == run ]]; then
				_dlock_wrapped $((i + 1))
			fi
			return
			;;
		--*=*) ;;
		-*)
			if [[ -z $name ]] && _dlock_takes_value "$word"; then
				((++i))
				if ((i == cword)); then
					_dlock_value "$OPTION"
					return
				fi
			fi
			;;
		*) name=$word ;;
		esac
	done
	if [[ -n $name ]]; then
		# Options end at the name.
		if [[ $1 == run ]]; then
			_dlock_reply --
		fi
		return
	fi
	case $cur in
	--on-lost=* | --if-down=* | --queue=* | --log=* | --metrics=* | --backend=* | --pid=*)
		word=${cur%%=*}
		cur=${cur#*=}
		_dlock_value "$word"
		if [[ $COMP_WORDBREAKS != *=* ]]; then
			COMPREPLY=("${COMPREPLY[@]/#/$word=}")
		fi
		;;
	-*)
		read -ra options <<<"$(_dlock_options "$1")"
		_dlock_reply "${options[@]}"
		;;
	*)
		if [[ $1 == help ]]; then
			_dlock_reply "${commands[@]}"
		fi
		;;
	esac
}

# True when $1, which may be a cluster (-nqw), ends in an option whose value is the next word. Sets
# OPTION to that option.
_dlock_takes_value()
{
	OPTION=$1
	if [[ $1 != --* ]]; then
		# The value may stand in the same word, as in -w5.
		case $1 in
		-*[bwtEk]?*) return 1 ;;
		esac
		OPTION=-${1: -1}
	fi
	case $OPTION in
	-[bwtEk] | --backend | --wait | --ttl | --slots | --conflict-exit-code) ;;
	--min-hold | --kill-after | --leftovers | --max-run | --until) ;;
	--on-lost | --if-down | --pid | --note | --priority | --queue | --log | --metrics) ;;
	*) return 1 ;;
	esac
}

_dlock()
{
	local words cword cur OPTION command
	local commands=(run acquire renew verify release status wait break check setup help version)
	COMPREPLY=()
	_dlock_words
	if ((cword == 1)); then
		_dlock_reply "${commands[@]}" -h --help --version
		return
	fi
	for command in "${commands[@]}"; do
		if [[ $command == "${words[1]}" ]]; then
			_dlock_command "$command"
		fi
	done
}

complete -F _dlock dlock
