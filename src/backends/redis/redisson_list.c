/* SPDX-License-Identifier: MIT */
/* Listing locks that are shared with Redisson. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "lock/view.h"
#include "redisson.h"

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
