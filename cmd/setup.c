/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "session.h"

/* --dry-run: on standard output, for a shell or for the client of a database. */
static int plan(struct session *session, struct error *err)
{
	char *text = NULL;

	if (session->backend->ops->plan(session->backend, &text, err))
		return -1;
	fputs(text, stdout);
	free(text);
	return 0;
}

int command_setup(struct session *session, struct error *err)
{
	char place[URI_PLACE_SIZE];

	if (session_connect(session, err))
		return -1;
	if (session->options.dry_run)
		return plan(session, err);
	if (session->backend->ops->setup(session->backend, err))
		return -1;
	session_say(session, SAY_STEP, "%s is ready", settings_place(&session->settings, place));
	return 0;
}
