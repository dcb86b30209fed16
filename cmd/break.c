/* SPDX-License-Identifier: MIT */
/* The command break takes locks away from their holders, after a question on the terminal. */
#include <unistd.h>

#include "lock/hold.h"
#include "session.h"

/* Print a line for each holder, after the text before. */
static void print_holders(enum level level, const char *before, const struct rows *view)
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

/* Take exactly the holders in view away. Returns the exit status. */
static int break_lock(struct session *session, const struct rows *view, struct error *err)
{
	enum outcome outcome = OUTCOME_ERROR;

	if (!session_connect(session, err))
		outcome = hold_break(session->backend, session->options.run.name, view, err);
	if (outcome == OUTCOME_ERROR)
		return log_fail(err);
	if (outcome == OUTCOME_HELD)
		print_holders(LEVEL_WARNING, "broken; was ", view);
	else
		log_print(LEVEL_WARNING, "it has changed hands, or is free");
	return 0;
}

/*
 * Break nothing where it is not known who holds. Go on after a lock that cannot be broken. Returns
 * the exit status, or -1 with *err.
 */
int command_break(struct session *session, struct error *err)
{
	const struct locks *locks = &session->locks;
	bool agreed = session->options.yes;
	int status, failed;

	if (!agreed && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return error_set(err, ERROR_USAGE, 0, "there is no terminal to ask on; "
				 "--yes breaks the lock without asking");
	if (session_names(session, err))
		return -1;
	status = session_view(session);
	if (status)
		return status;
	agreed = agreed || !locks->held || confirm_break(session);
	status = !agreed;
	for (size_t i = 0; i < locks->names.count; i++) {
		session_choose(session, locks->names.names[i]);
		if (!locks->views[i].hold_count) {
			log_print(LEVEL_WARNING, "nobody holds it");
		} else if (!agreed) {
			log_print(LEVEL_WARNING, "left as it is");
		} else {
			failed = break_lock(session, &locks->views[i], err);
			status = failed ? failed : status;
		}
	}
	return status;
}
