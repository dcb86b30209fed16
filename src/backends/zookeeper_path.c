/* SPDX-License-Identifier: MIT */
#include "zookeeper_path.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "uri.h"

/*
 * Does the server refuse the character that these bytes are? (PathUtils.validatePath():
 * it looks at UTF-16, so all beyond U+FFFF are surrogates to it.)
 */
static bool refused(const unsigned char *c, size_t length)
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
			length = 1;	/* no valid name; not ours to judge */
		if (*name == '/' || *name == '%' || dots ||
		    refused((const unsigned char *)name, length)) {
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

/* ---- SHA-256 (FIPS 180-4) of what fits in one block: a token and a little more ---- */

static uint32_t rotate(uint32_t x, int by)
{
	return x >> by | x << (32 - by);
}

static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

/* a to h of one block of 16 words, added to the initial hash value. */
static void compress(const uint32_t block[static 16], uint32_t hash[static 8])
{
	uint32_t w[64], v[8], one, two;
	int t;

	memcpy(v, hash, sizeof(v));
	for (t = 0; t < 64; t++) {
		w[t] = t < 16 ? block[t] : 0;
		if (t >= 16)
			w[t] = w[t - 16] + w[t - 7] +
			       (rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3) +
			       (rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10);
		one = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
		      ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_constants[t] + w[t];
		two = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
		      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (t = 0; t < 8; t++)
		hash[t] += v[t];
}

void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE])
{
	static const char purpose[] = "dlock node ";
	uint32_t hash[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	uint32_t block[16] = { 0 };
	unsigned char text[56] = { 0 };
	size_t used = sizeof(purpose) - 1, length = strnlen(token, sizeof(text) - used - 1);

	memcpy(text, purpose, used);
	memcpy(text + used, token, length);
	used += length;
	text[used] = 0x80;
	for (size_t i = 0; i < sizeof(text); i++)
		block[i / 4] |= (uint32_t)text[i] << (24 - 8 * (i % 4));
	block[15] = (uint32_t)used * 8;
	compress(block, hash);
	snprintf(uuid, ZK_UUID_SIZE, "%08x-%04x-%04x-%04x-%04x%08x", hash[0], hash[1] >> 16,
		 hash[1] & 0xffff, hash[2] >> 16, hash[2] & 0xffff, hash[3]);
}
