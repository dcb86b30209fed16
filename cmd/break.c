/* SPDX-License-Identifier: MIT */
/* The command break takes locks away from their holders, after a question on the terminal. */
#include <string.h>
#include <unistd.h>

#include "lock/hold.h"
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

/* Ask on the terminal, once for all locks. Returns whether the answer is yes. */
static bool confirm_break(struct session *session)
{
	const struct locks *locks = &session->locks;
	const bool several = locks->held > 1;
	char line[16] = "";

	for (size_t i = 0; i < locks->names.count; i++) {
		session_choose(session, locks->names.names[i]);
		print_holders(LEVEL_ERROR, "", &locks->views[i]);
	}
	fprintf(stderr, "Take %s away? What was run under %s may still be at work. [y/N] ",
		several ? "these locks" : "the lock", several ? "them" : "it");
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

/* Report the locks that others hold now. Returns whether one has other holders, or none. */
static bool report_changes(struct session *session, const struct locks *before)
{
	const struct locks *now = &session->locks;
	bool changed = false;

	for (size_t i = 0; i < now->names.count; i++) {
		if (same_holders(&before->views[i], &now->views[i]))
			continue;
		changed = true;
		session_choose(session, now->names.names[i]);
		if (now->views[i].hold_count)
			log_print(LEVEL_WARNING, "the lock has changed hands");
	}
	return changed;
}

/*
 * Ask about the holders, and ask again if others hold a lock when the answer comes. Returns 1:
 * break the holds of session->locks; 0: do not; -1 with *err.
 */
static int ask_about_holders(struct session *session, struct error *err)
{
	bool changed = true;
	int failed = 0;

	while (!failed && changed && session->locks.held) {
		struct locks before = session->locks;

		if (!confirm_break(session))
			return 0;
		failed = session_view(session, NULL, err);
		changed = !failed && report_changes(session, &before);
		locks_forget_views(&before);
	}
	return failed ? -1 : 1;
}

/* Read the holders, and ask about them unless --yes is given. Returns as ask_about_holders(). */
static int choose_holders(struct session *session, struct error *err)
{
	if (!session->options.yes && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	if (session_names(session, err) || session_view(session, NULL, err))
		return -1;
	return session->options.yes ? 1 : ask_about_holders(session, err);
}

/* Go on after a lock that cannot be broken. Returns the exit status, or -1 with *err. */
int command_break(struct session *session, struct error *err)
{
	const int chosen = choose_holders(session, err);
	int status = chosen > 0 ? 0 : 1;

	if (chosen < 0)
		return -1;
	for (size_t i = 0; i < session->locks.names.count; i++) {
		const struct lock_view *view = &session->locks.views[i];

		session_choose(session, session->locks.names.names[i]);
		if (!view->hold_count)
			log_print(LEVEL_WARNING, "nobody holds it");
		else if (!chosen)
			log_print(LEVEL_WARNING, "left as it is");
		else if (session_connect(session, err) ||
			 hold_break(session->backend, session->name, view, err))
			status = log_fail(err);
		else
			print_holders(LEVEL_WARNING, "broken; was ", view);
	}
	return status;
}
