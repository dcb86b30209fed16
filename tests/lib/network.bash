# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# Hosts that a test can cut off from each other. Each is a network namespace, with the address
# 10.77.0.N, behind a switch where it can be unplugged. Needs root, and helpers.bash.

# network_hosts COUNT: starts them. HOST has the processes that keep their networks, from 1 on; SWITCH
# that of the switch. $T/dlock.N is dlock on host N.
network_hosts() {
	local n
	need_root
	need ip nsenter unshare
	network_start
	SWITCH=$NETWORK
	at_switch ip link add switch type bridge
	at_switch ip link set switch up
	for ((n = 1; n <= $1; n++)); do
		network_start
		HOST[n]=$NETWORK
		at_switch ip link add "port$n" type veth peer name eth0 netns "${HOST[n]}"
		at_switch ip link set "port$n" master switch up
		on "$n" ip link set lo up
		on "$n" ip addr add "10.77.0.$n/24" dev eth0
		on "$n" ip link set eth0 up
		program "$n" dlock "$DLOCK"
	done
}

# network_start: makes a network that lasts as long as the process NETWORK lives
network_start() {
	setpriv --pdeathsig KILL unshare -n sh -c 'echo >"$0"; exec sleep 3600' "$T/network.${#SERVICES[@]}" \
		</dev/null >"$T/network.log" 2>&1 3>&- 4>&- &
	NETWORK=$!
	disown "$NETWORK"
	SERVICES+=("$NETWORK")
	wait_until 5 test -e "$T/network.$((${#SERVICES[@]} - 1))"
}

at_switch() {
	nsenter -t "$SWITCH" -n "$@"
}

# on N COMMAND...: runs COMMAND on host N
on() {
	nsenter -t "${HOST[$1]}" -n "${@:2}"
}

# program N NAME PATH: $T/NAME.N runs it on that host
program() {
	printf '#!/bin/sh\nexec nsenter -t %s -n %s "$@"\n' "${HOST[$1]}" "$3" >"$T/$2.$1"
	chmod +x "$T/$2.$1"
}

unplug() {
	at_switch ip link set "port$1" down
}

plug() {
	at_switch ip link set "port$1" up
}
