/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>

#include "base/error.h"
#include "exit_status.h"
#include "log.h"

/* Why output could not be written: errno has long changed when output_finish() says so. */
static int output_errnum;

int complain(const struct error *err)
{
	log_text(SAY_ERROR, NULL, err->message);
	return exit_status_of(err);
}

int output_flush(void)
{
	const bool failed_before = ferror(stdout);

	if (__fpending(stdout) && fflush(stdout) && !output_errnum)
		output_errnum = errno;
	return failed_before || ferror(stdout) ? -1 : 0;
}

/* A script must not take output that is incomplete for an answer. */
int output_finish(int status)
{
	struct error err;

	if (!output_flush())
		return status;
	error_set(&err, ERROR_INTERNAL, output_errnum, "cannot write the output");
	return complain(&err);
}
