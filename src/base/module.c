/* SPDX-License-Identifier: MIT */
/* Loads shared objects with dlopen(3), and explains a failure. */
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

#ifdef LINKED_MODULES
#include <nss.h>

/* One file for every machine (`make static`): the Makefile names the modules, as M(NAME) each. */
#define M(name) extern const struct module dlock_module_##name;
LINKED_MODULES
#undef M
#define M(name) { #name, &dlock_module_##name },
static const struct {
	const char *name;
	const struct module *module;
} linked[] = { { NULL, NULL }, LINKED_MODULES };

const void *module_load(const char *name, struct error *err)
{
	/* C has no empty array: the first one is none. */
	for (size_t i = 1; i < sizeof(linked) / sizeof(linked[0]); i++)
		if (!strcmp(linked[i].name, name))
			return linked[i].module;
	error_set(err, ERROR_INTERNAL, 0, "the module for %s is not in this program, which is one "
		  "file for every machine; install the package dlock-%s", name, name);
	err->errnum = ENOENT;
	return NULL;
}

/*
 * A shared object of the host comes with another C library, next to which it would crash: what the
 * libraries load by these (plugins for authentication, providers of OpenSSL) is not there.
 */
void *dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

char *dlerror(void)
{
	return (char *)"this program is one file for every machine, and loads no other";
}

const char module_names[] = ", here by /etc/hosts and DNS only";

/* What else /etc/nsswitch.conf may name is in shared objects. Libraries look up all of these. */
__attribute__((constructor)) static void look_up_without_objects(void)
{
	__nss_configure_lookup("hosts", "files dns");
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("services", "files");
}

#else
const char module_names[] = "";

/*
 * The dynamic linker replaces $ORIGIN by the program's directory, but not for a set-user-ID
 * program, which its user may have linked from any directory.
 */
static const char *const directories[] = {
	"$ORIGIN", "$ORIGIN/../lib/dlock", MODULE_DIR,
};

/* Is the object missing, and not a library that it needs? */
static bool is_missing(const char *why, const char *file)
{
	return strstr(why, "dynamic string token") ||
	       (strstr(why, file) && strstr(why, strerror(ENOENT)));
}

/* Returns the handle, or NULL with a text in why. *missing: the object is in no directory. */
static void *open_object(const char *file, char *why, size_t size, bool *missing)
{
	char path[PATH_MAX];
	void *handle = NULL;

	*missing = true;
	for (size_t i = 0; *missing && i < sizeof(directories) / sizeof(directories[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directories[i], file);
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
#endif
