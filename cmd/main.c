/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fds.h"
#include "command.h"
#include "exit_status.h"


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

/* Why output could not be written, for errno has long changed when main() says so. */
static int output_errnum;

int flush_output(void)
{
	const bool failed_before = ferror(stdout);

	if (__fpending(stdout) && fflush(stdout) && !output_errnum)
		output_errnum = errno;
	return failed_before || ferror(stdout) ? -1 : 0;
}

/* What could not be printed was not said: a script must not take it for an answer. */
static int finish_output(int status)
{
	if (!flush_output())
		return status;
	fprintf(stderr, "dlock: cannot write the output%s%s\n", output_errnum ? ": " : "",
		output_errnum ? strerror(output_errnum) : "");
	return EXIT_DLOCK;
}

static void end_by_signal(int sig)
{
	_exit(EXIT_SIGNAL + sig);
}

/*
 * The kernel ignores what would end the first process of a PID namespace, which dlock is in a
 * container of its own, unless there is a handler. run and acquire read signals themselves.
 */
static void obey_signals_as_init(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	const struct sigaction end = { .sa_handler = end_by_signal };
	struct sigaction old;

	if (getpid() != 1)
		return;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &end, NULL);
}

int main(int argc, char **argv)
{
	const struct command_row *command;
	const char *name = argv[1];

	/* Else a socket of ours could become the "standard error" that messages are written to. */
	fds_fill_standard();
	obey_signals_as_init();
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
