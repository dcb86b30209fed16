# SPDX-License-Identifier: MIT
# fish completion for dlock(1)

# Where the cursor is: "start" (no command yet), "COMMAND options", "COMMAND value",
# "COMMAND named" (behind its first operand) or "COMMAND wrapped" (behind "--")
function __dlock_at
    set -l words (commandline -opc)
    set -l place options
    for word in $words[3..-1]
        switch $place
            case value
                set place options
            case options named
                if test "$word" = --
                    set place wrapped
                else if test $place = named
                    continue
                else if string match -qr -- '^(-[nsqvh]*[bwtEk]|--(backend|wait|ttl|slots|conflict-exit-code|min-hold|kill-after|on-lost|if-down))$' $word
                    set place value
                else if not string match -q -- '-*' $word
                    set place named
                end
        end
    end
    # an option that stands where a value is wanted is none
    if test $place = value; and not string match -q -- '-*' (commandline -ct)
        set place options
    end
    if set -q words[2]
        test "$argv" = "$words[2] $place"
    else
        test "$argv" = start
    end
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
    printf '%s\t%s\n' file: 'a directory on this host' redis:// 'a Redis or Valkey server' \
        redis+unix:// 'a Redis or Valkey server'
end

complete -c dlock -f
complete -c dlock -n '__dlock_at start' -a run -d 'run a command while holding a lock'
complete -c dlock -n '__dlock_at start' -a help -d 'show help'
complete -c dlock -n '__dlock_at start' -a version -d 'show the version'
complete -c dlock -n '__dlock_at start' -s h -l help -d 'show help'
complete -c dlock -n '__dlock_at start' -l version -d 'show the version'

complete -c dlock -n '__dlock_at run options' -s b -l backend -x -a '(__dlock_backends)' -d 'where the lock lives'
complete -c dlock -n '__dlock_at run options' -s n -l nonblock -d 'do not wait'
complete -c dlock -n '__dlock_at run options' -s w -l wait -x -d 'wait no longer than this'
complete -c dlock -n '__dlock_at run options' -s t -l ttl -x -d 'lease time'
complete -c dlock -n '__dlock_at run options' -s s -l shared -d 'a shared hold'
complete -c dlock -n '__dlock_at run options' -l slots -x -d 'up to N holders at once'
complete -c dlock -n '__dlock_at run options' -s E -l conflict-exit-code -x -d 'exit status for "not obtained"'
complete -c dlock -n '__dlock_at run options' -l min-hold -x -d 'keep the lock at least this long'
complete -c dlock -n '__dlock_at run options' -l no-renew -d 'one lease only'
complete -c dlock -n '__dlock_at run options' -s k -l kill-after -x -d 'time from TERM to KILL'
complete -c dlock -n '__dlock_at run options' -l on-lost -x -a 'kill warn' -d 'when the lock is lost'
complete -c dlock -n '__dlock_at run options' -l if-down -x -a 'fail run' -d 'when the backend is down'
complete -c dlock -n '__dlock_at run options' -s q -l quiet -d 'say nothing but errors'
complete -c dlock -n '__dlock_at run options' -s v -l verbose -d 'say each step'
complete -c dlock -n '__dlock_at run options' -s h -l help -d 'show the options'
complete -c dlock -n '__dlock_at run named' -a -- -d 'the command follows'
complete -c dlock -n '__dlock_at run wrapped' -x -a '(__dlock_wrapped)'

complete -c dlock -n '__dlock_at help options' -a 'run help version'
complete -c dlock -n '__dlock_at help options' -s h -l help -d 'show the options'
complete -c dlock -n '__dlock_at version options' -s h -l help -d 'show the options'
