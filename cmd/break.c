/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "lock/view.h"
#include "command.h"
#include "session.h"

static void describe(const struct lock_view *view, char *text, size_t size)
{
	static const struct holder unknown;

	holder_describe(view->hold_count ? &view->holds[0].holder : &unknown,
			view->hold_count ? view->holds[0].age_ms : -1, text, size);
}

/* Asks on the terminal; true when the answer is yes. */
static bool confirmed(struct session *session, const char *holder)
{
	char line[16] = "";

	fprintf(stderr, "dlock: %s: %s\nTake it away? It may still be at work. [y/N] ",
		session->options.operands[0], holder);
	return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* 1: to be broken; 0: not; -1. */
static int ask(struct session *session, struct error *err)
{
	struct lock_view view = { 0 };
	char holder[400];
	int result = 0;

	if (session->options.yes)
		return 1;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		error_set(err, ERROR_USAGE, 0, "break needs --yes where there is nobody to ask");
		return -1;
	}
	if (session->backend->ops->inspect(session->backend, session->options.operands[0],
					   false, &view, err))
		return -1;
	if (view.held) {
		describe(&view, holder, sizeof(holder));
		result = confirmed(session, holder);
	} else {
		result = 1;	/* nobody to hurt; break says so */
	}
	lock_view_finish(&view);
	return result;
}

static int break_it(struct session *session, struct error *err)
{
	struct lock_view view = { 0 };
	char holder[400];
	int result = ask(session, err);

	if (result < 0)
		return -1;
	if (!result) {
		session_say(session, 0, "left as it is");
		return 1;
	}
	result = session->backend->ops->break_hold(session->backend,
						   session->options.operands[0], &view, err);
	if (!result && !view.held) {
		session_say(session, 0, "nobody holds it");
	} else if (!result) {
		describe(&view, holder, sizeof(holder));
		session_say(session, 0, "broken; was %s%s", holder, view.hold_count > 1
			    ? ", and by others" : "");
	}
	lock_view_finish(&view);
	return result;
}

int command_break(int argc, char **argv)
{
	struct session session;
	struct error err = { 0 };
	int status = -1;

	if (!session_init(&session, COMMAND_BREAK, argc, argv, 1, 1, &err) &&
	    (session.done || !session_connect(&session, &err)))
		status = session.done ? 0 : break_it(&session, &err);
	if (status < 0)
		status = session_complain(&session, &err);
	session_finish(&session);
	return status;
}
