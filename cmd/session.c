/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>

#include "lock/name.h"
#include "exit_status.h"
#include "log.h"
#include "output.h"

/* A line of a client library's log: -vv. */
static void print_detail(const char *line)
{
	log_text(SAY_DETAIL, NULL, line);
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

void session_say(const struct session *session, enum say level, const char *format, ...)
{
	char text[1200];
	va_list args;

	if (level < log_least(session->options.verbosity))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_text(level, session->name, text);
}

/* A wrong command line concerns no lock, so that its message does not begin with a name. */
static int report(const struct session *session, const struct error *err)
{
	if (err->kind == ERROR_USAGE)
		return complain(err);
	log_text(SAY_ERROR, session->name, err->message);
	return exit_status_of(err);
}

int session_run(const struct command *command, const struct options *options)
{
	struct session session = { .command = command, .options = *options };
	struct error err = { 0 };
	int status = -1;

	if (command->least)
		session.name = options->operands[0];
	if ((!session.name || !name_check(session.name, &err)) &&
	    !settings_load(&session.settings, &session.options, &err)) {
		if (session.settings.warning[0])
			session_say(&session, SAY_WARNING, "%s", session.settings.warning);
		status = command->work(&session, &err);
	}
	if (status < 0)
		status = report(&session, &err);
	backend_close(session.backend);
	settings_finish(&session.settings);
	return status;
}
