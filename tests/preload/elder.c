/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a Redis or Valkey server: to it, time() was half a day ago. Such a server notes by
 * this call when it has started, and reads every other time by another one, so that it says that it
 * has been up for half a day. Nothing else in it changes.
 */
#include <time.h>

time_t time(time_t *copy)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= 12 * 3600;
	if (copy)
		*copy = now.tv_sec;
	return now.tv_sec;
}
