/* SPDX-License-Identifier: MIT */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "module_dir.h"

/*
 * In this order. The dynamic linker replaces $ORIGIN by the program's directory, and refuses to do
 * so in a privileged program.
 */
static const char *const places[] = { "$ORIGIN", "$ORIGIN/../lib/dlock", MODULE_DIR };

/* A library that the object needs may be missing instead. */
static bool is_missing(const char *file, const char *why)
{
	const char *name = strstr(why, file);

	return name && name[strlen(file)] == ':' && strstr(why, strerror(ENOENT));
}

/* Whether another place may have the object. */
static bool is_elsewhere(const char *file, const char *why)
{
	return is_missing(file, why) || strstr(why, "dynamic string token");
}

static void report_failure(const char *file, const char *why, struct error *err)
{
	if (!is_missing(file, why)) {
		error_set(err, ERROR_INTERNAL, 0, "%s", why);
		return;
	}
	/* Debian's package is named after the module. */
	error_set(err, ERROR_INTERNAL, 0, "there is no %s; apt install %.*s", file,
		  (int)strcspn(file, "."), file);
	err->errnum = ENOENT;
}

const void *module_load(const char *file, const char *symbol, struct error *err)
{
	char path[PATH_MAX];
	const char *why = "";
	void *address, *handle = NULL;

	for (size_t i = 0; !handle && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], file);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			why = dlerror();
			if (!is_elsewhere(file, why))
				break;
		}
	}
	if (!handle) {
		report_failure(file, why, err);
		return NULL;
	}
	address = dlsym(handle, symbol);
	if (!address)
		error_set(err, ERROR_INTERNAL, 0, "%s: there is no %s in it", file, symbol);
	return address;
}
