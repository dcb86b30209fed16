/* SPDX-License-Identifier: MIT */
/*
 * The subcommands, and what they have in common. Each has its own file, and a row in the table of
 * main.c. main() parses the command line, answers --help, checks the number of operands, and calls
 * the function of the row.
 *
 * A session is the settings and the backend of one command, which is a function over it. The name
 * of the lock is options.run.name, NULL while no lock of several was chosen.
 * session_run() calls this function, and a signal ends it. run and acquire call src/engine, which
 * has its own processes.
 *
 * This header brings all that a session consists of: the request of a run, views, options and log.
 */
#pragma once

#include "lock/backend.h"
#include "config.h"
#include "log.h"
#include "options.h"

/*
 * The settings of a command: from the command line, the environment, the user's configuration file,
 * or the system's configuration file. The first of these that has a setting wins.
 */
struct settings {
	struct config config;
	const char *section;	/* of the configuration; "": the backend is given by its URI */
	struct uri uri;		/* parsed, password-file loaded */
	char location[URI_LOCATION_SIZE];	/* where the locks are: see uri_location() */
	struct error unreadable;	/* why a configuration file could not be read */
	const char *exposed;	/* a file with a password that others can read; NULL: none */
};

/* Locks, and what was seen of each. */
struct locks {
	struct name_list names;
	struct rows *views;	/* one for each name; NULL until session_view() */
	size_t held;		/* how many of the locks somebody holds */
};

struct session {
	const struct command *command;
	struct options options;
	struct settings settings;
	struct backend *backend;	/* NULL until session_connect() */
	struct locks locks;		/* of a command that takes several names */
};

struct command {
	const char *name;
	const char *usage;	/* what follows "dlock " */
	const char *summary;
	enum command_bit bit;
	/* Operands. With least more than 0 the first one is a NAME; with most INT_MAX all are. */
	int least, most;
	/* Runs the command over a session. Returns the exit status, or -1 with *err. */
	int (*work)(struct session *session, struct error *err);
	bool bare;		/* the session has only its options, and run begins it itself */
};

/* Load the settings of session->options, and name the lock in messages. */
int session_begin(struct session *session, struct error *err);

/*
 * Load the settings, unless the command is bare, call work(), and print its error. Returns the exit
 * status.
 */
int session_run(const struct command *command, const struct options *options);

/* Open the backend of the session unless it is open; session_run() closes it. */
int session_connect(struct session *session, struct error *err);

/* Close the backend before another name is used, because one object serves one name. */
void session_disconnect(struct session *session);

/*
 * Turn to another lock, or with NULL to none: close the backend of the last one, and name this one
 * in messages.
 */
void session_choose(struct session *session, const char *name);

/*
 * Fill session->locks.names with the locks that the operands name. An operand with *, ? or [ is a
 * pattern of fnmatch(3) for the names that the backend lists, which are then sorted, and each there
 * once. It is a name if the backend lists this name, or none that matches.
 */
int session_names(struct session *session, struct error *err);

/*
 * Look at each lock of session->locks.names, and choose the last one. A lock that cannot be read is
 * reported and left out. Returns 0, or the exit status for such a lock.
 */
int session_view(struct session *session);

/* ---- settings.c ---- */

/*
 * Load all settings, and complete options->run, which then points to *settings. Both last as long
 * as the process.
 */
int settings_load(struct settings *settings, struct options *options, struct error *err);

/* ---- the commands ---- */

int command_run(struct session *session, struct error *err);
int command_completion(struct session *session, struct error *err);
int command_version(struct session *session, struct error *err);
int command_acquire(struct session *session, struct error *err);
int command_token(struct session *session, struct error *err);	/* renew, verify, release */
int command_status(struct session *session, struct error *err);
int command_wait(struct session *session, struct error *err);
int command_break(struct session *session, struct error *err);
int command_check(struct session *session, struct error *err);
int command_setup(struct session *session, struct error *err);
