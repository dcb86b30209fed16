/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const phases[] = {
	[ZK_TRYING] = "trying", [ZK_WAITING] = "waiting", [ZK_HELD] = "held", [ZK_KEPT] = "kept",
};

static const struct field {
	const char *key;
	size_t offset;
} fields[] = {
	{ "taken", offsetof(struct zk_state, since_ms) },
	{ "until", offsetof(struct zk_state, until_ms) },
	{ "min", offsetof(struct zk_state, min_ms) },
	{ "ttl", offsetof(struct zk_state, ttl_ms) },
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Every number has room. */
_Static_assert(ZK_STATE_SIZE > sizeof("state=waiting") +
	       FIELDS * sizeof("&taken=9223372036854775807"), "ZK_STATE_SIZE");

static int64_t *number_of(struct zk_state *state, const struct field *field)
{
	return (int64_t *)(void *)((char *)state + field->offset);
}

size_t zk_state_write(const struct zk_state *state, char text[static ZK_STATE_SIZE])
{
	struct zk_state copy = *state;
	size_t used = (size_t)snprintf(text, ZK_STATE_SIZE, "state=%s", phases[state->phase]);

	for (size_t i = 0; i < FIELDS; i++)
		if (*number_of(&copy, &fields[i]) > 0)
			used += (size_t)snprintf(text + used, ZK_STATE_SIZE - used,
						 "&%s=%" PRId64, fields[i].key,
						 *number_of(&copy, &fields[i]));
	return used;
}

static bool is(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(text, word, length);
}

static void read_pair(struct zk_state *state, const struct text_pair *pair)
{
	int64_t number;

	if (is(pair->key, pair->key_length, "state"))
		for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
			if (is(pair->value, pair->length, phases[i]))
				state->phase = (enum zk_phase)i;
	for (size_t i = 0; i < FIELDS; i++)
		if (is(pair->key, pair->key_length, fields[i].key) &&
		    text_number(pair->value, pair->length, &number))
			*number_of(state, &fields[i]) = number;
}

void zk_state_read(struct zk_state *state, const char *text, size_t length)
{
	const char *rest = text;
	struct text_pair pair;

	*state = (struct zk_state){ .phase = ZK_UNKNOWN };
	while (text_next_pair(&rest, text + length, &pair))
		read_pair(state, &pair);
}

/* ---- strategy node ---- */

static const char uuid_key[] = "uuid=";

void zk_node_write(const char *uuid, const struct zk_state *state, const char *who,
		   char text[static ZK_NODE_SIZE])
{
	char state_text[ZK_STATE_SIZE];

	zk_state_write(state, state_text);
	snprintf(text, ZK_NODE_SIZE, "%s%.*s&%s&%s", uuid_key, ZK_UUID_SIZE - 1, uuid, state_text,
		 who);
}

bool zk_node_is(const char *text, const char *uuid)
{
	return !strncmp(text, uuid_key, strlen(uuid_key)) &&
	       !strncmp(text + strlen(uuid_key), uuid, ZK_UUID_SIZE - 1);
}

void zk_node_rewrite(const char *old, const struct zk_state *state,
		     char text[static ZK_NODE_SIZE])
{
	char who[HOLDER_TEXT_SIZE];
	struct holder holder;

	holder_decode(&holder, old, strlen(old));
	holder_encode(&holder, who);
	zk_node_write(old + strlen(uuid_key), state, who, text);
}
