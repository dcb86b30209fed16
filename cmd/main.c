/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "exit_status.h"
#include "fds.h"

char **program_argv;

const struct command_row command_rows[] = {
	{ "run", command_run, "run [OPTION]... [NAME] -- COMMAND [ARG]...",
	  "run a command while holding a lock", COMMAND_RUN },
	{ "acquire", command_acquire, "acquire [OPTION]... NAME",
	  "take a lock, print its token", COMMAND_ACQUIRE },
	{ "renew", command_renew, "renew [OPTION]... NAME [TOKEN]",
	  "extend the lease to a full TTL from now", COMMAND_RENEW },
	{ "verify", command_verify, "verify [OPTION]... NAME [TOKEN]",
	  "ask whether this token is still the holder", COMMAND_VERIFY },
	{ "release", command_release, "release [OPTION]... NAME [TOKEN]",
	  "give a lock back", COMMAND_RELEASE },
	{ "status", command_status, "status [OPTION]... [NAME]...",
	  "show who holds locks and who waits", COMMAND_STATUS },
	{ "wait", command_wait, "wait [OPTION]... NAME",
	  "wait until nobody holds a lock; take nothing", COMMAND_WAIT },
	{ "break", command_break, "break [OPTION]... NAME",
	  "take a lock away from whoever holds it", COMMAND_BREAK },
	{ "check", command_check, "check [OPTION]...",
	  "find out whether a backend is fit to hold locks", COMMAND_CHECK },
	{ "setup", command_setup, "setup [OPTION]...",
	  "create what a backend needs", COMMAND_SETUP },
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

/* What could not be printed was not said: a script must not take it for an answer. */
static int finish_output(int status)
{
	if (!ferror(stdout) && (!__fpending(stdout) || !fflush(stdout)))
		return status;
	fprintf(stderr, "dlock: cannot write the output: %s\n", strerror(errno));
	return EXIT_DLOCK;
}

int main(int argc, char **argv)
{
	const struct command_row *command;
	const char *name = argv[1];

	program_argv = argv;
	/* Else a socket of ours could become the "standard error" that messages are written to. */
	fds_fill_standard();
	if (argc < 2) {
		fprintf(stderr, "dlock: no command given; try 'dlock --help'\n");
		return EXIT_DLOCK;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	else if (!strcmp(name, "--version"))
		name = "version";
	command = command_find(name);
	if (!command) {
		fprintf(stderr, "dlock: unknown command '%s'; try 'dlock --help'\n", name);
		return EXIT_DLOCK;
	}
	return finish_output(command->main(argc - 1, argv + 1));
}
