/* SPDX-License-Identifier: MIT */
/* The subcommands: a file each, and a row each in the table of main.c. */
#pragma once

#include "options.h"

struct command {
	const char *name;
	const char *usage;	/* what follows "dlock " */
	const char *summary;
	enum command_bit bit;
	/* self: the command's own row. argv[0]: its name. Returns the exit status. */
	int (*main)(const struct command *self, int argc, char **argv);
};

int command_run(const struct command *self, int argc, char **argv);
int command_acquire(const struct command *self, int argc, char **argv);
int command_token(const struct command *self, int argc, char **argv);	/* renew, verify, release */
int command_status(const struct command *self, int argc, char **argv);
int command_wait(const struct command *self, int argc, char **argv);
int command_break(const struct command *self, int argc, char **argv);
int command_check(const struct command *self, int argc, char **argv);
int command_setup(const struct command *self, int argc, char **argv);
int command_version(const struct command *self, int argc, char **argv);

/* Prints the help of one command on standard output. */
void command_print_help(const struct command *command);
