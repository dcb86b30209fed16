#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh HEADER PREFIX 'LIB.lua...' SCRIPT.lua...: a C file that includes HEADER, with each script
# as a string PREFIX_NAME, and with the SHA-1 by which Redis knows it. The LIBs stand in front of a
# script. What a script can do without a LIB of its directory stands above a line "--- LIB.lua",
# which the LIB then takes the place of. Comments stay behind.
set -eu
header=$1 prefix=$2 libs=$3
shift 3
echo '/* Made from the .lua files by embed.sh. */'
echo "#include \"$header\""
for script; do
	name=$(basename "$script" .lua)
	text=$({
		for lib in $libs; do
			grep -qx -e "--- ${lib##*/}" "$script" || cat "$lib"
		done
		awk -v dir="$(dirname "$script")" '
			{ print }
			/^--- / { while ((getline line <(dir "/" $2)) > 0) print line }' "$script"
	} | sed -e 's/^ *//' -e '/^--/d' -e '/^$/d')
	sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
	printf 'const struct script %s_%s = { "%s",\n' "$prefix" "$name" "$sha"
	printf '%s\n' "$text" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/'
	echo '};'
done
