/* SPDX-License-Identifier: MIT */
/* Durations as users write them and as dlock prints them. No I/O. */
#ifndef DLOCK_DURATION_H
#define DLOCK_DURATION_H

#include <stddef.h>
#include <stdint.h>

struct error;

/*
 * The longest duration that a user may ask for: 10 years of 365 days. Every backend can store
 * it, also in microseconds, and it can be added to any point in time without an overflow.
 */
#define DURATION_MAX_MS (INT64_C(3650) * 24 * 60 * 60 * 1000)

/*
 * Parses "30", "1.5s", "250ms", "1h30m", "2d": decimal numbers with an optional
 * unit (ms s m h d; bare: seconds) or a sum of such with units. Writes
 * milliseconds, each number rounded up to a whole one, so that a positive
 * duration is never 0. Returns 0, or -1 with ERROR_USAGE in *err: empty, sign, unknown unit,
 * trailing text, more than DURATION_MAX_MS.
 */
int duration_parse(const char *text, int64_t *ms, struct error *err);

#define DURATION_TEXT_SIZE 32

/*
 * Writes at most two units, largest first: "25ms", "0.3s", "12s", "3m12s",
 * "2h05m", "3d4h"; what is smaller is dropped. Returns buf. Negative counts as 0.
 */
const char *duration_format(int64_t ms, char *buf, size_t size);

#endif
