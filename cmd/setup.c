/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

/* --dry-run: on standard output, for a shell or for the client of a database. */
static int plan(struct session *session, const char *place, struct error *err)
{
	char *text = NULL, *rest, *line;

	if (session->backend->ops->setup(session->backend, &text, err))
		return -1;
	if (!*text)
		log_say(SAY_WARNING, "nothing needs to be set up on %s", place);
	for (rest = text; *rest && (line = strsep(&rest, "\n"));)
		print_line(stdout, "%s", line);
	free(text);
	return 0;
}

int command_setup(struct session *session, struct error *err)
{
	char place[URI_PLACE_SIZE];
	int64_t ignored_us;

	settings_place(&session->settings, place);
	if (session_connect(session, err))
		return -1;
	if (session->options.dry_run)
		return plan(session, place, err);
	if (session->backend->ops->setup(session->backend, NULL, err))
		return -1;
	/*
	 * A directory that is there already may be one that this user cannot use. The account that
	 * makes the tables of a server need not be one that holds locks.
	 */
	if (session->settings.driver->local &&
	    session_probe(session, &ignored_us, &ignored_us, err))
		return error_prefix(err, "%s cannot hold locks", place);
	log_say(SAY_STEP, "%s is ready", place);
	return 0;
}
