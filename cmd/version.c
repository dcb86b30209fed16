/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "backends/registry.h"
#include "base/error.h"
#include "base/version.h"
#include "command.h"
#include "exit_status.h"
#include "output.h"

static void print_version(void)
{
	const char *between = "with ";

	printf("dlock %s\n", DLOCK_VERSION);
	for (const struct backend_driver *d = backend_drivers; d->schemes; d++) {
		if (!d->ops && !d->module)
			continue;
		printf("%s%s", between, d->schemes->name);
		between = ", ";
	}
#ifndef WITHOUT_TLS
	printf("%sTLS", between);
#endif
	printf("\n");
}

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
		print_version();
	return 0;
}
