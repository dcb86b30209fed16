/* SPDX-License-Identifier: MIT */
#include "linkage.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "backend.h"
#include "error.h"
#include "version.h"

int linkage_suit(const struct backend_driver *driver, const struct uri *uri, char **argv,
	      struct error *err)
{
	(void)driver, (void)uri, (void)argv, (void)err;
	/* In case that it was started as dlock-full: people look for dlock. */
	prctl(PR_SET_NAME, "dlock");
	return 0;
}

static void *load(const char *path, void *context)
{
	struct error *err = context;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	/* What is wrong with the first one that is there matters most. */
	if (!handle && !err->kind)
		error_set(err, ERROR_INTERNAL, 0, "%s", dlerror());
	return handle;
}

const struct backend_module *linkage_module(const char *name, struct error *err)
{
	const struct backend_module *module;
	char file[64];
	void *handle;

	snprintf(file, sizeof(file), "dlock-%.32s.so", name);
	/* Never closed: the process that loads it uses it until it exits. */
	handle = linkage_find(file, load, err);
	if (!handle) {
		error_prefix(err, "the module for %s cannot be loaded", name);
		return NULL;
	}
	module = dlsym(handle, BACKEND_MODULE_SYMBOL);
	if (!module || strcmp(module->version, DLOCK_VERSION) != 0) {
		error_set(err, ERROR_INTERNAL, 0,
			  "the module for %s belongs to another version of dlock", name);
		return NULL;
	}
	return module;
}
