/* SPDX-License-Identifier: MIT */
/* Parses and formats durations and times of day. */
#include "duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "error.h"
#include "text.h"

#define DIGITS		"0123456789"

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

/* Return the unit of length bytes at text in ms; 0: unknown. */
static int64_t find_unit(const char *text, size_t length)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == length && !memcmp(units[i].name, text, length))
			return units[i].ms;
	return length ? 0 : MS_SECOND;
}

/* Return the decimal number times unit_ms, rounded up; -1: above the limit. Exact. */
static int64_t scale_number(const char *number, int64_t unit_ms)
{
	int64_t whole = 0, part = 0;
	const char *s = number, *point;

	for (; text_is_digit(*s); s++) {
		whole = whole * 10 + (*s - '0');
		if (whole > DURATION_MAX_MS / unit_ms)
			return -1;
	}
	/* From the last digit to the first, so that any length stays small. */
	point = s;
	for (s = *point == '.' ? point + strspn(point + 1, DIGITS) : point; s > point; s--)
		part = (part + (*s - '0') * unit_ms + 9) / 10;
	return whole * unit_ms + part;
}

static int refuse_duration(struct error *err, const char *text, const char *why)
{
	char quoted[TEXT_QUOTE_SIZE];

	return error_set(err, ERROR_USAGE, 0, "bad duration '%s': %s",
			 text_quote(text, quoted, sizeof(quoted)), why);
}

int duration_parse(const char *text, int64_t *ms, struct error *err)
{
	int64_t total = 0, unit_ms, part;
	const char *s = text, *number;
	size_t length;

	do {
		number = s;
		s += strspn(s, DIGITS);
		if (*s == '.')
			s += 1 + strspn(s + 1, DIGITS);
		/* All letters, so that "min" is not read as "m". */
		length = strcspn(s, DIGITS ".");
		unit_ms = find_unit(s, length);
		if (s == number || s[-1] == '.' || !unit_ms || (!length && (*s || number != text)))
			return refuse_duration(err, text, "write a number with an optional unit "
					       "(ms, s, m, h, d), as in 90, 1.5s or 1h30m");
		s += length;
		part = scale_number(number, unit_ms);
		total = part < 0 ? DURATION_MAX_MS + 1 : total + part;
		if (total > DURATION_MAX_MS)
			return refuse_duration(err, text, "too long, at most 10 years (3650d)");
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

int time_of_day_next(const char *text, int64_t now_ms, int64_t *at_ms, struct error *err)
{
	const time_t now = clock_seconds(now_ms);
	char quoted[TEXT_QUOTE_SIZE];
	struct tm time = { 0 }, day;
	const char *end;

	localtime_r(&now, &time);
	end = strptime(text, "%H:%M", &time);
	/* strptime() accepts spaces, and a minute of one digit. */
	if (!end || *end || end[-3] != ':' || strspn(text, DIGITS ":") != strlen(text))
		return error_set(err, ERROR_USAGE, 0, "bad time of day '%s': write hours and "
				 "minutes, as in 6:00 or 22:30",
				 text_quote(text, quoted, sizeof(quoted)));
	time.tm_sec = 0;
	time.tm_isdst = -1;
	*at_ms = 0;
	for (int days = 0; *at_ms <= now_ms && days < 4; days++) {
		day = time;
		day.tm_mday += days;
		*at_ms = (int64_t)mktime(&day) * 1000;
	}
	return 0;
}

void time_of_day_show(int64_t at_ms, int64_t now_ms, char buf[static TIME_OF_DAY_SIZE])
{
	const time_t at = clock_seconds(at_ms), now = clock_seconds(now_ms);
	struct tm shown = { 0 }, today = { 0 };
	bool same;

	localtime_r(&at, &shown);
	localtime_r(&now, &today);
	same = shown.tm_year == today.tm_year && shown.tm_yday == today.tm_yday;
	strftime(buf, TIME_OF_DAY_SIZE, same ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &shown);
}
