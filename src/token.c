/* SPDX-License-Identifier: MIT */
#include "token.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "error.h"

static const char hex_digits[] = "0123456789abcdef";

int token_make(char token[static TOKEN_SIZE], struct error *err)
{
	unsigned char bytes[(TOKEN_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		error_set(err, ERROR_INTERNAL, errno, "no random bytes for a token");
		return -1;
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		token[2 * i] = hex_digits[bytes[i] >> 4];
		token[2 * i + 1] = hex_digits[bytes[i] & 15];
	}
	token[TOKEN_SIZE - 1] = '\0';
	return 0;
}

bool token_valid(const char *text)
{
	return strlen(text) == TOKEN_SIZE - 1 &&
	       strspn(text, hex_digits) == TOKEN_SIZE - 1;
}
