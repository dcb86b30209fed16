/* SPDX-License-Identifier: MIT */
/*
 * What holds after command line, environment, user's and system's file have had
 * their say, in this order.
 */
#ifndef DLOCK_SETTINGS_H
#define DLOCK_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/uri.h"
#include "backends/registry.h"
#include "config.h"

struct backend_driver;
struct error;
struct options;

struct settings {
	struct config config;
	const char *uri_text;	/* for DLOCK_BACKEND; contains the password */
	struct uri uri;		/* parsed, password-file loaded */
	const struct backend_driver *driver;
	int64_t ttl_ms;
	int64_t asked_ttl_ms;		/* by -t; 0: a hold that is there keeps its own */
	int64_t wait_ms;	/* CLOCK_NEVER: no limit; 0: do not wait */
	bool contain;
	char warning[400];	/* "" or about a password that others can read */
};

/*
 * Also blanks the password in argv. 0, or -1 with *err. The caller ends with settings_finish() in
 * any case.
 */
int settings_load(struct settings *settings, struct options *options, struct error *err);
void settings_finish(struct settings *settings);

#endif
