/* SPDX-License-Identifier: MIT */
/* The messages of a command that may have to wait: lines on stderr. */
#pragma once

#include <stdbool.h>

#include "engine/run.h"
#include "settings.h"

struct progress {
	const char *name;	/* of the lock */
	const struct settings *settings;	/* say where the lock is */
	int verbosity;
	bool live;		/* stderr is a terminal: a line shows that dlock waits */
	bool line_shown;
	bool said_waiting;
	/* -v: the description that was printed last */
	char last_holder[HOLDER_DESCRIPTION_SIZE];
};

/* Initialises *progress and the hooks that call it. */
void progress_init(struct progress *progress, const struct settings *settings, const char *name,
		   int verbosity, struct run_hooks *hooks);

/* Prints a warning, unless -q was given. */
void progress_warn(struct progress *progress, const char *text);

/*
 * Prints why a run or an acquisition has failed. Returns the exit status, which is not_obtained
 * when the lock was not obtained.
 */
int progress_report_failure(struct progress *progress, const struct run_result *result,
			    int not_obtained);
