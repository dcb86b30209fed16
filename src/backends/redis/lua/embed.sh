#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh DIALECT.lua...: a C file that has a script for each dialect, as a string without
# comments, and the SHA-1 by which Redis knows it.
set -eu
echo '/* Made from the .lua files by embed.sh. */'
echo '#include "backends/redis/client.h"'
for dialect; do
	folder=$(dirname "$dialect")
	text=$(sed -e '/^ *--/d' -e '/^$/d' -e 's/^ *//' "$folder/common.lua" "$dialect" \
		"$folder/lock.lua")
	sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
	printf 'const struct script script_%s = { "%s",\n' "$(basename "$dialect" .lua)" "$sha"
	printf '%s\n' "$text" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/'
	echo '};'
done
