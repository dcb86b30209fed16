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

# redis_acl WORD: the first command of dlock-redis.7 that gives rights and has this word
redis_acl() {
	tr -d "'" <"$TOP/man/dlock-redis.7" | awk -v word=" $1 " '
		/acl setuser/ { on = 1; text = "" }
		/^\.Ed/ && on { on = 0; if (index(text " ", word)) { print text; exit } }
		on { sub(/\\e$/, ""); text = text " " $0 }'
}
