/* SPDX-License-Identifier: MIT */
/*
 * An error is a value that the caller owns; nothing is allocated for it. The
 * function that fails fills it once with error_set(); each level on the way
 * out may put its own object and verb in front with error_prefix(). Only
 * cmd/ prints it. A struct error that was zeroed holds no error.
 */
#ifndef DLOCK_ERROR_H
#define DLOCK_ERROR_H

enum error_kind {
	ERROR_NONE,
	ERROR_USAGE,		/* the caller asked for something impossible */
	ERROR_INTERNAL,		/* this host or dlock itself: fork, memory, files */
	ERROR_UNAVAILABLE,	/* backend cannot be reached: trying again may help */
	ERROR_REFUSED,		/* backend answers, but refuses: credentials, read-only */
	ERROR_CANCELLED,	/* told to give up; not worth a message */
};

struct error {
	enum error_kind kind;
	int errnum;		/* errno at the point of failure, or 0 */
	char message[480];	/* one line, no newline, no secret */
};

/* Fills *err; ": strerror(errnum)" is appended when errnum is not 0. */
void error_set(struct error *err, enum error_kind kind, int errnum,
	       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Puts "text: " in front of the message. */
void error_prefix(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
