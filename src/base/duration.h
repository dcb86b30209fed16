/* SPDX-License-Identifier: MIT */
/*
 * Parses and formats durations and times of day. Times of day are in the time zone of this process
 * (TZ), which the C library reads; there is no other I/O.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;

/*
 * The longest duration: 10 years of 365 days. Every backend can store this number, also in
 * microseconds, and added to any point in time it does not overflow.
 */
#define DURATION_MAX_MS (INT64_C(3650) * 24 * 60 * 60 * 1000)

/*
 * Parse "30", "1.5s", "250ms", "1h30m", "2d": a decimal number with an optional unit (ms s m h d;
 * without one: seconds), or a sum of numbers with units. Each number is rounded up to whole
 * milliseconds, so that a positive duration is never 0. Returns 0, or -1 with ERROR_USAGE: the
 * text is empty, has a sign, an unknown unit or other text behind it, or exceeds DURATION_MAX_MS.
 */
int duration_parse(const char *text, int64_t *ms, struct error *err);

#define DURATION_TEXT_SIZE 32

/*
 * Write at most two units, the largest first: "25ms", "0.3s", "12s", "3m12s", "2h05m", "3d4h".
 * Smaller units are dropped, and a negative duration counts as 0. Returns buf.
 */
const char *duration_format(int64_t ms, char *buf, size_t size);

/*
 * Parse "22:30" or "6:00", from 0:00 to 23:59, and set *at_ms to the next time after now_ms at
 * which the clock shows it. Both are in ms since the epoch. mktime() decides for a night in which
 * the clock skips the time or shows it twice. Returns 0, or -1 with ERROR_USAGE.
 */
int time_of_day_next(const char *text, int64_t now_ms, int64_t *at_ms, struct error *err);

#define TIME_OF_DAY_SIZE 40
/*
 * Write "03:10:00", or "2026-11-24 03:10:00" on another day than now. Both times are in ms since
 * the epoch.
 */
void time_of_day_show(int64_t at_ms, int64_t now_ms, char buf[static TIME_OF_DAY_SIZE]);
