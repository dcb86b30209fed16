/* SPDX-License-Identifier: MIT */
/* Tests times of day in src/base/duration.c. */
#include <stdlib.h>
#include <time.h>

#include "base/duration.h"
#include "base/error.h"
#include "unit.h"

#define BERLIN	"CET-1CEST,M3.5.0,M10.5.0/3"

/* Times are ms since the epoch, as date(1) prints them: TZ=Europe/Berlin date -d TIME +%s000. */
static const struct {
	const char *what, *zone, *text;
	int64_t now_ms, at_ms;
} rows[] = {
	{ "later today", "UTC0", "06:00", INT64_C(1795305600000), INT64_C(1795327200000) },
	{ "one digit", "UTC0", "6:00", INT64_C(1795305600000), INT64_C(1795327200000) },
	{ "past, so tomorrow", "UTC0", "06:00", INT64_C(1795327260000), INT64_C(1795413600000) },
	{ "this moment is past", "UTC0", "06:00", INT64_C(1795327200000), INT64_C(1795413600000) },
	{ "in a moment", "UTC0", "06:00", INT64_C(1795327199999), INT64_C(1795327200000) },
	{ "midnight", "UTC0", "0:00", INT64_C(1795305600000), INT64_C(1795392000000) },
	{ "the last minute", "UTC0", "23:59", INT64_C(1795305600000), INT64_C(1795391940000) },
	{ "a zone with seconds", "XXX-01:00:17", "01:01", INT64_C(1795305600000),
	  INT64_C(1795305643000) },
	/* 2026-03-29 at 2:00 the clock in Berlin goes on to 3:00. */
	{ "a night of 23 hours", BERLIN, "06:00", INT64_C(1774735200000), INT64_C(1774756800000) },
	{ "not skipped", BERLIN, "03:00", INT64_C(1774735200000), INT64_C(1774746000000) },
	/* 2026-10-25 at 3:00 it goes back to 2:00. */
	{ "a night of 25 hours", BERLIN, "06:00", INT64_C(1792879200000), INT64_C(1792904400000) },
	{ "after both", BERLIN, "02:30", INT64_C(1792891860000), INT64_C(1792978200000) },
};

static const char *const bad[] = {
	"", ":", "6", "600", "6:0", "6:", ":30", "24:00", "6:60", "006:00", "6:000", "6:00:00",
	" 6:00", "6:00 ", "-6:00", "+6:00", "6.00", "6:00pm", "six", "6:-1", "6h",
};

static void test_show(void)
{
	char text[TIME_OF_DAY_SIZE];

	unit_case("shown");
	setenv("TZ", BERLIN, 1);
	tzset();
	/* 2026-11-23 at 3:10 in Berlin, seen a moment, three hours and four hours before. */
	time_of_day_show(INT64_C(1795399800999), INT64_C(1795399800998), text);
	CHECK_STR(text, "03:10:00");
	time_of_day_show(INT64_C(1795399800000), INT64_C(1795389000000), text);
	CHECK_STR(text, "03:10:00");
	time_of_day_show(INT64_C(1795399800000), INT64_C(1795385400000), text);
	CHECK_STR(text, "2026-11-23 03:10:00");
	/* A year later it is the same day of the year. */
	time_of_day_show(INT64_C(1795399800000) + INT64_C(31536000000), INT64_C(1795399800000),
			 text);
	CHECK_STR(text, "2027-11-23 03:10:00");
	time_of_day_show(INT64_MAX, 0, text);
	CHECK_HAS(text, sizeof(time_t) < 8 ? "2038-01-19 " : "292278994-08-17 ");
}

int main(void)
{
	int64_t at_ms;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = { 0 };

		unit_case("%s, %s", rows[i].what, rows[i].text);
		setenv("TZ", rows[i].zone, 1);
		tzset();
		CHECK_INT(time_of_day_next(rows[i].text, rows[i].now_ms, &at_ms, &err), 0);
		CHECK_INT(at_ms, rows[i].at_ms);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = { 0 };

		unit_case("\"%s\"", bad[i]);
		CHECK_INT(time_of_day_next(bad[i], 0, &at_ms, &err), -1);
		CHECK_INT(err.kind, ERROR_USAGE);
	}
	test_show();
	return unit_done();
}
