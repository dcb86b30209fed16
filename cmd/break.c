/* SPDX-License-Identifier: MIT */
/* The command break takes locks away from their holders, after a question on the terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "lock/hold.h"
#include "lock/view.h"
#include "session.h"

/* The locks to break, and what was seen of each. */
struct targets {
	struct name_list names;
	struct lock_view *views;
	size_t held;		/* how many locks somebody holds */
};

static void finish_views(struct targets *targets)
{
	for (size_t i = 0; targets->views && i < targets->names.count; i++)
		lock_view_finish(&targets->views[i]);
	free(targets->views);
}

static int read_views(struct session *session, struct targets *targets, struct error *err)
{
	targets->views = memory_new(targets->names.count, sizeof(*targets->views));
	for (size_t i = 0; i < targets->names.count; i++) {
		session_choose(session, targets->names.names[i]);
		if (session_connect(session, err) ||
		    hold_view(session->backend, session->name, "", &targets->views[i], err))
			return -1;
		targets->held += targets->views[i].hold_count > 0;
	}
	return 0;
}

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
static bool confirm_break(struct session *session, const struct targets *targets)
{
	char line[16] = "";

	for (size_t i = 0; i < targets->names.count; i++) {
		session_choose(session, targets->names.names[i]);
		print_holders(LEVEL_ERROR, "", &targets->views[i]);
	}
	fprintf(stderr, "Take %s away? What was run under %s may still be at work. [y/N] ",
		targets->held > 1 ? "these locks" : "the lock", targets->held > 1 ? "them" : "it");
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

/* Report the locks that others hold now. Returns whether there is one, or one that is free now. */
static bool report_changes(struct session *session, const struct targets *before,
			   const struct targets *now)
{
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
 * break the holds of *targets; 0: do not; -1 with *err.
 */
static int ask_about_holders(struct session *session, struct targets *targets, struct error *err)
{
	bool changed = true;

	while (changed && targets->held) {
		struct targets now = { .names = targets->names };

		if (!confirm_break(session, targets))
			return 0;
		if (read_views(session, &now, err)) {
			finish_views(&now);
			return -1;
		}
		changed = report_changes(session, targets, &now);
		finish_views(targets);
		*targets = now;
	}
	return 1;
}

/* Read the holders, and ask about them unless --yes is given. Returns as ask_about_holders(). */
static int choose_holders(struct session *session, struct targets *targets, struct error *err)
{
	if (!session->options.yes && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	if (session_names(session, &targets->names, err) || read_views(session, targets, err))
		return -1;
	return session->options.yes ? 1 : ask_about_holders(session, targets, err);
}

/* Break what was chosen; a lock that cannot be broken does not keep the others. */
static int break_holds(struct session *session, const struct targets *targets, bool chosen,
		       struct error *err)
{
	int status = 0;

	for (size_t i = 0; i < targets->names.count; i++) {
		const struct lock_view *view = &targets->views[i];

		session_choose(session, targets->names.names[i]);
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
	return chosen ? status : 1;
}

int command_break(struct session *session, struct error *err)
{
	struct targets targets = { .held = 0 };
	int result = choose_holders(session, &targets, err);

	if (result >= 0)
		result = break_holds(session, &targets, result, err);
	finish_views(&targets);
	name_list_finish(&targets.names);
	return result;
}
