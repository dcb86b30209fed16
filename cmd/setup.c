/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "error.h"
#include "session.h"

int command_setup(int argc, char **argv)
{
	struct session session;
	struct error err = { 0 };
	int status = 0;

	if (session_init(&session, COMMAND_SETUP, argc, argv, 0, 0, &err) ||
	    (!session.done && (session_connect(&session, &err) ||
			       session.backend->ops->setup(session.backend, &err))))
		status = complain(&err);
	else if (!session.done)
		session_say(&session, 1, "ready");
	session_finish(&session);
	return status;
}
