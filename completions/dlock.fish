# SPDX-License-Identifier: MIT
# fish completion for dlock(1)

# Where the cursor is: "start" (no command yet); or in one of the commands, as in
# "options run acquire", "value ...", "named ..." (behind the first operand of run),
# "ended ..." (behind the "--" of another command) or "wrapped ..." (behind that of run)
function __dlock_at
    set -l words (commandline -opc)
    set -l place options
    for word in $words[3..-1]
        switch $place
            case value
                set place options
            case options named
                if test "$word" = --
                    set place ended
                    test $words[2] = run; and set place wrapped
                else if test $place = named
                    continue
                else if __dlock_takes_value $word
                    set place value
                else if test $words[2] = run; and not string match -q -- '-*' $word
                    set place named
                end
        end
    end
    # an option that stands where a value is wanted is none
    if test $place = value; and not string match -q -- '-*' (commandline -ct)
        set place options
    end
    if set -q words[2]
        test "$argv[1]" = $place; and contains -- $words[2] $argv[2..-1]
    else
        test "$argv" = start
    end
end

# True when the value of the option in $argv is the next word
function __dlock_takes_value
    string match -qr -- '^(-[nsqvh]*[bwtEk]|--(backend|wait|ttl|slots|conflict-exit-code|min-hold|kill-after|leftovers|max-run|until|on-lost|on-lost-run|if-down|pid|note|log|metrics))$' $argv
end

# True at an operand that is the name of a lock
function __dlock_at_name
    __dlock_at options $argv; or __dlock_at ended $argv; or return
    set -l words (commandline -opc)
    test $words[2] = status; and return
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
    printf '%s\t%s\n' file: 'a directory on this host' redis:// 'a Redis or Valkey server' \
        rediss:// 'a Redis or Valkey server, with TLS' \
        redis+unix:// 'a Redis or Valkey server' \
        valkey:// 'a Redis or Valkey server' valkeys:// 'a Redis or Valkey server, with TLS' \
        valkey+unix:// 'a Redis or Valkey server' \
        valkey+sentinel:// 'the master that Redis Sentinel names' \
        valkey+cluster:// 'a Redis or Valkey cluster' \
        redlock:// 'a majority of several Redis or Valkey servers' \
        redis+sentinel:// 'the master that Redis Sentinel names' \
        redis+cluster:// 'a Redis or Valkey cluster' \
        zookeeper:// 'a ZooKeeper ensemble' zk:// 'a ZooKeeper ensemble' \
        mysql:// 'a MySQL or MariaDB server' mariadb:// 'a MySQL or MariaDB server'
end

complete -c dlock -f
complete -c dlock -n '__dlock_at start' -a run -d 'run a command while holding a lock'
complete -c dlock -n '__dlock_at start' -a acquire -d 'take a lock, print its token'
complete -c dlock -n '__dlock_at start' -a renew -d 'extend the lease to a full TTL from now'
complete -c dlock -n '__dlock_at start' -a verify -d 'ask whether a token is still the holder'
complete -c dlock -n '__dlock_at start' -a release -d 'give a lock back'
complete -c dlock -n '__dlock_at start' -a status -d 'show who holds locks and who waits'
complete -c dlock -n '__dlock_at start' -a wait -d 'wait until nobody holds a lock, without taking it'
complete -c dlock -n '__dlock_at start' -a break -d 'take a lock away from whoever holds it'
complete -c dlock -n '__dlock_at start' -a check -d 'find out whether a backend is fit to hold locks'
complete -c dlock -n '__dlock_at start' -a setup -d 'create what a backend needs'
complete -c dlock -n '__dlock_at start' -a help -d 'show help'
complete -c dlock -n '__dlock_at start' -a version -d 'show the version'
complete -c dlock -n '__dlock_at start' -s h -l help -d 'show help'
complete -c dlock -n '__dlock_at start' -l version -d 'show the version'

set -l backend_commands run acquire renew verify release status wait break check setup
complete -c dlock -n "__dlock_at options $backend_commands" -s b -l backend -x -a '(__dlock_backends)' -d 'where the lock lives'
complete -c dlock -n '__dlock_at options run acquire' -s n -l nonblock -d 'do not wait'
complete -c dlock -n '__dlock_at options run acquire wait' -s w -l wait -x -d 'wait no longer than this'
complete -c dlock -n '__dlock_at options run acquire renew' -s t -l ttl -x -d 'lease time'
complete -c dlock -n '__dlock_at options run acquire' -s s -l shared -d 'take a shared hold'
complete -c dlock -n '__dlock_at options run acquire' -l slots -x -d 'allow up to N holders at once'
complete -c dlock -n '__dlock_at options run acquire wait' -s E -l conflict-exit-code -x -d 'exit status for "not obtained"'
complete -c dlock -n '__dlock_at options run acquire' -l min-hold -x -d 'keep the lock at least this long'
complete -c dlock -n '__dlock_at options run' -l no-renew -d 'stop the command before the first lease ends'
complete -c dlock -n '__dlock_at options run' -l leftovers -x -a 'kill wait' -d 'what to do with processes that the command leaves running'
complete -c dlock -n '__dlock_at options run' -l max-run -x -d 'stop the command when it has run for this long'
complete -c dlock -n '__dlock_at options run' -l until -x -d 'stop the command, or the wait, at this time of day'
complete -c dlock -n '__dlock_at options run' -l contain -d 'run the command in a PID namespace'
complete -c dlock -n '__dlock_at options run' -l no-contain -d 'do not use a PID namespace'
complete -c dlock -n '__dlock_at options run' -s k -l kill-after -x -d 'time from TERM to KILL'
complete -c dlock -n '__dlock_at options run acquire' -l on-lost -x -a 'kill warn' -d 'what to do when the lock is lost'
complete -c dlock -n '__dlock_at options run acquire' -l note -x -d 'show this to those who are refused the lock'
complete -c dlock -n '__dlock_at options run acquire' -l replace-waiters -d 'send away earlier waiters that also have this option'
complete -c dlock -n '__dlock_at options run acquire' -l syslog -d 'send messages to syslog, too'
complete -c dlock -n '__dlock_at options run acquire' -l log -x -a 'text json' -d 'the form of messages'
complete -c dlock -n '__dlock_at options run' -l metrics -r -F -d 'write metrics of this run'
complete -c dlock -n '__dlock_at options run' -l on-lost-run -x -d 'run this when the lock was lost and the command has ended'
complete -c dlock -n '__dlock_at options run' -l if-down -x -a 'fail run' -d 'what to do when the backend is down'
complete -c dlock -n '__dlock_at options acquire' -l pid -x -a '(__fish_complete_pids)' -d 'hold for as long as this process lives'
complete -c dlock -n '__dlock_at options status' -l names -d 'print only the names of all locks'
complete -c dlock -n '__dlock_at options status' -l watch -d 'show the locks every 2 seconds'
complete -c dlock -n '__dlock_at options break' -l yes -d 'do not ask'
complete -c dlock -n '__dlock_at options setup' -l dry-run -d 'only print what would be made'
complete -c dlock -n '__dlock_at options acquire renew status check' -l json -d 'print JSON'
complete -c dlock -n "__dlock_at options $backend_commands" -s q -l quiet -d 'print only errors, and warnings of a lost lock'
complete -c dlock -n "__dlock_at options $backend_commands version" -s v -l verbose -d 'report each step'
complete -c dlock -n "__dlock_at options $backend_commands help version" -s h -l help -d 'show the options'

complete -c dlock -n '__dlock_at_name status renew verify release wait break' -a '(__dlock_names)' -d 'a lock'
complete -c dlock -n '__dlock_at named run' -a -- -d 'the command follows'
complete -c dlock -n '__dlock_at wrapped run' -x -a '(__dlock_wrapped)'
complete -c dlock -n "__dlock_at options help" -a 'run acquire renew verify release status wait break check setup help version'
