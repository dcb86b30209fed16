/* SPDX-License-Identifier: MIT */
/* Exit statuses, which scripts rely on. --help explains them (main.c). */
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
