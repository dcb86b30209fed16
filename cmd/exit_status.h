/* SPDX-License-Identifier: MIT */
/* Exit statuses, which scripts rely on. --help and the tests use the table. */
#pragma once

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

struct exit_status_row {
	const char *code;
	const char *meaning;
};

/* Ends with a row whose code is NULL. */
extern const struct exit_status_row exit_status_rows[];

struct error;

/* The exit status for an error. */
int exit_status_of(const struct error *err);
