/* SPDX-License-Identifier: MIT */
#include "print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

void print_line(FILE *to, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		memory_gone();
	va_end(args);
	text_clean(text, strlen(text), text, strlen(text) + 1);
	fprintf(to, "%s\n", text);
	free(text);
}

bool print_is_screen(int fd)
{
	const char *term = getenv("TERM");

	return term && *term && strcmp(term, "dumb") != 0 && isatty(fd);
}
