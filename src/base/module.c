/* SPDX-License-Identifier: MIT */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "error.h"
#include "module_dir.h"

#define NAME_ROOM 96

/* The path of this program, with room for the name of a module behind it. False: not known. */
static bool find_self(char path[static PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - NAME_ROOM);
	const char *called;

	if (length > 0) {
		path[length] = '\0';
		return true;
	}
	/* There is no /proc: the path that exec was called with. */
	called = (const char *)getauxval(AT_EXECFN);
	return called && realpath(called, path) && strlen(path) < PATH_MAX - NAME_ROOM;
}

/* Loads one file. *err is the first failure, which concerns the file that should be loaded. */
static void *load(const char *path, struct error *err)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle && !err->kind)
		error_set(err, ERROR_INTERNAL, 0, "%s", dlerror());
	return handle;
}

static void *find(const char *file, struct error *err)
{
	static const char *const beside[] = { "", "../lib/dlock/" };
	void *handle = NULL;
	char path[PATH_MAX];
	char *slash;

	if (!getauxval(AT_SECURE) && find_self(path)) {
		slash = strrchr(path, '/');
		for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]) && !handle; i++) {
			snprintf(slash + 1, NAME_ROOM, "%s%s", beside[i], file);
			if (!access(path, R_OK))
				handle = load(path, err);
		}
	}
	if (handle)
		return handle;
	snprintf(path, sizeof(path), "%s/%s", MODULE_DIR, file);
	if (!err->kind && access(path, F_OK) && errno == ENOENT) {
		/* Debian's package is named after the module. */
		error_set(err, ERROR_INTERNAL, 0, "there is no %s; apt install %.*s", path,
			  (int)strcspn(file, "."), file);
		err->errnum = ENOENT;
		return NULL;
	}
	return load(path, err);
}

const void *module_load(const char *file, const char *symbol, struct error *err)
{
	void *handle, *address;

	err->kind = ERROR_NONE;
	handle = find(file, err);
	if (!handle)
		return NULL;
	err->kind = ERROR_NONE;
	address = dlsym(handle, symbol);
	if (!address)
		error_set(err, ERROR_INTERNAL, 0, "%s: there is no %s in it", file, symbol);
	return address;
}
