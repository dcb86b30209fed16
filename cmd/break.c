/* SPDX-License-Identifier: MIT */
/* The command break takes a lock away from its holders, after a question on the terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/hold.h"
#include "lock/view.h"
#include "session.h"

/* Print a line for each holder, after the text before. */
static void print_holders(enum level level, const char *before, const struct lock_view *view)
{
	char text[HOLDER_DESCRIPTION_SIZE];

	for (size_t i = 0; i < view->hold_count; i++)
		log_print(level, "%s%s", before,
			    holder_describe(&view->holds[i].holder, view->holds[i].age_ms, text,
					    sizeof(text)));
}

/* Ask on the terminal. Returns whether the answer is yes. */
static bool confirm_break(const struct lock_view *view)
{
	char line[16] = "";

	print_holders(LEVEL_ERROR, "", view);
	fputs("Take the lock away? What was run under it may still be at work. [y/N] ", stderr);
	/* Ctrl-D leaves the cursor behind the question. */
	if (!fgets(line, sizeof(line), stdin))
		putc('\n', stderr);
	return line[0] == 'y' || line[0] == 'Y';
}

static bool same_holders(const struct lock_view *a, const struct lock_view *b)
{
	if (a->hold_count != b->hold_count)
		return false;
	for (size_t i = 0; i < a->hold_count; i++)
		if (strcmp(a->holds[i].id, b->holds[i].id) != 0 ||
		    a->holds[i].fence != b->holds[i].fence)
			return false;
	return true;
}

/*
 * Ask about the holders, and ask again if others hold the lock when the answer comes. Returns 1:
 * break the holds of *view; 0: do not; -1 with *err.
 */
static int ask_about_holders(struct session *session, struct lock_view *view, struct error *err)
{
	struct lock_view now;
	bool same;

	while (view->hold_count) {
		if (!confirm_break(view))
			return 0;
		now = (struct lock_view){ 0 };
		if (hold_view(session->backend, session->name, "", &now, err))
			return -1;
		same = same_holders(view, &now);
		if (now.hold_count && !same)
			log_print(LEVEL_WARNING, "the lock has changed hands");
		lock_view_finish(view);
		*view = now;
		if (same)
			break;
	}
	return 1;
}

/* Read the holders, and ask about them unless --yes is given. Returns as ask_about_holders(). */
static int choose_holders(struct session *session, struct lock_view *view, struct error *err)
{
	if (!session->options.yes && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	if (hold_view(session->backend, session->name, "", view, err))
		return -1;
	return session->options.yes ? 1 : ask_about_holders(session, view, err);
}

int command_break(struct session *session, struct error *err)
{
	struct lock_view view = { 0 };
	int result = session_connect(session, err) ? -1 : choose_holders(session, &view, err);

	if (!result)
		log_print(LEVEL_WARNING, "left as it is");
	else if (result > 0 && !view.hold_count)
		log_print(LEVEL_WARNING, "nobody holds it");
	else if (result > 0 && hold_break(session->backend, session->name, &view, err))
		result = -1;
	else if (result > 0)
		print_holders(LEVEL_WARNING, "broken; was ", &view);
	lock_view_finish(&view);
	return result < 0 ? -1 : !result;
}
