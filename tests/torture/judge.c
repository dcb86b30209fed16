/* SPDX-License-Identifier: MIT */
/*
 * judge HISTORY...: says what is wrong with each of these (history.h), one line a finding.
 * Status 1: something is. 64: a file cannot be read.
 */
#include "history.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

static void print_finding(void *context, const char *finding)
{
	printf("%s: %s\n", (const char *)context, finding);
}

static int judge_file(char *path)
{
	char *text = NULL, *grown;
	size_t length = 0, capacity = 0, n = 1;
	FILE *file = fopen(path, "r");
	int findings;

	if (!file)
		err(64, "%s", path);
	while (n > 0) {
		if (capacity - length < 4096) {
			capacity = 2 * capacity + 65536;
			grown = realloc(text, capacity);
			if (!grown)
				err(71, "realloc");
			text = grown;
		}
		n = fread(text + length, 1, capacity - length, file);
		length += n;
	}
	fclose(file);
	findings = history_check(text, length, NULL, print_finding, path);
	free(text);
	if (findings < 0)
		errx(71, "out of memory");
	return findings;
}

int main(int argc, char **argv)
{
	int i, findings = 0;

	if (argc < 2)
		errx(64, "usage: judge HISTORY...");
	for (i = 1; i < argc; i++)
		findings += judge_file(argv[i]);
	return findings > 0;
}
