/* SPDX-License-Identifier: MIT */
/* Tests src/base/sha256.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "unit.h"

static const char *hash_hex(const char *data, size_t length)
{
	static char text[2 * SHA256_SIZE + 1];
	unsigned char digest[SHA256_SIZE];

	sha256(data, length, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
	return text;
}

/* NIST, "Examples with Intermediate Values", SHA-256; and the lengths around a block's end. */
static void test_digest(void)
{
	static const struct {
		const char *data, *digest;
	} rows[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	static const struct {
		size_t length;
		const char *digest;	/* of so many times 'a' */
	} lengths[] = {
		{ 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
		{ 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a" },
		{ 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34" },
		{ 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
		{ 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	};
	char *data = malloc(1000000);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unit_case("%s", rows[i].data);
		CHECK_STR(hash_hex(rows[i].data, strlen(rows[i].data)), rows[i].digest);
	}
	if (!data)
		return;
	memset(data, 'a', 1000000);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		unit_case("%zu times a", lengths[i].length);
		CHECK_STR(hash_hex(data, lengths[i].length), lengths[i].digest);
	}
	free(data);
}

int main(void)
{
	test_digest();
	return unit_done();
}
