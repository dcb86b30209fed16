/* SPDX-License-Identifier: MIT */
/* Percent-encoding, and a host as it stands in a URI. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "uri.h"

static const char hex_digits[] = "0123456789ABCDEF";

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int uri_unescape(const char *s, const char *end)
{
	int high, low;

	if (end - s < 3)
		return -1;
	high = hex_value(s[1]);
	low = hex_value(s[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool is_plain(char c)
{
	return text_is_letter(c) || text_is_digit(c) || (c && strchr("-._~/:", c));
}

size_t uri_encode(const char *text, size_t length, char *buf, size_t size)
{
	size_t need = 0, used = 0, i, step;

	for (i = 0; i < length; i++, need += step) {
		unsigned char c = (unsigned char)text[i];

		step = is_plain(text[i]) ? 1 : 3;
		if (used < need || need + step >= size)
			continue;	/* full: no part of an escape, and nothing after a gap */
		if (step == 1) {
			buf[used] = text[i];
		} else {
			buf[used] = '%';
			buf[used + 1] = hex_digits[c >> 4];
			buf[used + 2] = hex_digits[c & 15];
		}
		used += step;
	}
	if (size > 0)
		buf[used] = '\0';
	return need;
}

ptrdiff_t uri_decode(char *text, size_t length)
{
	const char *in = text, *end = text + length;
	char *out = text;
	int c;

	while (in < end) {
		if (*in != '%') {
			*out++ = *in++;
			continue;
		}
		c = uri_unescape(in, end);
		if (c < 0)
			return -1;
		*out++ = (char)c;
		in += 3;
	}
	return out - text;
}

const char *uri_host_text(const char *name, uint16_t port, char *buf, size_t size)
{
	const size_t rest = sizeof("[]:65535");
	const int room = size > rest ? (int)(size - rest) : 0;

	snprintf(buf, size, strchr(name, ':') ? "[%.*s]:%u" : "%.*s:%u", room, name,
		 (unsigned)port);
	return buf;
}
