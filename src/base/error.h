/* SPDX-License-Identifier: MIT */
/*
 * An error is a value that the caller owns; nothing is allocated for it. The function that fails
 * fills the error once with error_set(). Each caller may put its own object and verb in front of
 * the message with error_prefix(). Only cmd/ prints errors. A zeroed struct error is no error.
 */
#pragma once

enum error_kind {
	ERROR_NONE,
	ERROR_USAGE,		/* the user asked for something impossible */
	ERROR_INTERNAL,		/* this host or dlock itself: fork, memory, files */
	ERROR_UNAVAILABLE,	/* the backend is down: trying again may help */
	ERROR_REFUSED,		/* the backend refuses this user or request: see backend.h */
	ERROR_CANCELLED,	/* the caller has cancelled the operation */
};

struct error {
	enum error_kind kind;
	int errnum;		/* errno at the point of failure, or 0 */
	char message[480];	/* one line, no newline, no secret */
};

/*
 * Fill *err, and append ": strerror(errnum)" when errnum is not 0. Returns -1, for the caller to
 * return.
 */
int error_set(struct error *err, enum error_kind kind, int errnum,
	      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Puts "text: " in front of the message. Returns -1, too. */
int error_prefix(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
