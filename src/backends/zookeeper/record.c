/* SPDX-License-Identifier: MIT */
/* Reading and writing the data of dlock's nodes: record.h. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const states[] = {
	[ZK_NEW] = "new", [ZK_WAITING] = "waiting", [ZK_HELD] = "held",
};

void zk_record_write(char data[static ZK_RECORD_SIZE], const char *uuid, enum zk_state state,
		     int64_t taken_ms, const char *text)
{
	snprintf(data, ZK_RECORD_SIZE, "%s%s%sstate=%s&taken=%" PRId64 "&%s", uuid ? "uuid=" : "",
		 uuid ? uuid : "", uuid ? "&" : "", states[state], taken_ms, text);
}

static bool equals_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(text, word, length);
}

void zk_record_read(struct zk_record *record, const char *data, size_t length, const char *uuid)
{
	const char *remaining = length ? data : "", *end = remaining + length;
	struct text_pair pair;

	*record = (struct zk_record){ .state = ZK_FOREIGN };
	while (text_next_pair(&remaining, end, &pair)) {
		if (equals_word(pair.key, pair.key_length, "uuid"))
			record->mine = equals_word(pair.value, pair.length, uuid);
		if (equals_word(pair.key, pair.key_length, "taken") &&
		    !text_number(pair.value, pair.length, &record->taken_ms))
			record->taken_ms = 0;
		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			if (equals_word(pair.key, pair.key_length, "state") &&
			    equals_word(pair.value, pair.length, states[i]))
				record->state = (enum zk_state)i;
	}
}
