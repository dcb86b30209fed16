#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh HEADER PREFIX 'LIB.lua...' SCRIPT.lua...: a C file that includes HEADER, with each script
# as a string PREFIX_NAME, the LIBs in front of it, and with the SHA-1 by which Redis knows it.
# Comments stay behind, and so does what a LIB declares and the script does not use: the server
# makes all functions of a script anew each time it runs. So a script may have a first part for what
# happens most often, which ends with a line that begins with "----" and returns when it is through:
# what it does not use of the LIBs comes behind it.
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
	function is_used_by(d, user,    list, n, i) {
		n = split(names[d], list, ", *")
		for (i = 1; i <= n; i++)
			if ((user, list[i]) in own) return 1
		return 0
	}
	# marks what the user needs
	function need(user,    d) {
		for (d = 1; d <= declarations; d++) {
			if (needed[d] || !is_used_by(d, user)) continue
			needed[d] = 1
			need(d)
		}
	}
	BEGIN { script = ARGC - 1 }
	FNR == 1 { file++; declared = 0 }
	file == script && !declared { declared = "first" }
	file == script && /^----/ { declared = parted = "rest" }
	/^ *(--|$)/ { next }
	file < script && /^local / {
		declared = ++declarations
		names[declared] = $0
		sub(/^local (function )?/, "", names[declared])
		sub(/ *[=(].*/, "", names[declared])
	}
	{
		sub(/^ */, "")
		lines[++count] = $0
		of[count] = declared
		gsub(/redis\.p?call/, "")
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
		if (parted) need("first")
		for (i = 1; i <= count; i++)
			if (needed[of[i]]) print lines[i]
		for (i = 1; i <= count; i++)
			if (parted && of[i] == "first") print lines[i]
		if (parted) gone["first"] = 1
		for (i = 1; i <= count; i++)
			if (!gone[of[i]] && !needed[of[i]]) print lines[i]
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
