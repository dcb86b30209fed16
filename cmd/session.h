/* SPDX-License-Identifier: MIT */
/*
 * What the commands share that only look at a backend or change it in one step. Such a command
 * talks to the backend from its own process, or from a child when a client library does it, and a
 * signal ends it like any other program. The command is a function over a session, work() in struct
 * command, and session_run() does the rest.
 */
#pragma once

#include "base/error.h"
#include "lock/backend.h"
#include "command.h"
#include "log.h"
#include "settings.h"

struct session {
	const struct command *command;
	struct options options;
	struct settings settings;
	const char *name;		/* of the lock; NULL: not given, or one of several */
	struct backend *backend;	/* NULL until session_connect() */
};

/*
 * Loads the settings of session->options, and lets messages name its lock. 0, or -1 with *err.
 * The caller calls settings_finish() in both cases.
 */
int session_begin(struct session *session, struct error *err);

/*
 * Checks the NAME that the command has, loads the settings and calls work(), whose error it prints,
 * after the name if there is one. Returns the exit status.
 */
int session_run(const struct command *command, const struct options *options);

/* Overwrite a token in argv, which other users can read with ps. */
void session_hide_token(const struct session *session);

/* Opens the backend once more, since one object serves one name. The caller closes it. */
struct backend *session_open(const struct session *session, struct error *err);

/*
 * Opens the backend of the session unless it is open. 0, or -1 with *err. session_run() closes it.
 */
int session_connect(struct session *session, struct error *err);
