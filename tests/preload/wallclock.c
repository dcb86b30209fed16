/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program: its wall clock is off by as many ns as the file $TORTURE_CLOCK has in
 * its first eight bytes, from one moment to the next. With INT64_MAX there the wall clock stands
 * still, at the beginning of 2030. The other clocks are as they are. libfaketime, which can do much
 * more, leaves files behind for each process that is killed, and MariaDB 11.8 breaks connections
 * with it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STANDS_AT INT64_C(1893456000000000000)

static const int64_t *offset;

static int64_t off_ns(void)
{
	static const int64_t none;
	const char *path;
	void *map = MAP_FAILED;
	int fd;

	if (!offset) {
		path = getenv("TORTURE_CLOCK");
		fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd >= 0) {
			map = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
			close(fd);
		}
		offset = map == MAP_FAILED ? &none : map;
	}
	return __atomic_load_n(offset, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns, off;

	if (syscall(SYS_clock_gettime, clock, time) != 0)
		return -1;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
		off = off_ns();
		ns = STANDS_AT;
		if (off != INT64_MAX)
			ns = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + off;
		time->tv_sec = (time_t)(ns / 1000000000);
		time->tv_nsec = ns % 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (seconds)
		*seconds = now.tv_sec;
	return now.tv_sec;
}
