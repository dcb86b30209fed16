/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/error.h"
#include "base/version.h"
#include "command.h"
#include "exit_status.h"

int command_version(int argc, char **argv)
{
	struct options options;
	struct error err = { 0 };

	if (options_parse(&options, COMMAND_VERSION, argc, argv, &err))
		return complain(&err);
	if (options.operand_count || options.argv) {
		fprintf(stderr, "dlock: version takes no arguments\n");
		return EXIT_DLOCK;
	}
	if (options.help)
		help_print(command_find("version"));
	else
		printf("dlock %s\n", DLOCK_VERSION);
	return 0;
}
