/* SPDX-License-Identifier: MIT */
/* The command version prints the version, and which parts of this build can be loaded. */
#include <errno.h>
#include <string.h>

#include "base/module.h"
#include "base/version.h"
#include "session.h"

/* What is printed of a part: its name in the list of usable parts, or a line of its own. */
enum detail { IN_LIST, PROBLEMS, LIBRARIES };

/*
 * Print a part, which is a backend or TLS. library: NULL if it needs none, or has a module. A part
 * that is not installed is no failure; a part that does not load is one. Returns the exit status.
 */
static int print_part(const char *name, const char *module, const char *library,
		      enum detail detail)
{
	struct error err = { 0 };
	const struct module *loaded = module ? module_load(module, &err) : NULL;

	if (loaded)
		library = loaded->library();
	if (detail == IN_LIST && !err.kind)
		printf(", %s", name);
	else if (detail == LIBRARIES && library)
		printf("%s: %s\n", name, library);
	else if (detail != IN_LIST && err.errnum == ENOENT)
		printf("%s: not installed; apt install dlock-%s\n", name, module);
	else if (detail != IN_LIST && err.kind)
		return log_fail(&err);
	return 0;
}

/* Print all parts of this build but the first one, file:, which needs nothing. */
static int print_parts(enum detail detail)
{
	const struct backend_driver *last = backend_drivers;
	int status = 0;

	for (const struct backend_driver *d = backend_drivers; d->scheme; d++) {
		/* An alias has neither, and the next row may be another scheme of the backend. */
		if ((!d->ops && !d->module) || (d->ops && d->ops == last->ops) ||
		    (d->module && last->module && !strcmp(d->module, last->module)))
			continue;
		last = d;
		status |= print_part(d->scheme, d->module, d->library ? d->library() : NULL,
				     detail);
	}
#ifndef WITHOUT_TLS
	status |= print_part("TLS", "tls", NULL, detail);
#endif
	return status;
}

int command_version(struct session *session, struct error *err)
{
	(void)err;

	printf("dlock %s\nwith file", DLOCK_VERSION);
	print_parts(IN_LIST);
	printf("\n");
	return print_parts(session->options.least == LEVEL_STEP ? LIBRARIES : PROBLEMS);
}
