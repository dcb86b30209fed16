/* SPDX-License-Identifier: MIT */
/* The completions of the shells, as the packages install them; made from completions/. */
#pragma once

struct completion {
	const char *shell;
	const char *text;
};

/* Ends with a row whose shell is NULL. */
extern const struct completion completions[];
