/* SPDX-License-Identifier: MIT */
/*
 * The settings of a command: from the command line, the environment, the user's configuration file,
 * or the system's configuration file. The first of these that has a setting wins.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lock/uri.h"
#include "backends/registry.h"
#include "engine/run.h"
#include "config.h"

struct options;

struct settings {
	struct config config;
	const char *section;	/* of the configuration; "": the backend is given by its URI */
	char *absolute_uri;	/* the text of uri, with the password */
	struct uri uri;		/* parsed, password-file loaded */
	int64_t asked_ttl_ms;	/* by -t; 0: an existing hold keeps its own TTL */
	char location[URI_LOCATION_SIZE];	/* where the locks are: see uri_location() */
	bool syslog;		/* messages of run and acquire go to the log of the system, too */
	struct error unreadable;	/* why a configuration file could not be read */
	char warning[400];	/* "", or that other users can read a password */
};

/*
 * Load all settings, complete options->run, which then points to *settings, and blank the password
 * in argv. Returns 0, or -1 with *err. The caller calls settings_finish() in both cases.
 */
int settings_load(struct settings *settings, struct options *options, struct error *err);
void settings_finish(struct settings *settings);
