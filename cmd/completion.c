/* SPDX-License-Identifier: MIT */
/* The command completion prints what the packages install: one file has no other place for it. */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "session.h"

int command_completion(struct session *session, struct error *err)
{
	const char *shell = session->options.operands[0];

	for (const struct completion *row = completions; row->shell; row++)
		if (!strcmp(row->shell, shell))
			return fputs(row->text, stdout) < 0;
	return error_set(err, ERROR_USAGE, 0, "there are completions for bash, zsh and fish");
}
