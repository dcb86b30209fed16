/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
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

static bool same_holders(const struct lock_view *a, const struct lock_view *b)
{
	if (a->hold_count != b->hold_count)
		return false;
	for (size_t i = 0; i < a->hold_count; i++) {
		const struct hold_view *x = &a->holds[i], *y = &b->holds[i];

		if (x->fence != y->fence || x->holder.pid != y->holder.pid ||
		    x->holder.since_ms != y->holder.since_ms ||
		    strcmp(x->holder.host, y->holder.host) != 0)
			return false;
	}
	return true;
}

/*
 * Asks about those who hold the lock, and asks again if others hold it when the answer comes.
 * 1: the lock is to be broken; 0: it is not; -1 with *err.
 */
static int ask_about_holders(struct session *session, struct lock_view *asked, struct error *err)
{
	struct lock_view view;
	bool same;

	for (;;) {
		view = (struct lock_view){ 0 };
		if (backend_inspect(session->backend, session->name, false, &view, err)) {
			lock_view_finish(&view);
			return -1;
		}
		same = asked->held && same_holders(asked, &view);
		if (asked->held && view.held && !same)
			session_say(session, SAY_WARNING, "meanwhile it has changed hands");
		lock_view_finish(asked);
		*asked = view;
		/* Nobody holds the lock: command_break() says so. */
		if (!view.held || same)
			return 1;
		if (!confirmed(session, &view))
			return 0;
	}
}

static int ask(struct session *session, struct error *err)
{
	struct lock_view asked = { 0 };
	int result;

	if (session->options.yes)
		return 1;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	result = ask_about_holders(session, &asked, err);
	lock_view_finish(&asked);
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
