# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The members of Group Replication in GROUP_DIR, as they see each other.

# shellcheck source=tests/lib/services/group.bash
source "$TOP/tests/lib/services/group.bash"

# primary: sets PRIMARY to the directory of the member that takes writes, as two members see it, and
# OTHERS to the directories of the others
primary() {
	local member port
	port=$(primaries | sort | uniq -d)
	[[ -n $port ]] || return 1
	OTHERS=()
	for member in 1 2 3; do
		if [[ $(<"$GROUP_DIR/$member/port") == "$port" ]]; then
			PRIMARY=$GROUP_DIR/$member
		else
			OTHERS+=("$GROUP_DIR/$member")
		fi
	done
}

# primaries: prints the port of the primary that each member sees; one that is stopped does not answer
primaries() {
	local member
	for member in 1 2 3; do
		grep -qs '^State:[[:space:]]*T' "/proc/$(<"$GROUP_DIR/$member/pid")/status" ||
			mysql_at "$GROUP_DIR/$member" "SELECT member_port
				FROM performance_schema.replication_group_members
				WHERE member_role = 'PRIMARY' AND member_state = 'ONLINE'" 2>/dev/null || true
	done
}

# whole: all members take part in the group, as its primary sees it. One that does not joins again.
whole() {
	local member state
	primary || return 1
	[[ $(mysql_at "$PRIMARY" "SELECT COUNT(*) FROM performance_schema.replication_group_members
		WHERE member_state = 'ONLINE'") != 3 ]] || return 0
	for member in "${OTHERS[@]}"; do
		state=$(mysql_at "$member" "SELECT member_state
			FROM performance_schema.replication_group_members
			WHERE member_id IN ('', @@server_uuid)" 2>/dev/null) || continue
		[[ $state != OFFLINE && $state != ERROR ]] ||
			mysql_at "$member" "STOP GROUP_REPLICATION; START GROUP_REPLICATION USER = 'member'"
	done
	return 1
}

# moved: another member is the primary
moved() {
	local old=$PRIMARY
	primary && [[ $PRIMARY != "$old" ]]
}
