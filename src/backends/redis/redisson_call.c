/* SPDX-License-Identifier: MIT */
#include "redisson_call.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "lock/view.h"

#define MOST_ARGUMENTS 8

void redisson_owner(const struct redisson *redisson, const char *token,
		    char owner[static REDISSON_OWNER_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	char text[96], *end = owner;
	const int length = snprintf(text, sizeof(text), "dlock redisson %.64s", token);

	sha256(text, (size_t)length, digest);
	for (int i = 0; i < 16; i++) {
		const bool dash = i == 4 || i == 6 || i == 8 || i == 10;

		end += sprintf(end, dash && !redisson->kind->slots ? "-%02x" : "%02x", digest[i]);
	}
	/* Java's numbers of threads are greater than 0 and seldom great. */
	if (!redisson->kind->slots)
		sprintf(end, ":%d", 1 + digest[16] + 256 * digest[17] + 65536 * (digest[18] & 63));
}

/*
 * Redisson puts a name that has no brace into braces in the names of the other keys, so that a
 * cluster keeps them together. The locks "a" and "{a}" therefore share Redisson's other keys; those
 * of dlock differ.
 */
void redisson_keys(struct redis_node *node, const char *name)
{
	const struct redisson_kind *kind = redisson_from_backend(&node->base)->kind;
	char *braced;

	if (node->keys[KEY_LOCK])
		return;
	node->keys[KEY_LOCK] = memory_format("%s%s", node->prefix, name);
	braced = strchr(node->keys[KEY_LOCK], '{') ? memory_copy(node->keys[KEY_LOCK])
		: memory_format("{%s}", node->keys[KEY_LOCK]);
	node->keys[KEY_HOLDERS] = memory_format(strchr(node->keys[KEY_LOCK], '{')
						? "%s:dlock.braced" : "%s:dlock", braced);
	node->keys[KEY_QUEUE] = memory_format("redisson_lock_queue:%s", braced);
	node->keys[KEY_WAITERS] = memory_format(kind->slots ? "%s:timeout"
						: "redisson_lock_timeout:%s", braced);
	node->keys[KEY_FENCE] = kind->fence ? memory_format("%s:%s", kind->fence, braced)
		: memory_format("%s:dlock.fence", braced);
	node->keys[KEY_CHANNEL] = memory_format("%s:%s", kind->channel, braced);
	free(braced);
}

struct redisReply *redisson_script(struct redis_node *node, const struct script *script,
				   const struct request *request, const char *const arguments[],
				   struct error *err)
{
	struct redisson *redisson = redisson_from_backend(&node->base);
	const char *all[1 + MOST_ARGUMENTS + 1] = { redisson->kind->name };
	char owner[REDISSON_OWNER_SIZE], most[REDIS_DIGITS_SIZE];
	struct request asked = *request;
	int count = 1;

	redisson_keys(node, request->name);
	redisson_owner(redisson, request->token, owner);
	asked.token = owner;
	for (int i = 0; arguments[i]; i++)
		all[count++] = arguments[i];
	all[count++] = redis_digits(redisson->most_read_ms, most);
	if (node->sharded)
		all[count] = "sharded";
	return redis_node_script(node, script, &asked, all, err);
}

/* Adds the lock that a key of dlock's notes belongs to. See redisson_keys(). */
static void add_key(const char *before, const redisReply *key, struct name_list *names)
{
	static const char braced[] = ":dlock.braced", plain[] = "}:dlock";
	const size_t prefix = strlen(before);
	const char *text = key->str;
	size_t length = key->len;

	if (redis_ends_with(text, length, braced)) {
		length -= strlen(braced);
	} else if (text[0] == '{' && redis_ends_with(text, length, plain)) {
		text++;
		length -= 1 + strlen(plain);
	} else {
		return;
	}
	if (length > prefix && !strncmp(text, before, prefix))
		name_list_add(names, text + prefix, length - prefix);
}

int redisson_list(struct backend *backend, struct name_list *names, struct error *err)
{
	return redis_scan(&redisson_from_backend(backend)->redis.node, "*:dlock*", add_key, names,
			  err);
}
