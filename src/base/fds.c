/* SPDX-License-Identifier: MIT */
#include "fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define FIRST 3
/* How many numbers are tried without /proc: the limit of a process may be 1,000,000,000. */
#define MOST_TRIED (1 << 20)

static bool is_kept(int fd, const int *keep, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (keep[i] == fd)
			return true;
	return false;
}

static bool is_inherited(int fd)
{
	const int flags = fcntl(fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* keep NULL: closes fd if it was inherited. */
static void close_unless(int fd, const int *keep, size_t count)
{
	if (keep ? !is_kept(fd, keep, count) : is_inherited(fd))
		close(fd);
}

/* Closes those that /proc lists, or without /proc all numbers that may be in use. */
static void close_each(const int *keep, size_t count)
{
	DIR *list = opendir("/proc/self/fd");
	const struct dirent *entry;
	struct rlimit limit;
	int fd, end = MOST_TRIED;

	if (list) {
		while ((entry = readdir(list))) {
			fd = (int)strtol(entry->d_name, NULL, 10);
			if (fd >= FIRST && fd != dirfd(list))
				close_unless(fd, keep, count);
		}
		closedir(list);
		return;
	}
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < MOST_TRIED)
		end = (int)limit.rlim_cur;
	for (fd = FIRST; fd < end; fd++)
		close_unless(fd, keep, count);
}

void fds_close_all_but(const int *keep, size_t count)
{
	static const int none = -1;

	close_each(count ? keep : &none, count);
}

void fds_close_inherited(void)
{
	close_each(NULL, 0);
}

/* A descriptor that can neither be read nor written: that fails with EBADF. */
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

	/* The kernel gives out the lowest free number. */
	do {
		last = open_nothing();
	} while (last >= 0 && last < FIRST);
	if (last >= FIRST)
		close(last);
}
