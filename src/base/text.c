/* SPDX-License-Identifier: MIT */
/* Checks and cleans UTF-8, and parses numbers. */
#include "text.h"

#include <string.h>

/* RFC 3629, section 4: the first byte determines which second bytes are allowed. */
size_t text_char(const char *text, size_t length, bool *control)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t need, i;

	if (control)
		*control = false;
	if (length == 0)
		return 0;
	if (s[0] < 0x80) {
		if (control)
			*control = s[0] < 0x20 || s[0] == 0x7f;
		return 1;
	}
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	need = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;	/* below: overlong */
	else if (s[0] == 0xed)
		high = 0x9f;	/* above: surrogates */
	else if (s[0] == 0xf0)
		low = 0x90;	/* below: overlong */
	else if (s[0] == 0xf4)
		high = 0x8f;	/* above: beyond U+10FFFF */
	if (length < need || s[1] < low || s[1] > high)
		return 0;
	for (i = 2; i < need; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (control)
		*control = s[0] == 0xc2 && s[1] < 0xa0;
	return need;
}

bool text_is_clean(const char *text, size_t length)
{
	bool control;
	size_t step;

	for (; length > 0; text += step, length -= step) {
		step = text_char(text, length, &control);
		if (step == 0 || control)
			return false;
	}
	return true;
}

size_t text_clean(const char *text, size_t length, char *buf, size_t size)
{
	size_t used = 0, step, wanted;
	bool control;

	for (; length > 0; text += step, length -= step) {
		step = text_char(text, length, &control);
		control |= step == 0;
		step = step ? step : 1;
		wanted = control ? 1 : step;
		if (used + wanted >= size)
			break;
		memmove(buf + used, control ? "?" : text, wanted);
		used += wanted;
	}
	buf[used] = '\0';
	return used;
}

size_t text_characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

const char *text_quote(const char *text, size_t length,
		       char buf[static TEXT_QUOTE_SIZE])
{
	static const char dots[] = "...";
	size_t used = text_clean(text, length, buf, TEXT_QUOTE_SIZE - strlen(dots));

	/* A C1 character of two bytes becomes one '?', so a text may be cut that would fit. */
	if (length > TEXT_QUOTE_SIZE - sizeof(dots))
		memcpy(buf + used, dots, sizeof(dots));
	return buf;
}

bool text_number(const char *text, size_t length, int64_t *number)
{
	int64_t sum = 0;

	for (size_t i = 0; i < length; i++) {
		int digit = text[i] - '0';

		if (digit < 0 || digit > 9 || sum > (INT64_MAX - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return true;
}

char *text_digits(char *buf, uint64_t number)
{
	char reversed[TEXT_DIGITS_SIZE];
	size_t count = 0;

	do
		reversed[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		*buf++ = reversed[--count];
	*buf = '\0';
	return buf;
}
