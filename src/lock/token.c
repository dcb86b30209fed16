/* SPDX-License-Identifier: MIT */
/* Making tokens, and reading their digits: token.h. */
#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/text.h"
#include "name.h"

static const char hex_digits[] = "0123456789abcdef";

/* The positions of the hashes in a token, of HASH_DIGITS each. */
#define HASH_DIGITS 4
#define NAME_AT 12
#define BACKEND_AT 16
#define MARK_AT (TOKEN_SIZE - 1 - HASH_DIGITS)

static void print_hash(uint64_t hash, char digits[static HASH_DIGITS])
{
	/* Fold all 64 bits into 16. */
	hash ^= hash >> 32;
	hash ^= hash >> 16;
	for (int i = 0; i < HASH_DIGITS; i++)
		digits[i] = hex_digits[hash >> 4 * i & 15];
}

static bool has_hash(const char *digits, uint64_t hash)
{
	char expected[HASH_DIGITS];

	print_hash(hash, expected);
	return !memcmp(digits, expected, HASH_DIGITS);
}

static uint64_t hash_name(const char *name)
{
	return fnv1a(FNV1A_INIT, name, strlen(name));
}

int token_make_random(char token[static TOKEN_SIZE], struct error *err)
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

int token_make(char token[static TOKEN_SIZE], const char *name, uint64_t backend, bool of_run,
	       struct error *err)
{
	if (token_make_random(token, err))
		return -1;
	print_hash(hash_name(name), token + NAME_AT);
	print_hash(backend, token + BACKEND_AT);
	/* The lowest bit of the hash is in the digits. */
	print_hash(fnv1a(FNV1A_INIT, token, MARK_AT) ^ !of_run, token + MARK_AT);
	return 0;
}

bool token_is_of_run(const char token[static TOKEN_SIZE])
{
	return has_hash(token + MARK_AT, fnv1a(FNV1A_INIT, token, MARK_AT));
}

enum token_scope token_scope(const char token[static TOKEN_SIZE], const char *name,
			     uint64_t backend)
{
	if (!has_hash(token + NAME_AT, hash_name(name)))
		return TOKEN_OF_OTHER;
	return has_hash(token + BACKEND_AT, backend) ? TOKEN_OF_LOCK : TOKEN_OF_NAME;
}

/* Read the level behind the digits of a token: "+1" to "+999999", or nothing. -1: neither. */
static int read_level(const char *text)
{
	int64_t level = 0;

	if (!text[0])
		return 0;
	if (text[0] != '+' || text[1] == '0' || !text_number(text + 1, strlen(text + 1), &level))
		return -1;
	return level < 1 || level > TOKEN_LEVEL_MOST ? -1 : (int)level;
}

int token_read(const char *text, char token[static TOKEN_SIZE], int *level, struct error *err)
{
	const size_t digits = strspn(text, hex_digits);
	const int found = digits == TOKEN_SIZE - 1 ? read_level(text + digits) : -1;

	if (found < 0)
		return error_set(err, ERROR_USAGE, 0, "this is no token: a token is the 32 hex "
				 "digits that 'dlock acquire' prints, or these with a level: "
				 "TOKEN+1");
	*level = found;
	memcpy(token, text, TOKEN_SIZE - 1);
	token[TOKEN_SIZE - 1] = '\0';
	return 0;
}

void token_write(const char token[static TOKEN_SIZE], int level, char text[static TOKEN_TEXT_SIZE])
{
	if (level)
		snprintf(text, TOKEN_TEXT_SIZE, "%s+%d", token, level);
	else
		memcpy(text, token, TOKEN_SIZE);
}
