#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh LIB.lua SCRIPT.lua...: a C file with each script, LIB in front of it,
# as a string, and with the SHA-1 by which Redis knows it. Comments stay behind.
set -eu
lib=$1
shift
echo '/* Made from the .lua files by embed.sh. */'
echo '#include "backends/redis/lock.h"'
for script; do
	name=$(basename "$script" .lua)
	text=$(cat "$lib" "$script" | sed -e 's/^ *//' -e '/^--/d' -e '/^$/d')
	sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
	printf 'const struct script script_%s = { "%s",\n' "$name" "$sha"
	printf '%s\n' "$text" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/'
	echo '};'
done
