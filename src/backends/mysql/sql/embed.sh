#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh NAME.sql...: C with each file as a string, sql_NAME, comments left behind; where
# another file's name stands in braces, {NAME}, that file's text stands there instead.
# embed.sh -h NAME.sql...: the header for it.
set -eu
if [ "$1" = -h ]; then
	shift
	echo '/* Made from the .sql files by embed.sh. */'
	for file; do
		echo "extern const char sql_$(basename "$file" .sql)[];"
	done
	exit
fi
echo '/* Made from the .sql files by embed.sh. */'
echo '#include "mysql_texts.h"'
awk '
	FNR == 1 {
		name = FILENAME
		sub(/.*\//, "", name)
		sub(/\.sql$/, "", name)
		names[++count] = name
	}
	/^[ \t]*--/ || /^[ \t]*$/ { next }
	{
		sub(/^[ \t]+/, "")
		text[name] = text[name] (text[name] == "" ? "" : "\n") $0
	}
	# split() at the key, for sub() would take what it puts in for a pattern
	function insert(into, key,    parts, n, k, all) {
		n = split(into, parts, "[{]" key "[}]")
		all = parts[1]
		for (k = 2; k <= n; k++)
			all = all text[key] parts[k]
		return all
	}
	END {
		# twice: what is put in may name others in turn
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
