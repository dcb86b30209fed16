# SPDX-License-Identifier: MIT
# fish completion for dlock(1). `dlock help --words` prints what is offered, in lines
# COMMAND;OPTION;ARGUMENT;TEXT.
set -g __dlock_rows (command dlock help --words 2>/dev/null)

# Where the cursor is: "start" (no command yet); or in one of the commands, as in
# "options run acquire", "value ...", "named ..." (behind the first operand of run),
# "ended ..." (behind the "--" of another command) or "wrapped ..." (behind that of run)
function __dlock_at
    set -l words (commandline -opc)
    set -l place options
    set -l back options
    for word in $words[3..-1]
        switch $place
            case value
                set place $back
            case options named
                if test "$word" = --
                    set place ended
                    test $words[2] = run; and set place wrapped
                else if __dlock_takes_value $word
                    set back $place
                    set place value
                else if test $words[2] = run; and not string match -q -- '-*' $word
                    set place named
                end
        end
    end
    # an option that stands where a value is wanted is none
    if test $place = value; and not string match -q -- '-*' (commandline -ct)
        set place $back
    end
    # options may follow the name
    test "$argv[1]$place" = optionsnamed; and set place options
    if set -q words[2]
        test "$argv[1]" = $place; and contains -- $words[2] $argv[2..-1]
    else
        test "$argv" = start
    end
end

# True when the value of the option in $argv, which may be a cluster, is the next word
function __dlock_takes_value
    string match -qr -- "^(-[$__dlock_flags]*[$__dlock_valued]|--($__dlock_long_valued))\$" $argv
end

# True at an operand that is the name of a lock
function __dlock_at_name
    __dlock_at options $argv; or __dlock_at ended $argv; or return
    set -l words (commandline -opc)
    contains -- $words[2] status wait break; and return
    set -l value no
    set -l ended no
    for word in $words[3..-1]
        if test $value = yes
            set value no
        else if test $ended = yes; or not string match -q -- '-*' $word
            return 1
        else if test "$word" = --
            set ended yes
        else if __dlock_takes_value $word
            set value yes
        end
    end
    return 0
end

# The names of the locks on the backend of this line. When the backend needs longer than 300 ms, no
# name is offered. A word that the shell would expand is not used, since that may run a command.
function __dlock_names
    set -l words (commandline -op)
    set -l where
    set -l value no
    for word in $words[3..-1]
        if test $value = yes
            set where $word
            set value no
        else if test "$word" = --
            break
        else if string match -qr -- '^(-[nsqvh]*b|--backend)$' $word
            set value yes
        else if string match -qr -- '^(-[nsqvh]*b|--backend=).' $word
            set where (string replace -r -- '^(-[nsqvh]*b|--backend=)' '' $word)
        end
    end
    string match -qr -- '[$(]' $where; and return
    # A password would show in an argument.
    set -q where[1]; and set -lx DLOCK_BACKEND $where
    set -l names (timeout -s KILL 0.3 $words[1] status --names </dev/null 2>/dev/null)
    or return
    # Without "--" before it, such a name would be taken for an option.
    if not contains -- -- (commandline -opc)
        set names (string match -v -- '-*' $names)
    end
    printf '%s\n' $names
end

# The command behind "--" and its arguments
function __dlock_wrapped
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -e words[1..$at]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

function __dlock_backends
    set -l home $XDG_CONFIG_HOME
    test -n "$home"; or set home $HOME/.config
    for file in $home/dlock.conf /etc/dlock.conf
        if test -r $file
            string replace -rf '^\s*\[([^]]*)\].*' '$1\tbackend' <$file
        end
    end
    for row in (string match -r '^;.*' -- $__dlock_rows)
        set -l field (string split ';' -- $row)
        test $field[2] = file; and set field[2] file:; or set field[2] $field[2]://
        printf '%s\t%s\n' $field[2] $field[4]
    end
end

complete -c dlock -f
complete -c dlock -n '__dlock_at start' -s h -l help -d 'show help'
complete -c dlock -n '__dlock_at start' -s V -l version -d 'show the version'
set -g __dlock_commands
set -g __dlock_flags ''
set -g __dlock_valued ''
set -l long_valued timeout
for row in $__dlock_rows
    set -l field (string split -m 3 ';' -- $row)
    set -l how
    if test -z "$field[1]"
        continue
    else if test -z "$field[2]"
        set -a __dlock_commands $field[1]
        complete -c dlock -n '__dlock_at start' -a $field[1] -d $field[4]
        continue
    else if string match -q -- '--*' $field[2]
        set how -l (string sub -s 3 -- $field[2])
        test -n "$field[3]"; and set -a long_valued $how[2]
    else
        set how -s (string sub -s 2 -- $field[2])
        if test -n "$field[3]"
            set __dlock_valued $__dlock_valued$how[2]
        else
            set __dlock_flags $__dlock_flags$how[2]
        end
    end
    switch $field[3]
        case ''
        case URI
            set -a how -x -a '(__dlock_backends)'
        case FILE
            set -a how -r -F
        case PID
            set -a how -x -a '(__fish_complete_pids)'
        case '*|*'
            set -a how -x -a (string replace -a '|' ' ' -- $field[3])
        case '*'
            set -a how -x
    end
    complete -c dlock -n "__dlock_at options $field[1]" $how -d $field[4]
end
set -g __dlock_long_valued (string join '|' -- $long_valued)

complete -c dlock -n '__dlock_at_name status renew verify release wait break' -a '(__dlock_names)' -d 'a lock'
complete -c dlock -n '__dlock_at named run' -a '-- -c' -d 'the command follows'
complete -c dlock -n '__dlock_at wrapped run' -x -a '(__dlock_wrapped)'
complete -c dlock -n "__dlock_at options help" -a '$__dlock_commands'
complete -c dlock -n "__dlock_at options completion" -a 'bash zsh fish'
