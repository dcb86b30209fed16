/* SPDX-License-Identifier: MIT */
/* Encoding names as parts of ZooKeeper's paths: path.h. */
#include "path.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "lock/uri.h"

/*
 * Does the server refuse the character that these bytes encode? Its PathUtils.validatePath()
 * looks at UTF-16, where all characters beyond U+FFFF are surrogates.
 */
static bool is_refused(const unsigned char *c, size_t length)
{
	unsigned code;

	if (length != 3)
		return length == 4;
	code = (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
	return (code >= 0xe000 && code <= 0xf8ff) || code >= 0xfff0;
}

static char *put_escaped(char *out, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		out += sprintf(out, "%%%02X", (unsigned char)bytes[i]);
	return out;
}

void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE])
{
	bool dots = !strcmp(name, ".") || !strcmp(name, "..");
	size_t left = strlen(name), length;
	char *out = component;

	for (; left; name += length, left -= length) {
		length = text_char(name, left, NULL);
		if (!length)
			length = 1;	/* no valid UTF-8: bytes stand for themselves */
		if (*name == '/' || *name == '%' || dots ||
		    is_refused((const unsigned char *)name, length)) {
			out = put_escaped(out, name, length);
		} else {
			memcpy(out, name, length);
			out += length;
		}
	}
	*out = '\0';
}

bool zk_path_decode(const char *component, char *name, size_t size)
{
	char again[ZK_COMPONENT_SIZE];
	size_t length = strlen(component);
	ptrdiff_t decoded;

	if (length >= size || length >= sizeof(again))
		return false;
	memcpy(name, component, length + 1);
	decoded = uri_decode(name, length);
	if (decoded <= 0 || memchr(name, '\0', (size_t)decoded))
		return false;
	name[decoded] = '\0';
	if ((size_t)decoded > (ZK_COMPONENT_SIZE - 1) / 3)
		return false;
	zk_path_encode(name, again);
	return !strcmp(again, component);
}

void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	char text[96], *end = uuid;
	int length = snprintf(text, sizeof(text), "dlock node %.64s", token);

	sha256(text, (size_t)length, digest);
	for (int i = 0; i < 16; i++)
		end += sprintf(end, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			       digest[i]);
}
