/* SPDX-License-Identifier: MIT */
/*
 * What the commands share that look at a backend or change it in one step: they talk
 * to it from this process, and a signal ends them as it ends any program.
 */
#ifndef DLOCK_SESSION_H
#define DLOCK_SESSION_H

#include "base/error.h"
#include "lock/backend.h"
#include "options.h"
#include "settings.h"

struct session {
	struct options options;
	struct settings settings;
	struct backend *backend;	/* NULL until session_connect() */
	bool done;			/* --help was asked for and given */
};

/*
 * Parses and checks the command line; least to most operands, the first a NAME.
 * 0, or -1 with *err. The caller ends with session_finish(), in any case.
 */
int session_init(struct session *session, enum command_bit command, int argc, char **argv,
		 int least, int most, struct error *err);

/* Opens the backend, if it is not open. 0, or -1 with *err. */
int session_connect(struct session *session, struct error *err);
void session_finish(struct session *session);

/* Prints "dlock: NAME: text" on stderr: with -v, or unless -q. */
void session_say(const struct session *session, int verbosity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Prints the error, with the name when there is one; gives the exit status. */
int session_complain(const struct session *session, const struct error *err);

#endif
