/* SPDX-License-Identifier: MIT */
/*
 * The one table of options. Parsing, --help, and the tests of the man page and the completions use
 * it.
 */
#pragma once

#include "engine/request.h"

/* Commands as bits, for the column of the table that lists the commands of an option. */
enum command_bit {
	COMMAND_RUN = 1 << 0,
	COMMAND_ACQUIRE = 1 << 1,
	COMMAND_RENEW = 1 << 2,
	COMMAND_VERIFY = 1 << 3,
	COMMAND_RELEASE = 1 << 4,
	COMMAND_STATUS = 1 << 5,
	COMMAND_WAIT = 1 << 6,
	COMMAND_BREAK = 1 << 7,
	COMMAND_CHECK = 1 << 8,
	COMMAND_SETUP = 1 << 9,
	COMMAND_HELP = 1 << 10,
	COMMAND_VERSION = 1 << 11,
	COMMAND_COMPLETION = 1 << 12,
};

/* Scripts rely on these exit statuses. --help explains them (main.c). */
enum exit_status {
	EXIT_OVERDUE = 121,
	EXIT_UNAVAILABLE = 122,
	EXIT_LOST = 123,
	EXIT_NOT_OBTAINED = 124,
	EXIT_DLOCK = 125,
	EXIT_CANNOT_EXECUTE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL = 128,	/* plus the signal's number */
};

/* How an option sets its field of struct options. */
enum option_kind {
	OPTION_FLAG,		/* bool: becomes true */
	OPTION_SET,		/* int: becomes low */
	OPTION_NUMBER,		/* int: the argument, from low to high */
	OPTION_DURATION,	/* int64_t: the argument in ms, low or more */
	OPTION_TTL,		/* int64_t: as config_parse_ttl() */
	OPTION_WAIT,		/* int64_t: as config_parse_wait() */
	OPTION_TIME_OF_DAY,	/* int64_t: when the clock shows it next, in ms since the epoch */
	OPTION_TEXT,		/* const char *: the argument, with low not an empty one */
	OPTION_URI,		/* const char *: the argument; a password in argv is blanked */
	OPTION_CHOICE,		/* unsigned char, or bool: the number of a word of argument from 0
				 * on; with low 1, the first one of two is 1 */
};

struct option_row {
	char letter;		/* 0: long form only */
	const char *name;
	const char *argument;	/* NULL: takes none */
	const char *help;	/* NULL: not shown to users */
	unsigned commands;	/* enum command_bit */
	enum option_kind kind;
	size_t field;		/* offset in struct options */
	int low, high;
};

/* How many of run's options are usual: the first rows. */
#define OPTIONS_USUAL 10

/* Ends with a row whose name is NULL. */
extern const struct option_row option_rows[];

/* The command line. Strings point into argv. */
struct options {
	/*
	 * The request of a run or an acquisition. settings_load() sets the fields that the
	 * environment and the configuration can change, and the session sets the name.
	 */
	struct run_request run;
	char **line;		/* all words, from the name of the command on */
	const char *nested;	/* the run inside one of another NAME: see nest_run(); or NULL */
	const char *backend;	/* NULL: not given */
	int64_t wait_ms;	/* these two may be -1: not given */
	int64_t kill_after_ms;
	bool nonblock;
	int conflict_exit_code;
	int contain;		/* 1: --contain, -1: --no-contain, 0: neither */
	const char *shell[4];	/* sh -c STRING, of run -c; without STRING: not given */
	const char *metrics;	/* path of a file; NULL: not given */
	pid_t pid;		/* 0: not given */
	bool syslog;		/* also set by settings_load() */
	bool log_json;		/* --log json */
	bool json;
	bool dry_run;
	bool watch;
	bool names;		/* of status: print nothing else */
	bool prometheus;
	bool yes;
	enum level least;	/* no message below it is printed: -q and -v */
	bool help;
	bool version;
	bool words;		/* of help, for the completions */
	char **operands;	/* the words that are no options; run.argv is what follows "--" */
	int operand_count;
};

/*
 * Parse argv[1...] for the command argv[0]. Options may stand anywhere before "--", which lets a
 * NAME begin with "-". Overwrites a password in argv, which other users can read with ps. Returns
 * 0, or -1 with ERROR_USAGE.
 */
int options_parse(struct options *options, enum command_bit command, char **argv,
		  struct error *err);

/*
 * May a shell have cut the command line? It ends with a URI that has a '?', and an '&' without
 * quotes may have followed.
 */
bool options_may_be_cut(const struct options *options);

/* Is typed the start of word, or word with letters in a wrong order, one missing, or one twice? */
bool options_meant(const char *typed, const char *word);

/*
 * Refuse an unknown command or option. The message ends with dlock's form of a word of flock(1) or
 * another lock program, or else with advice. Returns -1.
 */
int options_refuse(const char *kind, const char *word, const char *advice, struct error *err);
