/* SPDX-License-Identifier: MIT */
/* Closes inherited descriptors, and fills or replaces the standard ones. */
#include "fds.h"

#include <fcntl.h>
#include <unistd.h>

#define FIRST 3
/*
 * The kernel returns the lowest free number. So there are no more unused numbers between the
 * program's own descriptors than it has closed, and it closes fewer than this.
 */
#define UNUSED_MOST 32

int fds_close_inherited(void)
{
	int fd, flags, unused = 0;

	/* Its own ones are the few that an exec would close. */
	for (fd = FIRST; unused < UNUSED_MOST; fd++) {
		flags = fcntl(fd, F_GETFD);
		unused = flags < 0 ? unused + 1 : 0;
		if (flags >= 0 && !(flags & FD_CLOEXEC))
			close(fd);
	}
	return close_range((unsigned int)fd, ~0U, 0);
}

void fds_fill_standard(void)
{
	int last;

	/* The kernel returns the lowest free number. */
	do {
		last = open("/", O_PATH | O_CLOEXEC);
	} while (last >= 0 && last < FIRST);
	if (last >= FIRST)
		close(last);
}

void fds_drop_standard(void)
{
	for (int fd = 0; fd < FIRST; fd++)
		close(fd);
	fds_fill_standard();
}
