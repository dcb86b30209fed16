# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Time: durations, and waiting for a condition.

# now: sets NOW to the ms since boot, without starting a process. /proc/uptime counts in units
# of 10 ms, which is precise enough for every assertion here.
now() {
	local uptime
	read -r uptime _ </proc/uptime
	NOW=$((10#${uptime/./} * 10))
}

# timed COMMAND...: runs it as `run --separate-stderr` does; its duration goes to MS.
timed() {
	local start
	now
	start=$NOW
	run --separate-stderr "$@"
	now
	MS=$((NOW - start))
}

# pause SECONDS: sleeps without starting a process where possible, because most pauses are so
# short that sleep(1) would make them a tenth longer
pause() {
	if [[ -p ${BATS_FILE_TMPDIR-}/never ]]; then
		# Nothing is ever written into this FIFO.
		read -rt "$1" <>"$BATS_FILE_TMPDIR/never" || :
	else
		sleep "$1"
	fi
}

pause_ms() {
	local seconds
	printf -v seconds '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
	pause "$seconds"
}

# How slow the machine is, 1 to 4: tests/check measures it at its start.
SLOW=${SLOW:-1}

# slack: sets SLACK to the ms in which the machine starts 50 programs, one after the other, as it does
# at this moment, and half a second more for each step of SLOW beyond 1. They are some 70 on a fast
# machine that is not busy, so that a limit which is longer by SLACK is still that limit there. Where
# other programs want the processor, too, they are many.
slack() {
	local start
	now
	start=$NOW
	for _ in {1..25}; do
		sleep 0
	done
	now
	SLACK=$((2 * (NOW - start) + 500 * (SLOW - 1)))
}

# took MS LOW HIGH [WHAT]: `between` for a duration, which may be longer on a busy machine
took() {
	if (($1 > $3)); then
		slack
		between "$1" "$2" "$(($3 + SLACK))" "${4:-ms}"
	else
		between "$1" "$2" "$3" "${4:-ms}"
	fi
}

# wait_until SECONDS COMMAND...: polls until COMMAND succeeds, and fails at the deadline, which is later
# by three times SLACK on a busy machine, because no test measures by it. It polls after 20 ms, and after a
# fifth of the time since, up to 250 ms; less often where COMMAND takes long itself, such as a client of
# MySQL, which gets a fifth of the time at most.
wait_until() {
	local seconds=$1 start deadline late='' asked ms
	shift
	now
	start=$NOW deadline=$((NOW + seconds * 1000)) asked=$NOW
	until "$@"; do
		now
		if ((NOW <= deadline)); then
			ms=$(((NOW - start) / 5))
			((ms >= 20)) || ms=20
			((ms <= 250)) || ms=250
			((ms >= 4 * (NOW - asked))) || ms=$((4 * (NOW - asked)))
			pause_ms "$ms"
			asked=$((NOW + ms))
		elif [[ -z $late ]]; then
			late=1
			slack
			((deadline += 3 * SLACK))
		else
			echo "waited $(((NOW - start) / 1000)) s for: $*" >&2
			return 1
		fi
	done
}

# holds_for MS COMMAND...: COMMAND succeeds now, after each tenth of MS, or 0.1 s where that is longer, and
# when MS are over; less often where it takes long itself, which gets a fifth of the time at most. A failure that is shorter than this may go
# unnoticed; a process that is dead and a hold that is lost stay so.
holds_for() {
	local ms=$1 deadline asked rest least
	shift
	least=$((ms < 1000 ? 100 : ms / 10))
	now
	deadline=$((NOW + ms))
	while :; do
		asked=$NOW
		"$@" || fail "did not stay so for $ms ms: $*"
		((asked < deadline)) || return 0
		now
		rest=$((4 * (NOW - asked)))
		((rest >= least)) || rest=$least
		# The last time is when MS are over, not later.
		((NOW + rest <= deadline)) || rest=$((NOW < deadline ? deadline - NOW : 0))
		pause_ms "$rest"
		now
	done
}

# noon SECONDS: prints a TZ in which it is that many seconds before 12:00 now
noon() {
	local seconds sign=-
	# A zone of the form XXX-01:00:00 is ahead of UTC by that much.
	seconds=$((12 * 3600 - $1 - $(date +%s) % 86400))
	if ((seconds < 0)); then
		sign=+ seconds=$((-seconds))
	fi
	printf 'XXX%s%02d:%02d:%02d\n' $sign $((seconds / 3600)) $((seconds / 60 % 60)) $((seconds % 60))
}

# not COMMAND...: succeeds when COMMAND fails. As an assertion, because errexit ignores "! COMMAND",
# and for wait_until and holds_for, which take a command.
not() {
	! "$@"
}
