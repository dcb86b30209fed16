/* SPDX-License-Identifier: MIT */
/* Fuzzes the parser and the format of durations. */
#include "base/duration.h"
#include "base/error.h"
#include "fuzz.h"

/* What is printed can be read back, is not longer, and prints the same again. */
static void check_format(int64_t ms)
{
	char text[DURATION_TEXT_SIZE], again[DURATION_TEXT_SIZE];
	struct error err;
	int64_t back;

	duration_format(ms, text, sizeof(text));
	INVARIANT(strlen(text) < sizeof(text) - 1);
	if (ms > DURATION_MAX_MS)
		return;
	INVARIANT(duration_parse(text, &back, &err) == 0);
	INVARIANT(back <= (ms > 0 ? ms : 0) && back >= 0);
	INVARIANT(ms < 60000 || ms - back < 3600000);
	INVARIANT(strcmp(duration_format(back, again, sizeof(again)), text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *twice;
	struct error err = { .kind = ERROR_NONE };
	int64_t ms = -1, sum;

	if (size >= sizeof(ms)) {
		memcpy(&ms, data, sizeof(ms));
		check_format(ms);
	}
	if (duration_parse(text, &ms, &err) < 0) {
		INVARIANT(err.kind == ERROR_USAGE && *err.message);
		INVARIANT(!strpbrk(err.message, "\n\x1b"));
		free(text);
		return 0;
	}
	INVARIANT(ms >= 0 && ms <= DURATION_MAX_MS);
	INVARIANT(ms > 0 || !strpbrk(text, "123456789"));
	check_format(ms);

	/* With a unit at its end, twice the text is twice as long. */
	size = strlen(text);
	twice = malloc(2 * size + 1);
	INVARIANT(twice);
	memcpy(twice, text, size);
	memcpy(twice + size, text, size + 1);
	if (strchr("smhd", text[size - 1]) && ms <= DURATION_MAX_MS / 2) {
		INVARIANT(duration_parse(twice, &sum, &err) == 0);
		INVARIANT(sum == 2 * ms);
	}
	free(twice);
	free(text);
	return 0;
}
