#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh SHELL=FILE...: a C file with the text of each file: the table of cmd/completion.h.
set -eu
echo '/* Made from completions/ by embed.sh. */'
echo '#include "completion.h"'
echo 'const struct completion completions[] = {'
for pair; do
	printf '{ "%s",\n' "${pair%%=*}"
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/' "${pair#*=}"
	echo '},'
done
echo '{ 0 } };'
