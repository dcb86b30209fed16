/* SPDX-License-Identifier: MIT */
/* Tests src/base/text.c. */
#include "base/text.h"
#include "unit.h"

static const struct {
	const char *in, *out;
} cleaned[] = {
	{ "", "" }, { "plain", "plain" }, { "a\tb\n", "a?b?" }, { "\x1b[2J", "?[2J" },
	{ "\x7f", "?" }, { "\xc2\x9b""31m", "?31m" }, { "\xff\xfe", "??" },
	{ "\xe2\x82", "??" }, { "\xe2\x82\xac", "\xe2\x82\xac" }, { "\xe2\x82""a", "??a" },
	{ "\xed\xa0\x80", "???" }, { "\xc0\x80", "??" }, { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
};

static void test_char(void)
{
	bool control;

	unit_case("text_char");
	CHECK_INT(text_char("", 0, &control), 0);
	CHECK_INT(text_char("\0", 1, &control), 1);
	CHECK(control);
	CHECK_INT(text_char(" ", 1, &control), 1);
	CHECK(!control);
	CHECK_INT(text_char("\xe2\x82\xac", 3, NULL), 3);
	CHECK_INT(text_char("\xe2\x82\xac", 2, NULL), 0);	/* never past the length */
	CHECK_INT(text_char("\xf0\x9f\x98\x80", 3, NULL), 0);
	CHECK_INT(text_char("\xf0\x9f\x98\x80", 9, NULL), 4);
	CHECK(text_is_clean("", 0));
	CHECK(!text_is_clean("a\0b", 3));
}

static void test_clean(void)
{
	char buf[64];
	size_t i, size;

	for (i = 0; i < ARRAY_SIZE(cleaned); i++) {
		unit_case("text_clean %zu", i);
		CHECK_INT(text_clean(cleaned[i].in, strlen(cleaned[i].in), buf, sizeof(buf)),
			  strlen(cleaned[i].out));
		CHECK_STR(buf, cleaned[i].out);
		strcpy(buf, cleaned[i].in);
		text_clean(buf, strlen(buf), buf, sizeof(buf));
		CHECK_STR(buf, cleaned[i].out);
	}
	unit_case("text_clean, cut");
	for (size = 1; size < 8; size++) {	/* two bytes, then three, then one */
		static const size_t want[] = { 0, 0, 2, 2, 2, 5, 6 };

		CHECK_INT(text_clean("\xc3\xa9\xe2\x82\xac!", 6, buf, size), want[size - 1]);
		CHECK_INT(strlen(buf), want[size - 1]);
	}
}

static void test_quote(void)
{
	char in[200], buf[TEXT_QUOTE_SIZE + 1];
	size_t length;

	memset(in, 'q', sizeof(in));
	buf[TEXT_QUOTE_SIZE] = '!';
	for (length = 64; length < 80; length++) {
		unit_case("text_quote of %zu bytes", length);
		in[length] = '\0';
		text_quote(in, buf, TEXT_QUOTE_SIZE);
		in[length] = 'q';
		CHECK_INT(strlen(buf), length <= 68 ? length : 71);
		CHECK((strcmp(buf + strlen(buf) - 3, "...") == 0) == (length > 68));
		CHECK_INT(buf[TEXT_QUOTE_SIZE], '!');
	}
}

static void test_digits(void)
{
	static const struct {
		uint64_t number;
		const char *text;
	} cases[] = {
		{ 0, "0" }, { 9, "9" }, { 10, "10" }, { 1234567890, "1234567890" },
		{ UINT64_MAX, "18446744073709551615" },
	};
	char buf[TEXT_DIGITS_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unit_case("text_digits %s", cases[i].text);
		CHECK(text_digits(buf, cases[i].number) == buf + strlen(cases[i].text));
		CHECK_STR(buf, cases[i].text);
	}
}

static void test_number(void)
{
	static const struct {
		const char *text;
		bool valid;
		int64_t number;
	} cases[] = {
		{ "", true, 0 }, { "0", true, 0 }, { "42", true, 42 }, { "007", true, 7 },
		{ "9223372036854775807", true, INT64_MAX }, { "9223372036854775808", false, -1 },
		{ "-1", false, -1 }, { " 1", false, -1 }, { "1x", false, -1 },
	};
	int64_t number;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		number = -1;
		unit_case("text_number '%s'", cases[i].text);
		CHECK(text_number(cases[i].text, strlen(cases[i].text), &number) ==
		      cases[i].valid);
		CHECK_INT(number, cases[i].number);
	}
}

int main(void)
{
	test_digits();
	test_number();
	test_char();
	test_clean();
	test_quote();
	return unit_done();
}
