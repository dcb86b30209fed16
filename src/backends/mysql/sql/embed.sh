#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FILE.sql...: prints C with each text of the files as a string. A text begins after a line
# "-- name: NAME" and becomes sql_NAME, without its comments; where another text's name stands in
# braces, {NAME}, that text is put in.
# embed.sh -h FILE.sql...: prints the header for it.
set -eu
if [ "$1" = -h ]; then
	shift
	echo '/* Made from the .sql files by embed.sh. */'
	sed -n 's/^-- name: \(.*\)/extern const char sql_\1[];/p' "$@"
	exit
fi
echo '/* Made from the .sql files by embed.sh. */'
echo '#include "mysql_texts.h"'
awk '
	/^-- name: / { names[++count] = name = $3; next }
	/^[ \t]*--/ || /^[ \t]*$/ { next }
	{
		sub(/^[ \t]+/, "")
		text[name] = text[name] (text[name] == "" ? "" : "\n") $0
	}
	# split() at the key, because sub() would take a "&" in the text for what it has found
	function insert(into, key,    parts, n, k, all) {
		n = split(into, parts, "[{]" key "[}]")
		all = parts[1]
		for (k = 2; k <= n; k++)
			all = all text[key] parts[k]
		return all
	}
	END {
		# Texts that are put in may name others in turn: two rounds are enough.
		for (round = 0; round < 2; round++)
			for (i = 1; i <= count; i++)
				for (j = 1; j <= count; j++)
					if (i != j)
						text[names[i]] = insert(text[names[i]], names[j])
		for (i = 1; i <= count; i++) {
			body = text[names[i]]
			gsub(/\\/, "\\\\", body)
			gsub(/"/, "\\\"", body)
			gsub(/\n/, "\\n\"\n\t\"", body)
			printf "const char sql_%s[] =\n\t\"%s\\n\";\n", names[i], body
		}
	}' "$@"
