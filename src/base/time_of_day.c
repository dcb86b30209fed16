/* SPDX-License-Identifier: MIT */
#include "time_of_day.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "error.h"
#include "text.h"

#define MINUTES_OF_DAY (24 * 60)

/*
 * How many minutes to look ahead. A day of 24 hours is not enough where the clock is put back: by
 * an hour for daylight saving, by up to a day for a move over the date line.
 */
#define MINUTES_AHEAD (2 * MINUTES_OF_DAY + 60)

/* One or two digits before the colon, two behind it. The minute of the day, or -1. */
static int parse(const char *text)
{
	static const char digits[] = "0123456789";
	const size_t hours = strspn(text, digits);
	const char *minutes = text + hours + 1;
	int hour = 0, minute;

	if (hours < 1 || hours > 2 || text[hours] != ':' || strspn(minutes, digits) != 2 ||
	    minutes[2])
		return -1;
	for (size_t i = 0; i < hours; i++)
		hour = hour * 10 + (text[i] - '0');
	minute = (minutes[0] - '0') * 10 + (minutes[1] - '0');
	return hour > 23 || minute > 59 ? -1 : hour * 60 + minute;
}

/* What the clock shows at a time, in minutes; the hours of its days count from a multiple of 24. */
static int64_t shown_at(time_t at)
{
	struct tm local = { 0 };

	localtime_r(&at, &local);
	return ((int64_t)at + local.tm_gmtoff) / 60;
}

/* Does the clock, which goes on from one minute to another one, show or skip this one? */
static bool comes(int64_t from, int64_t to, int minute)
{
	if (to % MINUTES_OF_DAY == minute)
		return true;
	for (from++; from < to; from++)
		if (from % MINUTES_OF_DAY == minute)
			return true;
	return false;
}

/* Looks at each minute, because no arithmetic knows what a time zone does. */
static time_t next(int minute, time_t now)
{
	struct tm local = { 0 };
	int64_t from = shown_at(now), to;
	time_t at;

	localtime_r(&now, &local);
	at = now - local.tm_sec;
	for (int i = 0; i < MINUTES_AHEAD; i++) {
		at += 60;
		to = shown_at(at);
		if (comes(from, to, minute))
			break;
		from = to;
	}
	return at;
}

int time_of_day_next(const char *text, int64_t now_ms, int64_t *at_ms, struct error *err)
{
	const int minute = parse(text);
	char quoted[TEXT_QUOTE_SIZE];

	if (minute < 0)
		return error_set(err, ERROR_USAGE, 0, "bad time of day '%s': write hours and "
				 "minutes, as in 6:00 or 22:30",
				 text_quote(text, strlen(text), quoted));
	*at_ms = (int64_t)next(minute, clock_seconds(now_ms)) * 1000;
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
