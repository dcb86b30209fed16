/* SPDX-License-Identifier: MIT */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "error.h"

/* A library that the object needs may be missing instead. */
static bool is_missing(const char *file, const char *why)
{
	return !strncmp(why, file, strlen(file)) && strstr(why, strerror(ENOENT));
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
	void *address, *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		report_failure(file, dlerror(), err);
		return NULL;
	}
	address = dlsym(handle, symbol);
	if (!address)
		error_set(err, ERROR_INTERNAL, 0, "%s: there is no %s in it", file, symbol);
	return address;
}
