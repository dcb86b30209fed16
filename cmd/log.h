/* SPDX-License-Identifier: MIT */
/*
 * Writes the lines of a command to stderr, as text for people or with --log json as objects for
 * programs, and also to syslog if the user wants that. Only the live line of a terminal, which
 * shows that dlock waits, is written elsewhere (progress.c).
 *
 * Calling sequence: log_begin() after the command line was parsed, even if it could not be parsed
 * as a whole; log_about() in the commands that take a lock, after the settings were loaded;
 * log_line() at any time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/run.h"

struct holder;
struct options;
struct settings;

struct log_line {
	enum say level;
	enum run_event event;
	const char *name;		/* of the lock, to stand before the text; NULL: nothing */
	const char *text;
	const struct run_facts *facts;	/* NULL: nothing is known of a run */
	const struct holder *holder;	/* who has the lock, or the newer waiter; NULL: not said */
	int64_t age_ms;			/* how long the holder has had it; -1: not known */
	int64_t ahead;			/* waiters before us; -1: not known */
};

/* Obeys --log and --syslog. */
void log_begin(const struct options *options);

/* From now on lines concern this lock, and what the configuration says of syslog counts. */
void log_about(const char *name, const struct settings *settings);

bool log_is_json(void);
void log_line(const struct log_line *line);

/* A line without facts or a holder; name as in struct log_line. */
void log_text(enum say level, const char *name, const char *text);

/* The least important kind of line that is wanted with so many -v, or if negative so many -q. */
enum say log_least(int verbosity);
