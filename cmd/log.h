/* SPDX-License-Identifier: MIT */
/*
 * Prints lines to stderr, as text or with --log json as objects, and to syslog with --syslog. On a
 * terminal, a live line shows that dlock waits. print_line() prints text for people on stdout. The
 * state belongs to the process, as stderr does.
 *
 * Calling sequence: log_begin() after options_parse(), even if that has failed; log_about() after
 * settings_load(); lines at any time; log_flush() at the end.
 */
#pragma once

#include <stdio.h>

#include "engine/request.h"

struct options;

/* Obey --log, --syslog, -q and -v. */
void log_begin(const struct options *options);

/* Name this lock at location in all further lines. syslog: send them there, too. */
void log_about(const char *name, const char *location, bool syslog);

/* Print a message, unless -q or a missing -v excludes it, in place of the live line. */
void log_message(const struct run_message *message);

/* Print "dlock: NAME: text" for a message of no run. */
void log_print(enum level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Print an error. A wrong command line concerns no lock, so its message begins with no name.
 * Returns the exit status of the error.
 */
int log_fail(const struct error *err);

/* Show that dlock waits, for the lock that state describes; NULL: the wait is over. */
void log_waiting(const struct wait_state *state);

/* The hooks of a run, which print its messages; log_begin() completes them. */
extern struct run_hooks log_hooks;

/*
 * Print why a run or an acquisition has failed. Returns the exit status: not_obtained when the lock
 * was not acquired.
 */
int log_failed_run(const struct run_result *result, int not_obtained);

/*
 * Print one line for people, cleaned by text_clean(): anyone may have written a name or a note, and
 * a terminal obeys control characters.
 */
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for the name of a lock. */
#define PRINT_NAME_SIZE 208

/* Write the name of a lock, in quotes when a blank is at one of its ends. Returns buf. */
const char *print_name(const char *name, char buf[static PRINT_NAME_SIZE]);

/* Is it a terminal that obeys escape sequences? */
bool print_is_screen(int fd);

/* Returns the columns of the terminal; 0: it is none. */
int print_width(int fd);

/*
 * Flush stdout, at the end of every command. Returns the status that is given, or that of an error
 * when any of the output could not be written: then this prints why.
 */
int log_flush(int status);
