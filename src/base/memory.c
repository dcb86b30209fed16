/* SPDX-License-Identifier: MIT */
/* Allocates memory, and ends the process when there is none. */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void memory_exit(void)
{
	static const char message[] = "dlock: out of memory\n";
	const ssize_t ignored = write(STDERR_FILENO, message, sizeof(message) - 1);

	(void)ignored;
	_exit(MEMORY_EXIT_STATUS);
}

static void *check_allocated(void *memory)
{
	if (!memory)
		memory_exit();
	return memory;
}

void *memory_new(size_t count, size_t size)
{
	return check_allocated(calloc(count ? count : 1, size));
}

void *memory_resize(void *memory, size_t count, size_t size)
{
	return check_allocated(reallocarray(memory, count ? count : 1, size));
}

char *memory_copy(const char *text)
{
	return text ? check_allocated(strdup(text)) : NULL;
}

char *memory_copy_part(const char *text, size_t length)
{
	return check_allocated(strndup(text, length));
}

void memory_free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

char *memory_format(const char *format, ...)
{
	char *text;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		memory_exit();
	va_end(args);
	return text;
}
