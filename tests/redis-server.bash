# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# For suites that use the Redis server at $REDIS: it runs for as long as the file's tests do.

setup_file() {
	redis_for_file
}

teardown_file() {
	redis_file_end
}
