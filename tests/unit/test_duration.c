/* SPDX-License-Identifier: MIT */
/* Tests durations in src/base/duration.c. */
#include "base/duration.h"
#include "base/error.h"
#include "unit.h"

#define DAY INT64_C(86400000)
/* What the manual promises, written out: 10 years. */
#define LIMIT INT64_C(315360000000)

static const struct {
	const char *text;
	int64_t ms;
} good[] = {
	{ "0", 0 }, { "0s", 0 }, { "0ms", 0 }, { "0.0", 0 }, { "000", 0 },
	{ "1", 1000 }, { "30", 30000 }, { "007", 7000 },
	{ "1.5", 1500 }, { ".5", 500 }, { "0.5s", 500 }, { ".5h", 1800000 },
	{ "250ms", 250 }, { "1s", 1000 }, { "1m", 60000 }, { "1h", 3600000 }, { "2d", 2 * DAY },
	{ "1h30m", 5400000 }, { "30m1h", 5400000 }, { "1m1m", 120000 },
	{ "1d2h3m4s5ms", DAY + 7384005 },
	{ "1.5h.5m", 5430000 },
	/* rounded up, never to 0, and exactly, however long the fraction */
	{ "0.1ms", 1 }, { "1.0ms", 1 }, { "1.0001ms", 2 }, { "0.0001", 1 }, { "0.001", 1 },
	{ "0.0010000", 1 }, { "0.0010001", 2 }, { "0.29s", 290 }, { "1.005s", 1005 },
	{ "0.00000000000000000000000000000000000000001d", 1 },
	{ "1.10000000000000000000000000000000000000000s", 1100 },
	{ "0.99999999999999999999999999999999999999999s", 1000 },
	{ "0.000000011574d", 1 },	/* 0.9999936 ms */
	{ "0.000000011575d", 2 },	/* 1.00008 ms */
	{ "315360000000ms", LIMIT },
	{ "315360000s", LIMIT },
	{ "315359999.9999s", LIMIT },
	{ "315359999s1000ms", LIMIT },
	{ "87600h", LIMIT },
	{ "3650d", LIMIT },
	{ "3649d24h", LIMIT },
	{ "00000000000000000000000000000000000000001", 1000 },
};

static const char *const bad[] = {
	"", " ", "s", "ms", ".", ".s", "5.", "5.s", "1..5s", "1.2.3", "-1", "+1", "1 s", " 1",
	"1 ", "1s ", "1S", "1M", "1w", "1y", "1us", "1min", "1sec", "1mss", "1msm", "1e3", "0x10",
	"1h30", "1m5", "1,5s", "inf", "nan", "1h-5m", "1h 5m", "1\ns", "\xc2\xb5s", "1\xc2\xb5s",
	"1\xff",
};

static const char *const too_long[] = {
	"315360000001ms", "315360000000.1ms", "315360000.001s", "315360000s1ms", "3650.0000001d",
	"3650d1ms", "3651d", "87601h", "26687997792d", "9223372036854775807",
	"9223372036854775808", "18446744073712552ms", "18446744073709551616ms",
	"18446744073709551617ms", "99999999999999999999999999999999d",
};

static const struct {
	int64_t ms;
	const char *text;
} formats[] = {
	{ INT64_MIN, "0s" }, { -1, "0s" }, { 0, "0s" }, { 1, "1ms" }, { 99, "99ms" },
	{ 100, "0.1s" }, { 350, "0.3s" }, { 999, "0.9s" }, { 1000, "1s" }, { 1099, "1s" },
	{ 1100, "1.1s" }, { 9999, "9.9s" }, { 10000, "10s" }, { 12345, "12s" },
	{ 59999, "59s" }, { 60000, "1m00s" }, { 192000, "3m12s" }, { 3599999, "59m59s" },
	{ 3600000, "1h00m" }, { 7500000, "2h05m" }, { DAY - 1, "23h59m" }, { DAY, "1d0h" },
	{ 3 * DAY + 14400000, "3d4h" }, { 400 * DAY, "400d0h" },
	{ INT64_MAX, "106751991167d7h" },
};

static void test_parse(void)
{
	struct error err;
	int64_t ms;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("\"%s\"", good[i].text);
		ms = -1;
		CHECK_INT(duration_parse(good[i].text, &ms, &err), 0);
		CHECK_INT(ms, good[i].ms);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("\"%s\"", bad[i]);
		memset(&err, 0, sizeof(err));
		ms = -7;
		CHECK_INT(duration_parse(bad[i], &ms, &err), -1);
		CHECK_INT(ms, -7);
		CHECK_INT(err.kind, ERROR_USAGE);
		CHECK_HAS(err.message, "bad duration '");
		CHECK_LACKS(err.message, "\n");
	}
	for (i = 0; i < ARRAY_SIZE(too_long); i++) {
		unit_case("\"%s\"", too_long[i]);
		CHECK_INT(duration_parse(too_long[i], &ms, &err), -1);
		CHECK_HAS(err.message, too_long[i]);
		CHECK_HAS(err.message, "too long, at most 10 years");
	}
}

static void test_format(void)
{
	char buf[DURATION_TEXT_SIZE], again[DURATION_TEXT_SIZE], tiny[4];
	struct error err;
	int64_t ms;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		unit_case("%jd ms", (intmax_t)formats[i].ms);
		CHECK_STR(duration_format(formats[i].ms, buf, sizeof(buf)), formats[i].text);
		if (formats[i].ms > LIMIT)
			continue;
		CHECK_INT(duration_parse(buf, &ms, &err), 0);
		CHECK(ms <= (formats[i].ms > 0 ? formats[i].ms : 0));
		CHECK_STR(duration_format(ms, again, sizeof(again)), formats[i].text);
	}
	unit_case("small buffer");
	CHECK_STR(duration_format(192000, tiny, sizeof(tiny)), "3m1");
}

int main(void)
{
	test_parse();
	test_format();
	return unit_done();
}
