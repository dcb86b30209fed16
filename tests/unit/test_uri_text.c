/* SPDX-License-Identifier: MIT */
/* Tests the text forms of a URI in src/lock/uri.c. */
#include "base/text.h"
#include "lock/uri.h"
#include "unit.h"

static const struct {
	const char *text, *password, *redacted;
} redactions[] = {
	{ "", NULL, "" },
	{ "prod", NULL, "prod" },
	{ "redis://h:6379/0", NULL, "redis://h:6379/0" },
	{ "redis://u@h", NULL, "redis://***@h" },
	{ "redis://u:@h", NULL, "redis://***@h" },
	{ "redis://u:p@h", "p", "redis://u:***@h" },
	{ "redis://:p%40@h:1,i/0?a=b", "p%40", "redis://:***@h:1,i/0?a=b" },
	{ "redis://u:a:b@h", "a:b", "redis://u:***@h" },
	{ "redis://u:p@[::1]:1", "p", "redis://u:***@[::1]:1" },
	{ "redis://[::1]:1/0?f=/a@b", ":1]:1/0?f=/a", "redis://[:***@b" },
	{ "redis://u:p@h?f=/a@b", "p@h?f=/a", "redis://u:***@b" },
	{ "redis://h:1/0?f=/a@b", NULL, "redis://***@b" },
	{ "redis://h?f=/a@b", NULL, "redis://***@b" },
	{ "redis://u:1/2@h", "1/2", "redis://u:***@h" },
	{ "redis://h:1?f=/a@b", NULL, "redis://***@b" },
	{ "redis://u:a/b@h", "a/b", "redis://u:***@h" },
	{ "redis://u:a?b@h", "a?b", "redis://u:***@h" },
	{ "redis://u:a#b@h", "a#b", "redis://u:***@h" },
	{ "redis://u:a@b@h", "a@b", "redis://u:***@h" },
	{ "redis://u:a?b=c@h", "a?b=c", "redis://u:***@h" },
	{ "redis:/u:p@h", "/u:p", "redis:***@h" },
	{ "redis:u:p@h", "u:p", "redis:***@h" },
	{ "u:p@h", "p", "u:***@h" },
	{ "u:p?a=b@h", "p?a=b", "u:***@h" },
	{ "//u:p@h", "p", "//u:***@h" },
	{ "file:///a@c", NULL, "file:///a@c" },
	{ "file:///a:b@c", "b", "file:///a:***@c" },
	{ "file://u:p@h/x", "p", "file://u:***@h/x" },
	{ "redis+unix://:p@/a", "p", "redis+unix://:***@/a" },
	{ "redis://u\n:p\n@h\n", "p\n", "redis://u?:***@h?" },
	{ "user@host", NULL, "user@host" },
	{ "@", NULL, "@" }, { ":", NULL, ":" }, { ":@", NULL, ":@" }, { "://:x@", "x", "://:***@" },
};

static void test_redact(void)
{
	char shown[128], want[128];
	const char *found;
	size_t i, length;

	for (i = 0; i < ARRAY_SIZE(redactions); i++) {
		unit_case("redact %s", redactions[i].text);
		length = 0;
		found = text_find_password(redactions[i].text, &length);
		CHECK((found != NULL) == (redactions[i].password != NULL));
		snprintf(want, sizeof(want), "%.*s", (int)length, found ? found : "");
		CHECK_STR(want, redactions[i].password ? redactions[i].password : "");
		CHECK_STR(text_quote(redactions[i].text, shown, sizeof(shown)),
			  redactions[i].redacted);
	}
	for (length = 4; length < 16; length++) {	/* a cut shows a beginning, no gap */
		unit_case("redact, cut to %zu", length);
		snprintf(want, sizeof(want), "%.*s...", (int)length - 4, "redis://u:***@h");
		CHECK_STR(text_quote("redis://u:secret@h", shown, length), want);
	}
}

static void test_encode(void)
{
	char all[255], text[1024], small[8];
	ptrdiff_t length;
	size_t i, need;

	unit_case("encode");
	CHECK_INT(uri_encode("aZ09-._~/:", 10, text, sizeof(text)), 10);
	CHECK_STR(text, "aZ09-._~/:");
	CHECK_INT(uri_encode("a b%@?#&=+,;\0\xff", 14, text, sizeof(text)), 38);
	CHECK_STR(text, "a%20b%25%40%3F%23%26%3D%2B%2C%3B%00%FF");
	for (i = 0; i < sizeof(all); i++)
		all[i] = (char)(i + 1);
	need = uri_encode(all, sizeof(all), text, sizeof(text));
	CHECK_INT(need, strlen(text));
	CHECK_INT(uri_encode(all, sizeof(all), NULL, 0), need);
	length = uri_decode(text, need);
	CHECK_INT(length, sizeof(all));
	CHECK(memcmp(text, all, sizeof(all)) == 0);

	unit_case("encode, cut");
	CHECK_INT(uri_encode("", 0, small, 1), 0);
	CHECK_STR(small, "");
	CHECK_INT(uri_encode("abcdefgh", 8, small, sizeof(small)), 8);
	CHECK_STR(small, "abcdefg");
	CHECK_INT(uri_encode("abcde f", 7, small, sizeof(small)), 9);
	CHECK_STR(small, "abcde");	/* no half escape, nothing after a gap */
	CHECK_INT(uri_encode("abcd ", 5, small, sizeof(small)), 7);
	CHECK_STR(small, "abcd%20");
}

static void test_decode(void)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "", "" }, { "abc", "abc" }, { "%41%62", "Ab" }, { "%c3%A9", "\xc3\xa9" },
		{ "%2541", "%41" }, { "+", "+" }, { "%", NULL }, { "%4", NULL }, { "a%4", NULL },
		{ "%g0", NULL }, { "%0g", NULL }, { "%%41", NULL }, { "% 1", NULL },
		{ "%-1", NULL },
		{ "%+1", NULL }, { "%0x41", NULL },
	};
	char text[32];
	ptrdiff_t length;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unit_case("decode %s", rows[i].in);
		snprintf(text, sizeof(text), "%s", rows[i].in);
		length = uri_decode(text, strlen(text));
		CHECK_INT(length, rows[i].out ? (ptrdiff_t)strlen(rows[i].out) : -1);
		if (length < 0)
			continue;
		text[length] = '\0';
		CHECK_STR(text, rows[i].out);
	}
	unit_case("decode");
	memcpy(text, "%4", 2);
	CHECK_INT(uri_decode(text, 2), -1);
	memcpy(text, "a%00b", 5);
	CHECK_INT(uri_decode(text, 5), 3);
	CHECK(memcmp(text, "a\0b", 3) == 0);
	memcpy(text, "%41", 3);
	CHECK_INT(uri_decode(text, 2), -1);	/* never past the length */
}

static const struct {
	const char *name;
	uint16_t port;
	size_t size;
	const char *text;
} hosts[] = {
	{ "h", 1, 64, "h:1" },
	{ "db1.example.com", 65535, 64, "db1.example.com:65535" },
	{ "127.0.0.1", 6379, 64, "127.0.0.1:6379" },
	{ "::1", 2181, 64, "[::1]:2181" },
	{ "fe80::1%eth0", 3306, 64, "[fe80::1%eth0]:3306" },
	{ "abcdefgh", 65535, 13, "abcd:65535" },	/* a host is cut, and never its port */
	{ "1:2:3:4:5", 65535, 13, "[1:2:]:65535" },
	{ "abcdefgh", 80, 4, ":80" },
};

static void test_host(void)
{
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		unit_case("host %s", hosts[i].text);
		CHECK_STR(uri_host_text(hosts[i].name, hosts[i].port, text, hosts[i].size),
			  hosts[i].text);
	}
}

int main(void)
{
	test_redact();
	test_encode();
	test_decode();
	test_host();
	return unit_done();
}
