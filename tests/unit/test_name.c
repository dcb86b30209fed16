/* SPDX-License-Identifier: MIT */
/* Tests src/lock/name.c. */

#include "base/error.h"
#include "lock/name.h"
#include "unit.h"

static const char *const good[] = {
	"a", "nightly", "nightly backup", "a/b", "..", "-", "--", "%41", "{x}", "a\"b", "'", "\\",
	"#", "~", "\x7e",
	"\xc2\xa0",			/* U+00A0, the first after C1 */
	"\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
	"\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "Ma\xc3\x9f", "\xe2\x82\xac",
};

static const struct {
	const char *name, *says;
} bad[] = {
	{ "", "empty" },
	{ "\x01", "control" }, { "a\nb", "control character at byte 2" }, { "\x1f", "control" },
	{ "\x7f", "control" }, { "\x1b[31m", "control" },
	{ "\xc2\x80", "control" }, { "\xc2\x9f", "control" }, { "ab\xc2\x85", "at byte 3" },
	{ "\x80", "UTF-8" }, { "\xbf", "UTF-8" }, { "a\xff", "UTF-8 at byte 2" },
	{ "\xfe", "UTF-8" },
	/* overlong */
	{ "\xc0\xaf", "UTF-8" }, { "\xc1\xbf", "UTF-8" }, { "\xe0\x80\xaf", "UTF-8" },
	{ "\xe0\x9f\xbf", "UTF-8" }, { "\xf0\x80\x80\xaf", "UTF-8" },
	{ "\xf0\x8f\xbf\xbf", "UTF-8" },
	/* surrogates, beyond U+10FFFF, five and six bytes */
	{ "\xed\xa0\x80", "UTF-8" }, { "\xed\xbf\xbf", "UTF-8" }, { "\xf4\x90\x80\x80", "UTF-8" },
	{ "\xf5\x80\x80\x80", "UTF-8" }, { "\xf8\x88\x80\x80\x80", "UTF-8" },
	{ "\xfc\x84\x80\x80\x80\x80", "UTF-8" },
	/* cut short */
	{ "\xc3", "UTF-8" }, { "\xe2\x82", "UTF-8" }, { "\xf0\x9f\x98", "UTF-8" },
	{ "\xc3 ", "UTF-8" }, { "\xe2\x82 ", "UTF-8" }, { "\xf0\x9f\x98 ", "UTF-8" },
	{ "\xe2\xe2\x82\xac", "UTF-8 at byte 1" },
};

/* http://www.isthe.com/chongo/src/fnv/test_fnv.c: the 64-bit FNV-1a vectors */
static const struct {
	const char *text;
	uint64_t hash;
} vectors[] = {
	{ "", UINT64_C(0xcbf29ce484222325) },
	{ "a", UINT64_C(0xaf63dc4c8601ec8c) },
	{ "b", UINT64_C(0xaf63df4c8601f1a5) },
	{ "c", UINT64_C(0xaf63de4c8601eff2) },
	{ "d", UINT64_C(0xaf63d94c8601e773) },
	{ "e", UINT64_C(0xaf63d84c8601e5c0) },
	{ "f", UINT64_C(0xaf63db4c8601ead9) },
	{ "fo", UINT64_C(0x08985907b541d342) },
	{ "foo", UINT64_C(0xdcb27518fed9d577) },
	{ "foob", UINT64_C(0xdd120e790c2512af) },
	{ "fooba", UINT64_C(0xcac165afa2fef40a) },
	{ "foobar", UINT64_C(0x85944171f73967e8) },
};

static void test_check(void)
{
	char name[NAME_MAX_BYTES + 3];
	struct error err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("\"%s\"", good[i]);
		CHECK_INT(name_check(good[i], &err), 0);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("bad %zu", i);
		CHECK_INT(name_check(bad[i].name, &err), -1);
		CHECK_INT(err.kind, ERROR_USAGE);
		CHECK_HAS(err.message, bad[i].says);
		CHECK_LACKS(err.message, "\n");
		CHECK_LACKS(err.message, "\x1b");
	}
	unit_case("length");
	memset(name, 'x', sizeof(name));
	name[NAME_MAX_BYTES] = '\0';
	CHECK_INT(name_check(name, &err), 0);
	name[NAME_MAX_BYTES] = 'x';
	name[NAME_MAX_BYTES + 1] = '\0';
	CHECK_INT(name_check(name, &err), -1);
	CHECK_HAS(err.message, "201 bytes, at most 200");
	memcpy(name + NAME_MAX_BYTES - 2, "\xe2\x82\xac", 4);	/* bytes, not characters */
	CHECK_INT(name_check(name, &err), -1);
}

static void test_fnv1a(void)
{
	uint64_t hash;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(vectors); i++) {
		unit_case("FNV-1a of \"%s\"", vectors[i].text);
		CHECK_HEX(fnv1a(FNV1A_INIT, vectors[i].text, strlen(vectors[i].text)),
			  vectors[i].hash);
	}
	unit_case("FNV-1a in parts");
	hash = fnv1a(fnv1a(FNV1A_INIT, "foo", 3), "bar", 3);
	CHECK_HEX(hash, UINT64_C(0x85944171f73967e8));
	CHECK_HEX(fnv1a(FNV1A_INIT, "", 1), UINT64_C(0xaf63bd4c8601b7df));	/* one NUL */
}

static void expect_name(const char *const argv[], const char *base, const char *joined,
			size_t length)
{
	char buf[NAME_DERIVED_SIZE], want[NAME_DERIVED_SIZE];
	struct error err;

	snprintf(want, sizeof(want), "%.183s-%016jx", base,
		 (uintmax_t)fnv1a(FNV1A_INIT, joined, length));
	memset(buf, 'Z', sizeof(buf));
	name_derive(argv, buf);
	CHECK_STR(buf, want);
	CHECK_INT(name_check(buf, &err), 0);
}

/* argv of up to two, against the hash of what they should be joined to */
#define EXPECT(base, joined, ...) \
	expect_name((const char *const[]){ __VA_ARGS__, NULL }, base, joined, sizeof(joined) - 1)

static void test_derive(void)
{
	char buf[NAME_DERIVED_SIZE], long_name[400];

	unit_case("derive");
	EXPECT("foobar", "foobar", "foobar");
	name_derive((const char *const[]){ "foobar", NULL }, buf);
	CHECK_STR(buf, "foobar-85944171f73967e8");
	EXPECT("backup", "/usr/local/bin/backup", "/usr/local/bin/backup");
	EXPECT("a", "a\0b", "a", "b");
	EXPECT("ab", "ab", "ab");
	EXPECT("a", "a\0", "a", "");
	EXPECT("command", "/", "/");
	EXPECT("command", "bin/", "bin/");
	EXPECT("command", "", "");
	EXPECT("command", "a\nb", "a\nb");
	EXPECT("command", "/x/\xff", "/x/\xff");
	EXPECT("\xc3\xa9", "\xff/\xc3\xa9", "\xff/\xc3\xa9");
	EXPECT("x", "x\0\xff\n", "x", "\xff\n");	/* arguments may be anything */

	unit_case("derive, long");
	memset(long_name, 'n', sizeof(long_name));
	long_name[183] = '\0';
	expect_name((const char *const[]){ long_name, NULL }, long_name, long_name, 183);
	long_name[183] = 'n';
	long_name[399] = '\0';
	expect_name((const char *const[]){ long_name, NULL }, long_name, long_name, 399);
	/* a character of three bytes across the cut stays out */
	memcpy(long_name + 181, "\xe2\x82\xac", 3);
	name_derive((const char *const[]){ long_name, NULL }, buf);
	CHECK_INT(strlen(buf), 198);
	CHECK_INT(buf[180], 'n');
	CHECK_INT(buf[181], '-');
	/* and one that ends right there stays in */
	memset(long_name, 'n', 399);
	memcpy(long_name + 180, "\xe2\x82\xac", 3);
	name_derive((const char *const[]){ long_name, NULL }, buf);
	CHECK_INT(strlen(buf), 200);
}

int main(void)
{
	test_check();
	test_fnv1a();
	test_derive();
	return unit_done();
}
