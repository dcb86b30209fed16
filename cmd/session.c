/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "lock/name.h"
#include "exit_status.h"
#include "log.h"
#include "output.h"

static int check_operands(struct session *session, int least, int most, struct error *err)
{
	const struct options *options = &session->options;

	if (options->operand_count < least)
		return error_set(err, ERROR_USAGE, 0, "no NAME given; usage: dlock %s",
				 session->command->usage);
	if (options->operand_count > most && options->ended)
		return error_set(err, ERROR_USAGE, 0,
				 "'%s': a command behind '--' is for 'dlock run' only",
				 options->operands[most]);
	if (options->operand_count > most)
		return error_set(err, ERROR_USAGE, 0,
				 "'%s' is one operand too many; usage: dlock %s",
				 options->operands[most], session->command->usage);
	if (least > 0)
		session->name = options->operands[0];
	return session->name ? name_check(session->name, err) : 0;
}

/* A line of a client library's log: -vv. */
static void print_detail(const char *line)
{
	log_text(SAY_DETAIL, NULL, "%s", line);
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

void session_say(const struct session *session, int verbosity, const char *format, ...)
{
	char text[1200];
	va_list args;

	if (session->options.verbosity < verbosity)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_text(verbosity > 0 ? SAY_STEP : verbosity == 0 ? SAY_WARNING : SAY_ERROR, session->name,
		 "%s", text);
}

/* A wrong command line concerns no lock, so that its message does not begin with a name. */
static int report(const struct session *session, const struct error *err)
{
	if (err->kind == ERROR_USAGE)
		return complain(err);
	session_say(session, INT_MIN, "%s", err->message);
	return exit_status_of(err);
}

int session_main(const struct command *self, int argc, char **argv, int least, int most,
		 int (*work)(struct session *session, struct error *err))
{
	struct session session = { .command = self };
	struct error err = { 0 };
	int status = options_parse(&session.options, self->bit, argc, argv, &err);

	log_begin(&session.options);
	if (!status) {
		if (session.options.help) {
			command_print_help(self);
			return 0;
		}
		status = -1;
		if (!check_operands(&session, least, most, &err) &&
		    !settings_load(&session.settings, &session.options, &err)) {
			if (session.settings.warning[0])
				session_say(&session, 0, "%s", session.settings.warning);
			status = work(&session, &err);
		}
	}
	if (status < 0)
		status = report(&session, &err);
	backend_close(session.backend);
	settings_finish(&session.settings);
	return status;
}
