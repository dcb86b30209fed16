/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "backends/registry.h"
#include "base/error.h"
#include "base/version.h"
#include "command.h"
#include "output.h"

static void print_version(void)
{
	const char *between = "with ";

	printf("dlock %s\n", DLOCK_VERSION);
	for (const struct backend_driver *d = backend_drivers; d->schemes; d++) {
		if (!d->ops && !d->module)
			continue;
		printf("%s%s", between, d->schemes->name);
		between = ", ";
	}
#ifndef WITHOUT_TLS
	printf("%sTLS", between);
#endif
	printf("\n");
}

/* Prints a line for a library, or says why the module that has it cannot be loaded. */
static int print_library(const char *user, const char *library, const struct error *err)
{
	if (library)
		printf("%s: %s\n", user, library);
	else if (err->kind && err->errnum == ENOENT)
		printf("%s: not installed\n", user);
	else if (err->kind)
		return complain(err);
	return 0;
}

/* A part that is left out of an installation is no failure; a part that does not load is one. */
static int print_libraries(void)
{
	int status = 0;

	for (const struct backend_driver *d = backend_drivers; d->schemes; d++) {
		struct error err = { 0 };

		if (d->library || (d->module && !d->ops))
			status |= print_library(d->schemes->name, backend_library(d, &err), &err);
	}
#ifndef WITHOUT_TLS
	struct error err = { 0 };
	const char *library = backend_tls_library(&err);

	status |= print_library("TLS", library, &err);
#endif
	return status;
}

int command_version(const struct options *options)
{
	print_version();
	return options->verbosity > 0 ? print_libraries() : 0;
}
