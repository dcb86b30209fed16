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
#include "version.h"

/*
 * The dynamic linker puts the program's directory in the place of $ORIGIN, but not for a privileged
 * program, whose user may have linked it to any place.
 */
static const char *const places[] = {
	"$ORIGIN", "$ORIGIN/../lib/dlock", MODULE_DIR,
};

/* The object is not there, while it may be there without a library that it needs. */
static bool is_missing(const char *why, const char *file)
{
	return strstr(why, "dynamic string token") ||
	       (strstr(why, file) && strstr(why, strerror(ENOENT)));
}

/* Returns the handle, or NULL with a text in why, and in *missing whether the object is nowhere. */
static void *open_object(const char *file, char *why, size_t size, bool *missing)
{
	char path[PATH_MAX];
	void *handle = NULL;

	*missing = true;
	for (size_t i = 0; *missing && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], file);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			snprintf(why, size, "%s", dlerror());
		*missing = !handle && is_missing(why, file);
	}
	return handle;
}

const void *module_load(const char *name, struct error *err)
{
	const struct module *module;
	char file[64], why[256];
	bool missing;
	void *handle;

	/* Debian's package is named after the module. */
	snprintf(file, sizeof(file), "dlock-%.32s.so", name);
	handle = open_object(file, why, sizeof(why), &missing);
	module = handle ? dlsym(handle, "dlock_module") : NULL;
	if (module && !strcmp(module->version, DLOCK_VERSION))
		return module;
	if (missing)
		snprintf(why, sizeof(why), "there is no %s; apt install dlock-%.32s", file, name);
	else if (module)
		snprintf(why, sizeof(why), "%s belongs to another version of dlock", file);
	else if (handle)
		snprintf(why, sizeof(why), "%s: there is no dlock_module in it", file);
	error_set(err, ERROR_INTERNAL, 0, "the module for %s cannot be loaded: %s", name, why);
	err->errnum = missing ? ENOENT : 0;
	return NULL;
}
