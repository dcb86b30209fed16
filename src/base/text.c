/* SPDX-License-Identifier: MIT */
/* Checks, cleans and quotes UTF-8, and parses numbers. */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

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

const char *text_find_password(const char *text, size_t *length)
{
	const char *slashes = strstr(text, "://"), *start = slashes ? slashes + 3 : text;
	const char *colon = strchr(start, ':'), *end = text + strlen(text), *at;

	if (!colon)
		return NULL;
	/* Behind a port, an '@' in the query is one in a parameter. */
	if (strchr("/?,", colon[1 + strspn(colon + 1, "0123456789")]))
		end = colon + strcspn(colon, "?");
	at = memrchr(colon, '@', (size_t)(end - colon));
	if (!at || at == colon + 1)
		return NULL;
	*length = (size_t)(at - colon - 1);
	return colon + 1;
}

static const char *find_secret(const char *text, size_t *length)
{
	const char *secret = text_find_password(text, length), *user = strstr(text, "://"), *at;

	/* A third slash begins the path of a URI without hosts. */
	if (secret || !user || user[3] == '/')
		return secret;
	user += 3;
	at = strrchr(user, '@');
	*length = at ? (size_t)(at - user) : 0;
	return *length ? user : NULL;
}

const char *text_quote(const char *text, char *buf, size_t size)
{
	static const char dots[] = "...";
	const size_t room = size - strlen(dots);
	size_t length, used;
	const char *secret = find_secret(text, &length);
	char *shown = secret ? memory_format("%.*s***%s", (int)(secret - text), text,
					     secret + length)
			     : memory_copy(text);

	used = text_clean(shown, strlen(shown), buf, room);
	/* A C1 character of two bytes becomes one '?', so a text may be cut that would fit. */
	if (strlen(shown) >= room)
		memcpy(buf + used, dots, sizeof(dots));
	free(shown);
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
	return buf + snprintf(buf, TEXT_DIGITS_SIZE, "%" PRIu64, number);
}
