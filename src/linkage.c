/* SPDX-License-Identifier: MIT */
#include "linkage.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define NAME_ROOM 96

/* The path of this program, NUL-terminated, with room for more; false: it is not known. */
static bool find_self(char path[static PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - NAME_ROOM);
	const char *called;

	if (length > 0) {
		path[length] = '\0';
		return true;
	}
	/* Without /proc: what was given to exec. */
	called = (const char *)getauxval(AT_EXECFN);
	return called && realpath(called, path) && strlen(path) < PATH_MAX - NAME_ROOM;
}

void *linkage_find(const char *name, void *(*try)(const char *path, void *context), void *context)
{
	static const char *const beside[] = { "", "../lib/dlock/" };
	void *found = NULL;
	char path[PATH_MAX];
	char *slash;

	if (!getauxval(AT_SECURE) && find_self(path)) {
		slash = strrchr(path, '/');
		for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]) && !found; i++) {
			snprintf(slash + 1, NAME_ROOM, "%s%s", beside[i], name);
			if (!access(path, R_OK))
				found = try(path, context);
		}
	}
	if (found)
		return found;
	snprintf(path, sizeof(path), "%s/%s", MODULE_DIR, name);
	return try(path, context);
}
