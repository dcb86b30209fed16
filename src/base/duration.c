/* SPDX-License-Identifier: MIT */
#include "duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "text.h"

#define MS_SECOND	INT64_C(1000)
#define MS_MINUTE	(60 * MS_SECOND)
#define MS_HOUR		(60 * MS_MINUTE)
#define MS_DAY		(24 * MS_HOUR)

static const struct {
	char name[3];
	int64_t ms;
} units[] = {
	{ "ms", 1 },
	{ "s", MS_SECOND },
	{ "m", MS_MINUTE },
	{ "h", MS_HOUR },
	{ "d", MS_DAY },
};

/* One number of a duration, not yet scaled by its unit. */
struct number {
	const char *whole, *whole_end;
	const char *fraction, *fraction_end;
};

/* Digits with an optional point and digits after it; ".5" counts, "5." does not. */
static bool scan_number(const char **text, struct number *number)
{
	const char *s = *text;

	number->whole = s;
	while (text_is_digit(*s))
		s++;
	number->whole_end = number->fraction = number->fraction_end = s;
	if (*s == '.') {
		number->fraction = ++s;
		while (text_is_digit(*s))
			s++;
		number->fraction_end = s;
		if (s == number->fraction)
			return false;
	}
	*text = s;
	return s > number->whole;
}

/* The unit at text in ms, its length in *length; 0 when unknown. */
static int64_t scan_unit(const char *text, size_t *length)
{
	size_t i;

	/* All the letters: "min" is no "m" with "in" left over. */
	for (*length = 0; text[*length] && !text_is_digit(text[*length]) &&
	     text[*length] != '.'; )
		++*length;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == *length &&
		    memcmp(units[i].name, text, *length) == 0)
			return units[i].ms;
	return 0;
}

/* The number times unit_ms, rounded up, or -1 when beyond the limit. Exact. */
static int64_t scale(const struct number *number, int64_t unit_ms)
{
	int64_t whole = 0, part = 0;
	bool inexact = false;
	const char *s;

	for (s = number->whole; s < number->whole_end; s++) {
		int digit = *s - '0';

		if (whole > (DURATION_MAX_MS / unit_ms - digit) / 10)
			return -1;
		whole = whole * 10 + digit;
	}
	/* From the last digit to the first, so that any length stays small. */
	for (s = number->fraction_end; s > number->fraction; s--) {
		part += (s[-1] - '0') * unit_ms;
		inexact |= part % 10 != 0;
		part /= 10;
	}
	return whole * unit_ms + part + inexact;
}

static int fail(struct error *err, const char *text, const char *why)
{
	char quoted[TEXT_QUOTE_SIZE];

	return error_set(err, ERROR_USAGE, 0, "bad duration '%s': %s",
			 text_quote(text, strlen(text), quoted), why);
}

static const char wanted[] =
	"write a number with an optional unit (ms, s, m, h, d), as in 90, 1.5s or 1h30m";

int duration_parse(const char *text, int64_t *ms, struct error *err)
{
	const char *s = text;
	struct number number;
	int64_t total = 0, unit_ms, part;
	size_t length;

	do {
		if (!scan_number(&s, &number))
			return fail(err, text, wanted);
		unit_ms = scan_unit(s, &length);
		if (length == 0 && !*s && number.whole == text)
			unit_ms = MS_SECOND;
		if (unit_ms == 0)
			return fail(err, text, length ? wanted :
				    "each number of a sum needs a unit (ms, s, m, h, d)");
		s += length;
		part = scale(&number, unit_ms);
		if (part < 0 || part > DURATION_MAX_MS - total)
			return fail(err, text, "too long, at most 10 years (3650d)");
		total += part;
	} while (*s);
	*ms = total;
	return 0;
}

const char *duration_format(int64_t ms, char *buf, size_t size)
{
	if (ms <= 0)
		snprintf(buf, size, "0s");
	else if (ms < 100)
		snprintf(buf, size, "%" PRId64 "ms", ms);
	else if (ms < 10 * MS_SECOND && ms % MS_SECOND >= 100)
		snprintf(buf, size, "%" PRId64 ".%" PRId64 "s", ms / MS_SECOND,
			 ms % MS_SECOND / 100);
	else if (ms < MS_MINUTE)
		snprintf(buf, size, "%" PRId64 "s", ms / MS_SECOND);
	else if (ms < MS_HOUR)
		snprintf(buf, size, "%" PRId64 "m%02" PRId64 "s", ms / MS_MINUTE,
			 ms % MS_MINUTE / MS_SECOND);
	else if (ms < MS_DAY)
		snprintf(buf, size, "%" PRId64 "h%02" PRId64 "m", ms / MS_HOUR,
			 ms % MS_HOUR / MS_MINUTE);
	else
		snprintf(buf, size, "%" PRId64 "d%" PRId64 "h", ms / MS_DAY,
			 ms % MS_DAY / MS_HOUR);
	return buf;
}
