/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "error.h"
#include "exit_status.h"

const struct command_row command_rows[] = {
	{ "run", command_run, "run [OPTION]... [NAME] -- COMMAND [ARG]...",
	  "run a command while holding a lock", COMMAND_RUN },
	{ "help", command_help, "help [COMMAND]", "show help", COMMAND_HELP },
	{ "version", command_version, "version", "show the version", COMMAND_VERSION },
	{ .name = NULL },
};

const struct command_row *command_find(const char *name)
{
	for (const struct command_row *row = command_rows; row->name; row++)
		if (!strcmp(row->name, name))
			return row;
	return NULL;
}

int complain(const struct error *err)
{
	fprintf(stderr, "dlock: %s\n", err->message);
	return exit_status_of(err);
}

/*
 * Descriptors 0 to 2 must be taken: else a socket of ours could become the
 * "standard error" that messages are written to. Closed on exec, so that the
 * command finds things as dlock did.
 */
static void fill_standard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			open("/dev/null", O_RDWR | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	const struct command_row *command;

	fill_standard_streams();
	if (argc < 2) {
		fprintf(stderr, "dlock: no command given; try 'dlock --help'\n");
		return EXIT_DLOCK;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		argv[1] = "help";
	else if (!strcmp(argv[1], "--version"))
		argv[1] = "version";
	command = command_find(argv[1]);
	if (!command) {
		fprintf(stderr, "dlock: unknown command '%s'; try 'dlock --help'\n", argv[1]);
		return EXIT_DLOCK;
	}
	return command->main(argc - 1, argv + 1);
}
