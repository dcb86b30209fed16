/* SPDX-License-Identifier: MIT */
/* Fuzzes the parser of holder records. */
#include "base/text.h"
#include "lock/holder.h"
#include "fuzz.h"

static void check_same(const struct holder *a, const struct holder *b)
{
	INVARIANT(strcmp(a->host, b->host) == 0);
	INVARIANT(strcmp(a->user, b->user) == 0);
	INVARIANT(strcmp(a->command, b->command) == 0);
	INVARIANT(a->pid == b->pid);
	INVARIANT(a->since_ms == b->since_ms);
	INVARIANT(a->kept_ms == b->kept_ms);
	INVARIANT(a->min_ms == b->min_ms);
}

static void check_clean(const char *field, size_t size)
{
	INVARIANT(strnlen(field, size) < size);
	INVARIANT(text_is_clean(field, strlen(field)));
}

static void check_describe(const struct holder *holder, int64_t age_ms)
{
	char full[HOLDER_DESCRIPTION_SIZE], cut[40];

	holder_describe(holder, age_ms, full, sizeof(full));
	check_clean(full, sizeof(full));
	INVARIANT(strncmp(full, "held by ", 8) == 0 && full[8]);
	INVARIANT(!*holder->command || strstr(full, holder->command) ||
		  (holder->kept_ms && holder->min_ms && strstr(full, " (released)")));
	holder_describe(holder, age_ms, cut, sizeof(cut));
	check_clean(cut, sizeof(cut));
	INVARIANT(strncmp(full, cut, strlen(cut)) == 0);
}

/* Fields as they are, of any bytes but NUL: what encode writes, decode cleans. */
static void check_encode(const uint8_t *data, size_t size)
{
	char text[HOLDER_TEXT_SIZE];
	struct holder holder, cleaned, again;
	size_t length;

	memset(&holder, 0, sizeof(holder));
	memcpy(&holder, data, size < sizeof(holder) ? size : sizeof(holder));
	holder.host[sizeof(holder.host) - 1] = '\0';
	holder.user[sizeof(holder.user) - 1] = '\0';
	holder.command[sizeof(holder.command) - 1] = '\0';
	holder.note[sizeof(holder.note) - 1] = '\0';
	length = holder_encode(&holder, text);
	INVARIANT(length < sizeof(text) && strlen(text) == length);
	INVARIANT(text_is_clean(text, length) && !strpbrk(text, " \"'\\"));
	if (holder_decode(&cleaned, text, length) < 0) {
		INVARIANT(length == 0);
		return;
	}
	length = holder_encode(&cleaned, text);
	INVARIANT(holder_decode(&again, text, length) == 0);
	check_same(&cleaned, &again);
	if (text_is_clean(holder.host, strlen(holder.host)))
		INVARIANT(strcmp(holder.host, cleaned.host) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1), encoded[HOLDER_TEXT_SIZE];
	struct holder holder, again;
	size_t length;

	INVARIANT(text);
	if (size > 0)
		memcpy(text, data, size);
	if (holder_decode(&holder, text, size) == 0) {
		check_clean(holder.host, sizeof(holder.host));
		check_clean(holder.user, sizeof(holder.user));
		check_clean(holder.command, sizeof(holder.command));
		check_clean(holder.note, sizeof(holder.note));
		INVARIANT(holder.pid >= 0 && holder.since_ms >= 0);
		length = holder_encode(&holder, encoded);
		INVARIANT(length > 0 && length < sizeof(encoded));
		INVARIANT(holder_decode(&again, encoded, length) == 0);
		check_same(&holder, &again);
	}
	check_describe(&holder, -1);
	check_describe(&holder, holder.since_ms);
	check_encode(data, size);
	free(text);
	return 0;
}
