/* SPDX-License-Identifier: MIT */
#include "request.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

int mysql_check_name(const struct mysql_strategy *strategy, const char *name, struct error *err)
{
	const size_t most = strategy->name_characters;

	if (most && text_characters(name) > most)
		return error_set(err, ERROR_USAGE, 0, "%s at most %zu characters, this one has "
				 "%zu; ?strategy=lease takes longer ones", strategy->names, most,
				 text_characters(name));
	return 0;
}

void words_begin(struct words *words, const struct request *request, int64_t owner_ttl_ms)
{
	const char *token = request->token ? request->token : "";
	struct holder self = request->self;

	sha256(token, strlen(token), words->digest);
	self.ttl_ms = owner_ttl_ms;
	holder_encode(&self, words->owner);
	words->values[0].key = NULL;
	words_add(words, (const struct sql_value[]){
		SQL_TEXT("name", request->name),
		SQL_BLOB("token", words->digest, sizeof(words->digest)),
		SQL_TEXT("owner", words->owner),
		SQL_INT("usual", BACKEND_TTL_MS * 1000),
		SQL_LAST
	});
}

void words_add(struct words *words, const struct sql_value values[])
{
	for (; values->key; values++) {
		struct sql_value *place = words->values;

		while (place->key && strcmp(place->key, values->key) != 0)
			place++;
		assert(place < words->values + MYSQL_WORDS - 1);
		if (!place->key)
			place[1].key = NULL;
		*place = *values;
	}
}

void waiters_mark(const struct mysql_strategy *strategy, const char *name,
		  char mark[static WAITERS_MARK_SIZE])
{
	size_t used = (size_t)snprintf(mark, WAITERS_MARK_SIZE, "%s:", strategy->name);

	for (; *name && used + 3 < WAITERS_MARK_SIZE; name++)
		used += (size_t)snprintf(mark + used, WAITERS_MARK_SIZE - used, "%02x",
					 (unsigned char)*name);
}

void words_add_waiter(struct words *words, const struct mysql_strategy *strategy,
		      const struct request *request)
{
	char mark[WAITERS_MARK_SIZE], holder[HOLDER_TEXT_SIZE];

	waiters_mark(strategy, request->name, mark);
	/* Percent-encoded, so that nothing in it can end a comment. */
	holder_encode(&request->self, holder);
	snprintf(words->waiter, sizeof(words->waiter), "/* dlock %s %c %s */", mark,
		 request->mode == HOLD_SHARED ? 's' : 'x', holder);
	words_add(words, (const struct sql_value[]){ SQL_PART("waiter", words->waiter), SQL_LAST });
}
