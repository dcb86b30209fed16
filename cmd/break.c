/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <unistd.h>

#include "lock/view.h"
#include "session.h"

/* One line for each holder, behind the text before. */
static void say_holders(const struct session *session, enum say level, const char *before,
			const struct lock_view *view)
{
	char text[HOLDER_DESCRIPTION_SIZE];

	for (size_t i = 0; i == 0 || i < view->hold_count; i++) {
		const struct hold_view *hold = i ? &view->holds[i] : lock_view_first(view);

		session_say(session, level, "%s%s", before,
			    holder_describe(&hold->holder, hold->age_ms, text, sizeof(text)));
	}
}

/* Asks on the terminal; true when the answer is yes. */
static bool confirmed(struct session *session, const struct lock_view *view)
{
	char line[16] = "";

	say_holders(session, SAY_ERROR, "", view);
	fputs("Take the lock away? What was run under it may still be at work. [y/N] ", stderr);
	/* After Ctrl-D the cursor still stands behind the question. */
	if (!fgets(line, sizeof(line), stdin))
		putc('\n', stderr);
	return line[0] == 'y' || line[0] == 'Y';
}

/* 1: the lock is to be broken; 0: it is not; -1 with *err. */
static int ask(struct session *session, struct error *err)
{
	struct lock_view view = { 0 };
	int result = 1;		/* nobody holds the lock: command_break() says so */

	if (session->options.yes)
		return 1;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	if (session->backend->ops->inspect(session->backend, session->name, false, &view, err))
		return -1;
	if (view.held)
		result = confirmed(session, &view);
	lock_view_finish(&view);
	return result;
}

int command_break(struct session *session, struct error *err)
{
	struct lock_view view = { 0 };
	int result = session_connect(session, err) ? -1 : ask(session, err);

	if (result < 0)
		return -1;
	if (!result) {
		session_say(session, SAY_WARNING, "left as it is");
		return 1;
	}
	result = session->backend->ops->break_hold(session->backend, session->name, &view, err);
	if (!result && !view.held)
		session_say(session, SAY_WARNING, "nobody holds it");
	else if (!result)
		say_holders(session, SAY_WARNING, "broken; was ", &view);
	lock_view_finish(&view);
	return result;
}
