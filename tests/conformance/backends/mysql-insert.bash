# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# MySQL's strategy insert, for run.bats: leases that are neither shared nor have slots.

STRATEGY=insert
LACKS='shared slots'
# shellcheck source=tests/conformance/backends/mysql.bash
source "${BASH_SOURCE[0]%/*}/mysql.bash"
