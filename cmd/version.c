/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/error.h"
#include "base/version.h"
#include "command.h"
#include "exit_status.h"
#include "output.h"

int command_version(const struct command *self, int argc, char **argv)
{
	struct options options;
	struct error err = { 0 };

	if (options_parse(&options, self->bit, argc, argv, &err))
		return complain(&err);
	if (options.operand_count || options.argv) {
		fprintf(stderr, "dlock: version takes no arguments\n");
		return EXIT_DLOCK;
	}
	if (options.help)
		command_print_help(self);
	else
		printf("dlock %s\n", DLOCK_VERSION);
	return 0;
}
