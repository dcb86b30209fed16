/* SPDX-License-Identifier: MIT */
/* Formats error messages, and names the limit when a process has too many descriptors. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* This process has reached RLIMIT_NOFILE: it is no fault of a server. */
static void add_limit(struct error *err)
{
	const size_t used = strlen(err->message);
	struct rlimit limit;

	err->kind = ERROR_INTERNAL;
	if (!getrlimit(RLIMIT_NOFILE, &limit))
		snprintf(err->message + used, sizeof(err->message) - used,
			 " (RLIMIT_NOFILE, ulimit -n: %llu)", (unsigned long long)limit.rlim_cur);
}

int error_set(struct error *err, enum error_kind kind, int errnum,
	      const char *format, ...)
{
	va_list args;
	size_t used;

	err->kind = kind;
	err->errnum = errnum;
	va_start(args, format);
	vsnprintf(err->message, sizeof(err->message), format, args);
	va_end(args);
	used = strlen(err->message);
	if (errnum)
		snprintf(err->message + used, sizeof(err->message) - used,
			 ": %s", strerror(errnum));
	if (errnum == EMFILE || errnum == ETOOMANYREFS)
		add_limit(err);
	return -1;
}

int error_prefix(struct error *err, const char *format, ...)
{
	const struct error old = *err;
	va_list args;
	size_t used;

	va_start(args, format);
	vsnprintf(err->message, sizeof(err->message) - 3, format, args);
	va_end(args);
	used = strlen(err->message);
	snprintf(err->message + used, sizeof(err->message) - used, ": %s", old.message);
	return -1;
}
