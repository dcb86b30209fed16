#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh HEADER PREFIX LIB.lua[,LIB.lua]... SCRIPT.lua...: a C file that includes HEADER, with each
# script as a string PREFIX_NAME, the LIBs in front of it, and with the SHA-1 by which Redis knows
# it. Comments stay behind.
set -eu
header=$1 prefix=$2 libs=$(echo "$3" | tr , ' ')
shift 3
echo '/* Made from the .lua files by embed.sh. */'
echo "#include \"$header\""
for script; do
	name=$(basename "$script" .lua)
	# shellcheck disable=SC2086 # several
	text=$(cat $libs "$script" | sed -e 's/^ *//' -e '/^--/d' -e '/^$/d')
	sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
	printf 'const struct script %s_%s = { "%s",\n' "$prefix" "$name" "$sha"
	printf '%s\n' "$text" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/'
	echo '};'
done
