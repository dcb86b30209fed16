#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh NAME.sql...: C with each file as a string, sql_NAME, comments left behind.
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
for file; do
	printf 'const char sql_%s[] =\n' "$(basename "$file" .sql)"
	sed -e 's/^[ 	]*//' -e '/^--/d' -e '/^$/d' -e 's/\\/\\\\/g' -e 's/"/\\"/g' \
		-e 's/.*/\t"&\\n"/' "$file"
	echo '	"";'
done
