/* SPDX-License-Identifier: MIT */
/* Closes inherited descriptors, and fills or replaces the standard ones. */
#include "fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define FIRST 3
/* Without /proc, try at most this many: the limit of a process may be 1,000,000,000. */
#define MOST_TRIED (1 << 20)

static bool is_inherited(int fd)
{
	const int flags = fcntl(fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

static void close_if_inherited(int fd)
{
	if (is_inherited(fd))
		close(fd);
}

/* Check the descriptors that /proc lists, or without /proc all numbers that may be in use. */
void fds_close_inherited(void)
{
	DIR *list = opendir("/proc/self/fd");
	const struct dirent *entry;
	struct rlimit limit;
	int fd, end = MOST_TRIED;

	if (list) {
		while ((entry = readdir(list))) {
			fd = (int)strtol(entry->d_name, NULL, 10);
			if (fd >= FIRST && fd != dirfd(list))
				close_if_inherited(fd);
		}
		closedir(list);
		return;
	}
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < MOST_TRIED)
		end = (int)limit.rlim_cur;
	for (fd = FIRST; fd < end; fd++)
		close_if_inherited(fd);
}

/* Open a descriptor whose reading and writing fail with EBADF. */
static int open_nothing(void)
{
	return open("/", O_PATH | O_CLOEXEC);
}

void fds_drop_standard(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		null = open_nothing();
	for (int fd = 0; fd < FIRST; fd++)
		if (null < 0)
			close(fd);
		else if (fd != null)
			dup2(null, fd);
	if (null >= FIRST)
		close(null);
}

void fds_fill_standard(void)
{
	int last;

	/* The kernel returns the lowest free number. */
	do {
		last = open_nothing();
	} while (last >= 0 && last < FIRST);
	if (last >= FIRST)
		close(last);
}
