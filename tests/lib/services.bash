# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Servers, proxies and clocks of a single test.

# clock SECONDS|still [FILE]: puts the clock of the programs whose TORTURE_CLOCK is FILE, "clock" by
# default, that far from the true time, "+3600" or "-3600", or makes it stand still
# (preload/wallclock.c)
clock() {
	local ns shift bytes=
	if [[ $1 == still ]]; then
		ns=0x7fffffffffffffff
	else
		ns=$(($1 * 1000000000))
	fi
	for shift in 0 8 16 24 32 40 48 56; do
		printf -v bytes '%s\\x%02x' "$bytes" $((ns >> shift & 255))
	done
	# The file stays the same, for the program has it in its memory.
	printf '%b' "$bytes" 1<>"${2:-clock}"
}

# clocked PROGRAM: makes ./clocked, which runs PROGRAM with the wall clock that the test sets with
# `clock`, the true time at first
clocked() {
	clock +0
	# The directory of the build may be closed to the user of a server.
	cp "$BUILD/tests/preload/wallclock.so" .
	cat >clocked <<-END
		#!/bin/sh
		export TORTURE_CLOCK='$T/clock' LD_PRELOAD='$T/wallclock.so'
		exec $1 "\$@"
	END
	chmod +x clocked
}

# private_redis [OPTION VALUE]...: a server that this test may stop, freeze or
# break. Sets P_DIR, P_PORT, P_PID and P_URI.
private_redis() {
	P_DIR=$T/redis.${#SERVICES[@]}
	redis_start "$P_DIR" "$@"
	P_PORT=$(<"$P_DIR/port")
	P_PID=$(<"$P_DIR/pid")
	P_URI=redis://127.0.0.1:$P_PORT
	SERVICES+=("$P_PID")
}

# private_zookeeper [KEY=VALUE]...: the same for ZooKeeper
private_zookeeper() {
	P_DIR=$T/zookeeper.${#SERVICES[@]}
	zookeeper_start "$P_DIR" "$@"
	P_PORT=$(<"$P_DIR/port")
	P_PID=$(<"$P_DIR/pid")
	P_URI=zookeeper://127.0.0.1:$P_PORT
	SERVICES+=("$P_PID")
}

# tool NAME [ARG]...: starts a tool, or a script of tests/lib/services, that prints a port when it is ready;
# sets TOOL_PORT and TOOL_PID. The tool ends with the test.
tool() {
	local out=$T/tool.${#SERVICES[@]} name=$1 program=$TOOLS/$1
	[[ $name != *.py ]] || program=$TOP/tests/lib/services/$name
	shift
	setpriv --pdeathsig KILL "$program" "$@" </dev/null >"$out" 2>&1 3>&- 4>&- &
	TOOL_PID=$!
	disown "$TOOL_PID"
	SERVICES+=("$TOOL_PID")
	line "$out" 20
	matches "$LINE" '^[0-9]+$' "$name"
	TOOL_PORT=$LINE
}

# floods HOW...: prints the words, unless dlock has the address sanitizer, which ends the process where
# a client library has no more memory for what comes
floods() {
	grep -q __asan_init "$BUILD/dlock" || echo "$@"
}

# hostile COMMAND...: runs dlock as `timed` does against a server that means no good. It ends with 122
# and one line, in time, and takes less than 400 MB. A crash of a client library that ran out of
# memory is no finding of the address sanitizer.
hostile() {
	ASAN_OPTIONS=handle_segv=0:allocator_may_return_null=1:log_path=$T/asan timed timeout 30 \
		python3 -c 'import os, resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)' "$T/rss" "$DLOCK" "$@"
	equal "$status" 122
	took "$MS" 0 10000
	between "$(<"$T/rss")" 1 400000 "kB of memory"
}

# own_names: sets DLOCK to a script that runs dlock with the names and addresses in ./hosts, which is
# written as /etc/hosts is, and may be written again
own_names() {
	need_root
	need unshare
	touch hosts
	cat >named <<-END
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "\$0" /etc/hosts && exec "\$@"' \
			"$T/hosts" "$DLOCK" "\$@"
	END
	chmod +x named
	DLOCK=$T/named
}

# start_proxy PORT: starts a proxy before the server at PORT; sets PROXY to its URI
start_proxy() {
	tool proxy -l "$T/requests" "$1" "$T/proxy.ctl"
	PROXY=redis://127.0.0.1:$TOOL_PORT
}

# proxy COMMAND...: sends a command to the proxy; sets ANSWER
proxy() {
	ANSWER=$(echo "$*" | socat -t5 - "UNIX-CONNECT:$T/proxy.ctl")
	[[ $ANSWER == ok || $1 == stats ]] || fail "proxy $*: $ANSWER"
}

# proxy_stat NAME: sets VALUE to this counter of the proxy
proxy_stat() {
	proxy stats
	VALUE=${ANSWER#*"$1="}
	VALUE=${VALUE%% *}
}

# rcli ARG...: redis-cli to the Redis of this file's tests
rcli() {
	redis_at "$REDIS_DIR" "$@"
}

# ---- servers

# server_runs DIR: the server whose pid is in DIR/pid is alive. A minute after its end another process may have the
# pid; a server has DIR in its command, or works there.
server_runs() {
	local pid
	pid=$(<"$1/pid")
	alive "$pid" && { [[ /proc/$pid/cwd -ef $1 ]] || grep -qsF "$1" "/proc/$pid/cmdline"; }
}

# server_stop DIR: kills the server whose pid is in DIR, whatever state it is in
server_stop() {
	local pid
	pid=$(<"$1/pid")
	if server_runs "$1"; then
		kill -KILL "$pid"
	elif alive "$pid"; then
		return
	fi
	wait_until 5 all_ended "$pid"
}

# all_ended PID: the process has ended, with all of its threads: the first one may end before another, by
# which the server's port is still in use
all_ended() {
	local threads=("/proc/$1/task/"*)
	((${#threads[@]} <= 1)) && ended "$1"
}

# begin_starter DIR SERVICE FUNCTION: for setup_file. What a test starts ends with it, so that a process
# of the file calls FUNCTION of lib/services/SERVICE.bash for each member of the cluster in DIR whose
# number it reads from DIR/start. end_starter DIR ends it.
begin_starter() {
	mkfifo "$1/start"
	# shellcheck disable=SC2016 # for the inner shell
	setpriv --pdeathsig KILL bash -c 'source "$0"; while read -r member; do "$2" "$1/$member"; done' \
		"$TOP/tests/lib/services/$2.bash" "$1" "$3" <>"$1/start" >"$1/starter.log" 2>&1 3>&- 4>&- &
	echo $! >"$1/starter"
	disown $!
}

end_starter() {
	kill -KILL "$(<"$1/starter")"
}
