/* SPDX-License-Identifier: MIT */
#include "linkage.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define NAME_ROOM 96

void *linkage_find(const char *name, void *(*try)(const char *path, void *context), void *context)
{
	static const char *const beside[] = { "", "../lib/dlock/" };
	void *found = NULL;
	char path[4096];
	ssize_t length = 0;
	char *slash;

	if (!getauxval(AT_SECURE))
		length = readlink("/proc/self/exe", path, sizeof(path) - NAME_ROOM);
	if (length > 0) {
		path[length] = '\0';
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
