/* SPDX-License-Identifier: MIT */
/*
 * The subcommands. Each has a file of its own, and a row in the table of main.c. main() parses the
 * command line, answers --help and checks how many operands there are, and then calls the function
 * that the row names.
 */
#pragma once

#include "options.h"

/* Room for a word of the command line in a message. What is longer is cut. */
#define SHOWN_SIZE 160

struct session;

struct command {
	const char *name;
	const char *usage;	/* what follows "dlock " */
	const char *summary;
	enum command_bit bit;
	int least, most;	/* operands; with least more than 0 the first one is a NAME */
	/* What a command does over a session (session.h). The exit status, or -1 with *err. */
	int (*work)(struct session *session, struct error *err);
	/* A command without a session. Returns the exit status. */
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
