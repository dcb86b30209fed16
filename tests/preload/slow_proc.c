/* SPDX-License-Identifier: MIT */
/* To list a directory of /proc takes 3 ms, as with many threads or on a slow machine. */
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

DIR *opendir(const char *name)
{
	DIR *(*next)(const char *);

	*(void **)&next = dlsym(RTLD_NEXT, "opendir");
	if (!strncmp(name, "/proc/", 6))
		usleep(3000);
	return next(name);
}
