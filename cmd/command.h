/* SPDX-License-Identifier: MIT */
/*
 * The subcommands. Each has its own file, and a row in the table of main.c. main() parses the
 * command line, answers --help, checks the number of operands, and calls the function of the row.
 */
#pragma once

#include "options.h"

/* Room for a word of the command line in a message. Longer words are cut. */
#define SHOWN_SIZE 160

struct session;

struct command {
	const char *name;
	const char *usage;	/* what follows "dlock " */
	const char *summary;
	enum command_bit bit;
	/* Operands. With least more than 0 the first one is a NAME; with most INT_MAX all are. */
	int least, most;
	/* Runs a command over a session (session.h). Returns the exit status, or -1 with *err. */
	int (*work)(struct session *session, struct error *err);
	/* Runs a command without a session. Returns the exit status. */
	int (*main)(const struct options *options);
};

int command_run(const struct options *options);
int command_version(const struct options *options);
int command_acquire(struct session *session, struct error *err);
int command_token(struct session *session, struct error *err);	/* renew, verify, release */
int command_status(struct session *session, struct error *err);
int command_wait(struct session *session, struct error *err);
int command_break(struct session *session, struct error *err);
int command_check(struct session *session, struct error *err);
int command_setup(struct session *session, struct error *err);
