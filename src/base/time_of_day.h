/* SPDX-License-Identifier: MIT */
/* Times of day as users write and read them, in the time zone of this process (TZ). */
#pragma once

#include <stdint.h>

struct error;

/*
 * Parses "22:30" or "6:00", from 0:00 to 23:59, and sets *at_ms to the next time after now_ms at
 * which the clock shows it. Both are in ms since the epoch. A time that the clock skips when
 * daylight saving begins is the moment of the skip. Of a time that the clock shows twice when
 * daylight saving ends, the one that comes first after now_ms counts. 0, or -1 with ERROR_USAGE.
 */
int time_of_day_next(const char *text, int64_t now_ms, int64_t *at_ms, struct error *err);

#define TIME_OF_DAY_SIZE 40
/*
 * Writes "03:10:00", or "2026-11-24 03:10:00" if that is another day than now. Both times are in ms
 * since the epoch.
 */
void time_of_day_show(int64_t at_ms, int64_t now_ms, char buf[static TIME_OF_DAY_SIZE]);
