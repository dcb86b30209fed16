/* SPDX-License-Identifier: MIT */
/* The parts of uri.h that need no parsed URI. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "uri.h"
#include "uri_layout.h"

static const char hex_digits[] = "0123456789ABCDEF";

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
	if (is_digit(c))
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
	/* strchr() would find the NUL, too. */
	return is_alpha(c) || is_digit(c) || (c && strchr("-._~/:", c));
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

/* Are all ':' outside brackets, from s to end, followed by digits alone? */
static bool ports_are_numbers(const char *s, const char *end)
{
	bool bracket = false;

	while (s < end) {
		char c = *s++;

		bracket = c == '[' || (bracket && c != ']');
		if (c != ':' || bracket)
			continue;
		if (s == end || !is_digit(*s))
			return false;
		while (s < end && is_digit(*s))
			s++;
		if (s < end && *s != ',')
			return false;
	}
	return true;
}

static bool is_path_scheme(const char *scheme, size_t length)
{
	return (length == 4 && strncasecmp(scheme, "file", 4) == 0) ||
	       (length > 5 && strncasecmp(scheme + length - 5, "+unix", 5) == 0);
}

void uri_layout(struct uri_layout *layout, const char *text)
{
	const char *s = text, *end = text + strlen(text), *hosts, *query;

	while (is_alpha(*s) || is_digit(*s) || *s == '+' || *s == '-' || *s == '.')
		s++;
	layout->scheme_end = s;
	layout->has_scheme = is_alpha(*text) && *s == ':';
	layout->rest = s += *s == ':';
	layout->has_authority = s[0] == '/' && s[1] == '/';
	s += layout->has_authority ? 2 : 0;
	layout->authority = s;
	s += layout->has_authority ? strcspn(s, "/?#") : 0;
	layout->authority_end = s;
	layout->end = end;

	query = memchr(s, '?', (size_t)(end - s));
	hosts = memrchr(layout->authority, '@', (size_t)(s - layout->authority));
	layout->at_end = end;
	if (query && (*layout->rest == '/' || *layout->rest == '?') &&
	    ports_are_numbers(hosts ? hosts : layout->authority, s))
		layout->at_end = query;
	/* In the path of such a scheme an '@' has no meaning. */
	if (layout->authority == layout->authority_end && *layout->rest == '/' &&
	    is_path_scheme(text, (size_t)(layout->scheme_end - text)))
		layout->at_end = layout->rest;
}

const char *uri_find_password(const char *text, size_t *length)
{
	struct uri_layout layout;
	const char *from, *at, *colon;

	uri_layout(&layout, text);
	at = memrchr(layout.rest, '@', (size_t)(layout.at_end - layout.rest));
	if (!at)
		return NULL;
	from = layout.authority;
	if (*layout.rest != '/' && *layout.scheme_end == ':')
		from = layout.scheme_end;	/* "user:password@host" */
	if (from >= at)
		return NULL;
	colon = memchr(from, ':', (size_t)(at - from));
	if (!colon || colon + 1 == at)
		return NULL;
	*length = (size_t)(at - colon - 1);
	return colon + 1;
}

const char *uri_redact(const char *text, char *buf, size_t size)
{
	static const char stars[] = "***";
	size_t length, used;
	const char *password = uri_find_password(text, &length);

	if (!password) {
		text_clean(text, strlen(text), buf, size);
		return buf;
	}
	used = text_clean(text, (size_t)(password - text), buf, size);
	used += text_clean(stars, strlen(stars), buf + used, size - used);
	if (used + 1 < size)	/* otherwise the text is cut here */
		text_clean(password + length, strlen(password + length), buf + used,
			   size - used);
	return buf;
}
