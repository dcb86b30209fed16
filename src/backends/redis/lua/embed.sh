#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh HEADER PREFIX 'LIB.lua...' SCRIPT.lua...: a C file that includes HEADER, with each script
# as a string PREFIX_NAME, and with the SHA-1 by which Redis knows it. The LIBs stand in front of a
# script. What a script can do without a LIB stands above a line "--- LIB.lua", which the LIB then
# takes the place of. Comments stay behind, and so does what a LIB declares and the script does not
# use: the server makes all functions of a script anew each time it runs.
set -eu
header=$1 prefix=$2 libs=$3
shift 3

# text LIB... SCRIPT: a declaration of a LIB is a line that begins with "local", and, if that is a
# function, all lines up to its "end". LIBs have nothing but declarations.
text() {
	awk '
	function is_used(d,    list, n, i) {
		n = split(names[d], list, ", *")
		for (i = 1; i <= n; i++)
			if (all[list[i]] > own[d, list[i]]) return 1
		return 0
	}
	function print_lines(of_file,    i) {
		for (i = 1; i <= count; i++) {
			if (file_of[i] != of_file || gone[of[i]]) continue
			if (lines[i] ~ /^--- /) print_lines(lib[substr(lines[i], 5)])
			else print lines[i]
		}
	}
	FNR == 1 {
		file++
		name = FILENAME
		sub(/.*\//, "", name)
		lib[name] = file
		declared = 0
	}
	/^--- / { later[lib[$2]] = 1 }
	/^ *(--[^-]|--$|$)/ { next }
	file < ARGC - 1 && /^local / {
		declared = ++declarations
		names[declared] = $0
		sub(/^local (function )?/, "", names[declared])
		sub(/ *[=(].*/, "", names[declared])
	}
	{
		sub(/^ */, "")
		lines[++count] = $0
		file_of[count] = file
		of[count] = declared
		n = split($0, word, /[^A-Za-z0-9_]+/)
		for (i = 1; i <= n; i++) {
			all[word[i]]++
			own[declared, word[i]]++
		}
	}
	END {
		do {
			left = 0
			for (d = 1; d <= declarations; d++) {
				if (gone[d] || is_used(d)) continue
				gone[d] = left = 1
				for (key in own) {
					split(key, part, SUBSEP)
					if (part[1] == d) all[part[2]] -= own[key]
				}
			}
		} while (left)
		for (i = 1; i < ARGC; i++)
			if (!later[i]) print_lines(i)
	}' "$@"
}

echo '/* Made from the .lua files by embed.sh. */'
echo "#include \"$header\""
for script; do
	name=$(basename "$script" .lua)
	# shellcheck disable=SC2086 # several
	text=$(text $libs "$script")
	sha=$(printf '%s\n' "$text" | sha1sum | cut -d' ' -f1)
	printf 'const struct script %s_%s = { "%s",\n' "$prefix" "$name" "$sha"
	printf '%s\n' "$text" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/'
	echo '};'
done
