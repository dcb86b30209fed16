/* SPDX-License-Identifier: MIT */
/* Checking and deriving names of locks: name.h. */
#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* '-' and 16 hex digits */
#define SUFFIX_LENGTH 17

int name_check(const char *name, struct error *err)
{
	size_t length = strlen(name), at, step;
	char quoted[TEXT_QUOTE_SIZE];
	bool control;

	text_quote(name, quoted, sizeof(quoted));
	if (length == 0)
		return error_set(err, ERROR_USAGE, 0, "the name of the lock is empty");
	if (length > NAME_MAX_BYTES)
		return error_set(err, ERROR_USAGE, 0,
				 "the name '%s' is too long: %zu bytes, at most %d",
				 quoted, length, NAME_MAX_BYTES);
	for (at = 0; at < length; at += step) {
		step = text_char(name + at, length - at, &control);
		if (step > 0 && !control)
			continue;
		return error_set(err, ERROR_USAGE, 0, "the name '%s' %s at byte %zu",
				 quoted, control ? "has a control character" : "is not UTF-8",
				 at + 1);
	}
	return 0;
}

/* Offset basis and prime: http://www.isthe.com/chongo/tech/comp/fnv/ */
uint64_t fnv1a(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *s = data;

	while (length-- > 0)
		hash = (hash ^ *s++) * UINT64_C(0x100000001b3);
	return hash;
}

void name_derive(const char *const argv[], char buf[static NAME_DERIVED_SIZE])
{
	uint64_t hash = FNV1A_INIT;
	const char *base = argv[0] ? basename(argv[0]) : "";
	size_t i, length;

	for (i = 0; argv[i]; i++)	/* with the NUL, but not that of the last one */
		hash = fnv1a(hash, argv[i], strlen(argv[i]) + (argv[i + 1] != NULL));
	if (!*base || !text_is_clean(base, strlen(base)))
		base = "command";
	length = text_clean(base, strlen(base), buf, NAME_DERIVED_SIZE - SUFFIX_LENGTH);
	snprintf(buf + length, NAME_DERIVED_SIZE - length, "-%016" PRIx64, hash);
}
