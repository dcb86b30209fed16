/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "command.h"
#include "exit_status.h"

#define COLUMN 30

static void print_option(const struct option_row *row)
{
	const char *line = row->help;
	int used = 0;

	if (row->letter)
		used += printf("  -%c, --%s", row->letter, row->name);
	else
		used += printf("      --%s", row->name);
	if (row->argument)
		used += printf(" %s", row->argument);
	for (;;) {
		int length = (int)strcspn(line, "\n");

		printf("%*s%.*s\n", used < COLUMN ? COLUMN - used : 2, "", length, line);
		if (!line[length])
			return;
		line += length + 1;
		used = 0;
	}
}

void command_print_help(const struct command *command)
{
	bool durations = false;

	printf("usage: dlock %s\n\n%c%s.\n\n", command->usage,
	       command->summary[0] - 'a' + 'A', command->summary + 1);
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!(row->commands & (unsigned)command->bit))
			continue;
		print_option(row);
		durations |= row->argument && !strcmp(row->argument, "DUR");
	}
	if (durations)
		printf("\nDUR is a number with a unit (ms s m h d; none: seconds), or a sum: "
		       "1h30m.\n");
	if (command->bit != COMMAND_RUN)
		return;
	printf("Without NAME, a name is derived from the command line, the same on every host.\n"
	       "\nBackends:\n");
	for (const struct backend_driver *d = backend_drivers; d->schemes; d++)
		for (const struct backend_scheme *s = d->schemes; s->name; s++)
			printf(s->alias_of ? "  %s:%*sanother name for %s:\n" : "  %s:%*s%s\n",
			       s->name, COLUMN - 3 - (int)strlen(s->name), "",
			       s->alias_of ? s->alias_of : s->summary);
	printf("In a shell, quote a URI that has a '?' or '&': -b 'URI'.\n\nExit status:\n");
	for (const struct exit_status_row *row = exit_status_rows; row->code; row++)
		printf("  %-*s%s\n", COLUMN - 2, row->code, row->meaning);
}
