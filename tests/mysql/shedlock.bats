# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# ShedLock's table: the statements that the Java library sends (its storage-based lock
# provider with usingDbTime) are made here with the mariadb client, against dlock and
# the other way round.

load ../lib/helpers
load mysql

prepare() {
	export DLOCK_BACKEND="$MYSQL?dialect=shedlock"
	my "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL,
		locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL,
		PRIMARY KEY (name))"
}

# java_lock MS: does what a scheduled method does when it starts; true if it may run
java_lock() {
	local until="TIMESTAMPADD(MICROSECOND, $1 * 1000, UTC_TIMESTAMP(3))"
	[[ $(my "INSERT IGNORE INTO shedlock (name, lock_until, locked_at, locked_by)
			VALUES ('$LOCK', $until, UTC_TIMESTAMP(3), 'java-host'); SELECT ROW_COUNT()") == 1 ]] ||
		[[ $(my "UPDATE shedlock SET lock_until = $until, locked_at = UTC_TIMESTAMP(3),
			locked_by = 'java-host' WHERE name = '$LOCK' AND lock_until <= UTC_TIMESTAMP(3);
			SELECT ROW_COUNT()") == 1 ]]
}

# java_unlock MS: does what it does when it ends; MS is lockAtLeastFor
java_unlock() {
	local least="TIMESTAMPADD(MICROSECOND, $1 * 1000, locked_at)"
	my "UPDATE shedlock SET lock_until = IF ($least > UTC_TIMESTAMP(3), $least, UTC_TIMESTAMP(3))
		WHERE name = '$LOCK' AND locked_by = 'java-host'"
}

# java_extend MS: extends the lock; true if that succeeded
java_extend() {
	[[ $(my "UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, $1 * 1000, UTC_TIMESTAMP(3))
		WHERE name = '$LOCK' AND locked_by = 'java-host' AND lock_until > UTC_TIMESTAMP(3);
		SELECT ROW_COUNT()") == 1 ]]
}

# until_ms: prints the ms from now to lock_until
until_ms() {
	my "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until) DIV 1000
		FROM shedlock WHERE name = '$LOCK'"
}

@test "Java excludes dlock, from a table without its row and from one with it" {
	local n
	for n in 1 2; do
		java_lock 60000
		run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- touch ran
		one_line "^dlock: $LOCK: held by java-host for "
		[[ ! -e ran ]]
		java_extend 60000
		java_unlock 0
		run -0 "$DLOCK" run -n "$LOCK" -- true
	done
}

@test "dlock excludes Java, in a new row and in one that is there" {
	local n
	for n in 1 2; do
		hold -t 30s --
		not java_lock 60000
		not java_extend 60000
		# This is the unlock of another client.
		java_unlock 0
		between "$(until_ms)" 20000 30000 "lock_until"
		release
		java_lock 60000
		java_unlock 0
	done
	# The row stays.
	equal "$(my "SELECT COUNT(*) FROM shedlock WHERE name = '$LOCK'")" 1
}

# bats test_tags=more
@test "Java's lockAtMostFor: dlock gets in when it is over, and not before" {
	java_lock 1500
	timed "$DLOCK" run -w 10s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 1000 4000
	not java_extend 60000
}

@test "Java's lockAtLeastFor: dlock waits for it" {
	java_lock 60000
	java_unlock 1500
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	run -0 "$DLOCK" run -w 10s "$LOCK" -- true
}

@test "--min-hold is lock_until: Java waits for it, whoever releases" {
	timed "$DLOCK" run --min-hold 2s "$LOCK" -- true
	equal "$status" 0
	took "$MS" 0 1500
	between "$(until_ms)" 400 2000
	not java_lock 60000
	wait_until 4 java_lock 60000
	java_unlock 0
	# dlock release reads the minimum hold in the row.
	local token
	token=$("$DLOCK" acquire --min-hold 2s "$LOCK")
	"$DLOCK" release "$LOCK" "$token"
	between "$(until_ms)" 400 2000
	not java_lock 60000
	wait_until 4 java_lock 60000
}

# bats test_tags=more
@test "a holder that died: Java gets in when its lease is over" {
	hold -t 4s --
	local family
	family=$(tree "$HOLDER")
	# They are stopped first, so that none sees another one die and releases the lock.
	# shellcheck disable=SC2086 # words
	kill -STOP "$HOLDER" $family
	# shellcheck disable=SC2086
	kill -KILL "$HOLDER" $family
	not java_lock 60000
	wait_until 8 java_lock 60000
}

@test "Java has taken the lock over: the command ends, and Java's row is not touched" {
	hold -t 4s --
	my "UPDATE shedlock SET locked_by = 'java-host',
		lock_until = TIMESTAMPADD(SECOND, 60, UTC_TIMESTAMP(3)) WHERE name = '$LOCK'"
	join "$HOLDER" 8
	equal "$status" 123
	has_line "$HOLDER_ERR" "lost: .*somebody else"
	between "$(until_ms)" 50000 60000
	equal "$(my "SELECT locked_by FROM shedlock WHERE name = '$LOCK'")" java-host
}

@test "a countdown by Java and dlock prints each number once" {
	local n all=()
	echo 20 >number
	cat >java.steps <<-'END'
		until java_lock 60000; do sleep 0.05; done
		"$1" number log
		java_unlock 0
	END
	for n in {0..20}; do
		if ((n % 2)); then
			start "$DLOCK" run "$LOCK" -- "$TOP/tests/conformance/countdown" number log
		else
			(
				source ./java.steps "$TOP/tests/conformance/countdown"
			) </dev/null >/dev/null 2>&1 3>&- &
			PID=$!
		fi
		all+=("$PID")
	done
	for n in "${all[@]}"; do
		join "$n" 60
		equal "$status" 0
	done
	diff <(seq 20 -1 0) log
}

# bats test_tags=more
@test "fences are the time of locked_at, and grow over Java's holds and within a millisecond" {
	local last=0 fence n
	for n in {1..12}; do
		fence=$("$DLOCK" run -w 10s "$LOCK" -- sh -c 'echo "$DLOCK_FENCE"')
		((fence > last)) || fail "$fence after $last"
		last=$fence
		if ((n % 4 == 0)); then
			java_lock 60000
			java_unlock 0
		fi
	done
	hold --
	equal "$(my "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) FROM shedlock
		WHERE name = '$LOCK'")" "$FENCE"
	release
}

@test "the server's clock was set back during a hold: the release says for how long the lock is taken" {
	hold --
	my "UPDATE shedlock SET locked_at = TIMESTAMPADD(HOUR, 1, locked_at),
		lock_until = TIMESTAMPADD(HOUR, 1, lock_until) WHERE name = '$LOCK'"
	release
	has_line "$HOLDER_ERR" 'released, but .*clock was set back.*stays taken for (59m|1h)'
	run -124 "$DLOCK" run -n "$LOCK" -- true
}

@test "the text in locked_by fits, and has no token in it" {
	local long
	printf -v long '%180s' ''
	mkdir bin
	ln -s "$(command -v sleep)" "bin/${long// /ü}" 2>/dev/null || long=''
	hold -- "${long:+bin/${long// /ü}}${long:-sleep}" 300
	local by
	by=$(my "SELECT locked_by FROM shedlock WHERE name = '$LOCK'")
	matches "$by" "^dlock-[0-9a-f]{32} ttl=30000&pid=$HOLDER&.*&host=$(uname -n)"
	[[ $by != *"$TOKEN"* ]] || fail "the token stands in locked_by"
	((${#by} <= 255)) || fail "${#by} characters"
	run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
	one_line "held by $(uname -n) pid $HOLDER"
	release
}

@test "names may have quotes, percent signs and other scripts; more than 64 characters are refused" {
	local name held=() n=0 names=("it's" '"quoted"' 'back`tick' '%s%n' '\x' 'ünï' 'a b' '{name}' '*')
	for name in "${names[@]}"; do
		((++n))
		start "$DLOCK" run "$LOCK $name" -- sh -c 'printf %s "$DLOCK_NAME" >"got.$0.new"; mv "got.$0.new" "got.$0"; exec sleep 300' "$n"
		held+=("$PID")
		wait_until 5 test -e "got.$n"
		equal "$(<"got.$n")" "$LOCK $name"
		run --separate-stderr -124 "$DLOCK" run -n "$LOCK $name" -- true
	done
	"$DLOCK" status | awk 'NR > 1' >table
	equal "$(grep -cF "$LOCK " table)" "${#names[@]}"
	kill -TERM "${held[@]}"
	wait_until 10 ended "${held[@]}"
	printf -v name '%65s' ''
	run --separate-stderr -125 "$DLOCK" run -n "${name// /x}" -- touch ran
	one_line '64.*strategy=lease'
	run --separate-stderr -125 "$DLOCK" status "${name// /x}"
	[[ ! -e ran ]]
}

@test "modes that ShedLock's table cannot store are refused, and the message names a strategy" {
	local option
	for option in -s '--slots 2'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr -125 "$DLOCK" run $option "$LOCK" -- touch ran
		one_line 'shedlock has no .* mysql: .*have (it|them) by default'
	done
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "check warns of a time zone with daylight saving time, in which an hour a year has no locks" {
	clocked "$MYSQLD"
	MYSQLD=$T/clocked TZ=GMT0BST,M3.5.0/1,M10.5.0 private_mysql
	export DLOCK_BACKEND="$P_URI?dialect=shedlock"
	# In January, the sessions are in UTC.
	clock "+$((1800000000 - EPOCHSECONDS))"
	"$DLOCK" run -n "$LOCK" -- true
	run "$DLOCK" check
	matches "$output" 'ok +time-zone .*UTC'
	matches "$output" 'warning +daylight-saving '
	# 2027-03-28 01:30 UTC is no local time there.
	clock "+$((1806197400 - EPOCHSECONDS))"
	run --separate-stderr -122 "$DLOCK" run -n "$LOCK" -- true
	one_line 'Incorrect (datetime|timestamp) value'
	export DLOCK_BACKEND="$P_URI?dialect=shedlock&time-zone=%2B00:00"
	"$DLOCK" run -n "$LOCK-2" -- true
	run "$DLOCK" check
	[[ $output != *daylight* ]]
}

# bats test_tags=more
@test "with a server in another time zone, dlock and Java's sessions in it share one lock" {
	local zone
	private_mysql --default-time-zone=+05:30
	SERVER=$P_DIR
	pmy "$(mysql_at "$MYSQL_DIR" 'SHOW CREATE TABLE shedlock' --raw | cut -f 2-)"
	my() {
		mysql_at "$P_DIR" "$@"
	}
	for zone in +05:30 -07:00; do
		pmy "SET GLOBAL time_zone = '$zone'"
		export DLOCK_BACKEND="$P_URI?dialect=shedlock"
		java_lock 60000
		run --separate-stderr -124 "$DLOCK" run -n "$LOCK" -- true
		one_line 'held by java-host'
		java_unlock 0
		hold -t 30s --
		not java_lock 60000
		between "$(until_ms)" 20000 30000
		release
		java_lock 1000
		java_unlock 0
		run -1 "$DLOCK" check
		matches "$output" 'warning +time-zone .*usingDbTime'
		my "DELETE FROM shedlock"
	done
	# These sessions set a time zone of their own.
	pmy "SET GLOBAL time_zone = 'SYSTEM'"
	export DLOCK_BACKEND="$P_URI?dialect=shedlock&time-zone=%2B02:00"
	hold -t 30s --
	my() {
		mysql_at "$P_DIR" "SET time_zone = '+02:00'; $1"
	}
	not java_lock 60000
	between "$(until_ms)" 20000 30000
	release
	run --separate-stderr -125 "$DLOCK" run -b "$P_URI?dialect=shedlock&time-zone='x" "$LOCK" -- true
}

# bats test_tags=more
@test "a name that the table cannot store is refused" {
	private_mysql
	pmy "CREATE TABLE shedlock (name VARCHAR(64) CHARACTER SET latin1 NOT NULL PRIMARY KEY,
		lock_until TIMESTAMP(3) NOT NULL, locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
		locked_by VARCHAR(255) NOT NULL)"
	export DLOCK_BACKEND="$P_URI?dialect=shedlock"
	run -0 "$DLOCK" run "$LOCK" -- true
	run --separate-stderr -122 "$DLOCK" run "$LOCK 🔒" -- touch ran
	one_line
	[[ ! -e ran ]]
}

# bats test_tags=more
@test "a hold whose row has no TTL is renewed by the default, and never to less than is left" {
	local token
	# Prints the seconds until the hold ends.
	left() {
		my "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(3), lock_until) FROM shedlock WHERE name = '$LOCK'"
	}
	token=$("$DLOCK" acquire -t 100s --min-hold 1s "$LOCK")
	matches "$(my "SELECT locked_by FROM shedlock WHERE name = '$LOCK'")" ' ttl=100000&pid=.*&min=1000&host='
	"$DLOCK" renew -t 3650d "$LOCK" "$token"
	matches "$(my "SELECT locked_by FROM shedlock WHERE name = '$LOCK'")" ' ttl=315360000000&pid=.*&min=1000&host='
	"$DLOCK" renew -t 100s "$LOCK" "$token"
	my "UPDATE shedlock SET locked_by = REPLACE(locked_by, 'ttl=100000&', '') WHERE name = '$LOCK'"
	"$DLOCK" renew "$LOCK" "$token"
	between "$(left)" 80 100
	my "UPDATE shedlock SET lock_until = TIMESTAMPADD(SECOND, -90, lock_until) WHERE name = '$LOCK'"
	"$DLOCK" renew "$LOCK" "$token"
	between "$(left)" 20 30
	"$DLOCK" renew -t 50s "$LOCK" "$token"
	between "$(left)" 40 50
	"$DLOCK" release "$LOCK" "$token"
}

# bats test_tags=more
@test "a holder that fills its column leaves room for a longer TTL" {
	local long
	long=$T/$(printf 'é%.0s' {1..60})
	ln -s "$(type -P bash)" "$long"
	start "$DLOCK" run -t 60s "$LOCK" -- "$long" -c '"$DLOCK" renew -t 3650d "$LOCK" && touch renewed
		until [ -e go ]; do sleep 0.05; done'
	wait_until 10 test -e renewed
	between "$(my "SELECT CHAR_LENGTH(locked_by) FROM shedlock WHERE name = '$LOCK'")" 245 255
	matches "$(my "SELECT locked_by FROM shedlock WHERE name = '$LOCK'")" ' ttl=315360000000&'
	touch go
	join "$PID"
	equal "$status" 0
}
