/* SPDX-License-Identifier: MIT */
/* Fuzzes the check of names. */
#include "base/error.h"
#include "base/text.h"
#include "lock/name.h"
#include "fuzz.h"

#define ARGS 8

/* The input, split at newlines into arguments. */
static void check_derive(const char *input)
{
	char buf[NAME_DERIVED_SIZE], again[NAME_DERIVED_SIZE];
	const char *argv[ARGS + 1] = { NULL };
	char *text = strdup(input), *rest = text;
	struct error err;
	size_t argc = 0;

	while (argc < ARGS && rest)
		argv[argc++] = strsep(&rest, "\n");
	name_derive(argv, buf);
	INVARIANT(name_check(buf, &err) == 0);
	INVARIANT(strlen(buf) > 17 && buf[strlen(buf) - 17] == '-');
	argv[argc - 1] = argc > 1 ? NULL : argv[0];
	name_derive(argv, again);
	INVARIANT((strcmp(buf, again) == 0) == (argc == 1));
	free(text);
}

static void check_text(const char *text, size_t size)
{
	char cut[16], *clean = malloc(size + 1);
	size_t length;

	INVARIANT(clean);
	length = text_clean(text, size, clean, size + 1);
	INVARIANT(length <= size && strlen(clean) == length);
	INVARIANT(text_is_clean(clean, length));
	if (text_is_clean(text, size))
		INVARIANT(length == size && memcmp(clean, text, size) == 0);
	length = text_clean(text, size, cut, sizeof(cut));
	INVARIANT(length < sizeof(cut) && strncmp(cut, clean, length) == 0);
	free(clean);
}

static void check_quote(const char *text)
{
	char quoted[TEXT_QUOTE_SIZE];

	text_quote(text, quoted, sizeof(quoted));
	INVARIANT(strlen(quoted) < sizeof(quoted));
	INVARIANT(text_is_clean(quoted, strlen(quoted)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct error err = { .kind = ERROR_NONE };
	size_t length = strlen(text);

	if (name_check(text, &err) == 0) {
		INVARIANT(length >= 1 && length <= NAME_MAX_BYTES);
		INVARIANT(text_is_clean(text, length));
	} else {
		INVARIANT(length == 0 || length > NAME_MAX_BYTES ||
			  !text_is_clean(text, length));
		INVARIANT(err.kind == ERROR_USAGE);
		INVARIANT(text_is_clean(err.message, strlen(err.message)));
	}
	INVARIANT(fnv1a(fnv1a(FNV1A_INIT, data, size / 2), data + size / 2, size - size / 2) ==
		  fnv1a(FNV1A_INIT, data, size));
	check_derive(text);
	check_quote(text);
	check_text((const char *)data, size);
	free(text);
	return 0;
}
