/* SPDX-License-Identifier: MIT */
/* The subcommands: one file each, one row each in the table. */
#ifndef DLOCK_COMMAND_H
#define DLOCK_COMMAND_H

#include "options.h"

struct error;

struct command_row {
	const char *name;
	int (*main)(int argc, char **argv);	/* argv[0]: its name; gives the exit status */
	const char *usage;			/* what follows "dlock " */
	const char *summary;
	enum command_bit bit;
};

/* Ends with a row whose name is NULL. */
extern const struct command_row command_rows[];

const struct command_row *command_find(const char *name);

int command_run(int argc, char **argv);
int command_acquire(int argc, char **argv);
int command_renew(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_release(int argc, char **argv);
int command_status(int argc, char **argv);
int command_wait(int argc, char **argv);
int command_break(int argc, char **argv);
int command_check(int argc, char **argv);
int command_setup(int argc, char **argv);
int command_help(int argc, char **argv);
int command_version(int argc, char **argv);

/* Prints the help of one command, or of dlock as a whole (NULL), on stdout. */
void help_print(const struct command_row *command);

/*
 * Writes out what was printed on stdout. 0, or -1 when any of it could not be written: main() then
 * says so in the end, and why, and the exit status is that of an error.
 */
int flush_output(void);

/* Prints "dlock: message" on stderr; gives the status that goes with the error. */
int complain(const struct error *err);

#endif
