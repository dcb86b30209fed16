/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>

#include "lock/name.h"
#include "command.h"
#include "exit_status.h"

static int check_operands(const struct options *options, int least, int most,
			  struct error *err)
{
	if (options->argv) {
		error_set(err, ERROR_USAGE, 0, "'--' and a command are for 'dlock run' only");
		return -1;
	}
	if (options->operand_count < least) {
		error_set(err, ERROR_USAGE, 0, "no NAME given");
		return -1;
	}
	if (options->operand_count > most) {
		error_set(err, ERROR_USAGE, 0, options->operands[most][0] == '-'
			  ? "'%s' stands after NAME: options go before it"
			  : "'%s' is one operand too many", options->operands[most]);
		return -1;
	}
	return 0;
}

int session_init(struct session *session, enum command_bit command, int argc, char **argv,
		 int least, int most, struct error *err)
{
	*session = (struct session){ .backend = NULL };
	if (options_parse(&session->options, command, argc, argv, err))
		return -1;
	if (session->options.help) {
		help_print(command_find(argv[0]));
		session->done = true;
		return 0;
	}
	if (check_operands(&session->options, least, most, err) ||
	    (least > 0 && name_check(session->options.operands[0], err)) ||
	    settings_load(&session->settings, &session->options, err))
		return -1;
	if (session->settings.warning[0])
		session_say(session, 0, "%s", session->settings.warning);
	return 0;
}

/* A line of a client library's log: -vv. */
static void print_detail(const char *line)
{
	fprintf(stderr, "dlock: %s\n", line);
}

int session_connect(struct session *session, struct error *err)
{
	if (!session->backend)
		session->backend = backend_open(session->settings.driver,
					       &session->settings.uri, err);
	if (session->backend && session->options.verbosity > 1)
		session->backend->log = print_detail;
	return session->backend ? 0 : -1;
}

void session_finish(struct session *session)
{
	backend_close(session->backend);
	settings_finish(&session->settings);
}

static const char *name_of(const struct session *session)
{
	return session->options.operand_count ? session->options.operands[0] : NULL;
}

void session_say(const struct session *session, int verbosity, const char *format, ...)
{
	const char *name = name_of(session);
	char text[1200];
	va_list args;

	if (session->options.verbosity < verbosity)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "dlock: %s%s%s\n", name ? name : "", name ? ": " : "", text);
}

int session_complain(const struct session *session, const struct error *err)
{
	/* What is wrong with the command line concerns no lock. */
	if (err->kind == ERROR_USAGE)
		return complain(err);
	session_say(session, -100, "%s", err->message);
	return exit_status_of(err);
}
