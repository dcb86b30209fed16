/* SPDX-License-Identifier: MIT */
/*
 * How dlock prints: lines to stderr, as text for people or with --log json as objects for programs,
 * and also to syslog if the user wants that; on a terminal, a live line that shows that dlock
 * waits; and text for people on stdout. The state is that of the process, as stderr is.
 *
 * Calling sequence: log_begin() after the command line was parsed, even if it could not be parsed
 * as a whole; log_about() after the settings were loaded; lines at any time; log_finish() at the
 * end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/run.h"

struct holder;
struct options;

struct log_line {
	enum say level;
	enum run_event event;
	bool nameless;			/* the name of the lock does not stand before the text */
	const char *text;
	const struct run_facts *facts;	/* NULL: nothing is known of a run */
	const struct holder *holder;	/* who has the lock, or the newer waiter; NULL: not said */
	int64_t age_ms;			/* how long the holder has had it; -1: not known */
	int64_t ahead;			/* waiters before us; -1: not known */
};

/* Obeys --log, --syslog, -q and -v. */
void log_begin(const struct options *options);

/* From now on lines concern the lock of options->run, and go to syslog, too, or not. */
void log_about(const struct options *options, bool syslog);

/* Print a line, in place of the live line if there is one. */
void log_line(const struct log_line *line);

/*
 * Print "dlock: NAME: text", if the user wants it: SAY_STEP is text that -v asks for, SAY_WARNING
 * is text that -q suppresses.
 */
void log_say(enum say level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Print an error. A wrong command line concerns no lock, so that its message does not begin with a
 * name. Returns the exit status that goes with the error.
 */
int log_fail(const struct error *err);

/* Show that dlock waits, for the lock that state describes; NULL: the wait is over. */
void log_waiting(const struct wait_state *state);

/* The hooks of a run, which print its messages. */
struct run_hooks log_hooks(void);

/*
 * Print why a run or an acquisition has failed. Returns the exit status, which is not_obtained when
 * the lock was not obtained.
 */
int log_failed_run(const struct run_result *result, int not_obtained);

/*
 * Prints one line for people. All such lines go through here, because anyone may have written what
 * they contain: the line is cleaned (text_clean()), so that a terminal shows it as it is.
 */
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is it a terminal that obeys escape sequences? */
bool print_is_screen(int fd);

/*
 * Write out what was printed on stdout. 0, or -1 when any of it could not be written: then
 * log_finish() says why, and the exit status is that of an error.
 */
int log_flush(void);

/* The end of every command, which main() calls: writes out stdout. Returns the exit status. */
int log_finish(int status);
