/* SPDX-License-Identifier: MIT */
#include "token.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "name.h"

static const char hex_digits[] = "0123456789abcdef";

/* How many digits at the end of a run's token are the checksum. */
#define MARK_DIGITS 4

/* The last digits of a run's token. */
static void make_mark(const char token[static TOKEN_SIZE], char mark[static MARK_DIGITS])
{
	uint64_t hash = fnv1a(FNV1A_INIT, token, TOKEN_SIZE - 1 - MARK_DIGITS);

	/* All 64 bits of the hash have a part in the 16 bits of the digits. */
	hash ^= hash >> 32;
	hash ^= hash >> 16;
	for (int i = 0; i < MARK_DIGITS; i++)
		mark[i] = hex_digits[hash >> 4 * i & 15];
}

bool token_is_of_run(const char token[static TOKEN_SIZE])
{
	char mark[MARK_DIGITS];

	make_mark(token, mark);
	return !memcmp(token + TOKEN_SIZE - 1 - MARK_DIGITS, mark, MARK_DIGITS);
}

static int make_random(char token[static TOKEN_SIZE], struct error *err)
{
	unsigned char bytes[(TOKEN_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return error_set(err, ERROR_INTERNAL, errno, "no random bytes for a token");
	for (size_t i = 0; i < sizeof(bytes); i++) {
		token[2 * i] = hex_digits[bytes[i] >> 4];
		token[2 * i + 1] = hex_digits[bytes[i] & 15];
	}
	token[TOKEN_SIZE - 1] = '\0';
	return 0;
}

int token_make(char token[static TOKEN_SIZE], struct error *err)
{
	do {
		if (make_random(token, err))
			return -1;
	} while (token_is_of_run(token));
	return 0;
}

int token_make_for_run(char token[static TOKEN_SIZE], struct error *err)
{
	if (make_random(token, err))
		return -1;
	make_mark(token, token + TOKEN_SIZE - 1 - MARK_DIGITS);
	return 0;
}

bool token_valid(const char *text)
{
	return strlen(text) == TOKEN_SIZE - 1 &&
	       strspn(text, hex_digits) == TOKEN_SIZE - 1;
}
