# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's GET_LOCK(), for run.bats.

STRATEGY=advisory
LACKS='shared slots waiters'
# shellcheck source=tests/conformance/backends/mysql-session.bash
source "${BASH_SOURCE[0]%/*}/mysql-session.bash"

lock_is_free() {
	[[ $(my "SELECT IS_FREE_LOCK('$LOCK')") == 1 ]]
}
