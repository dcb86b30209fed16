/* SPDX-License-Identifier: MIT */
/* One call of the script, with what it needs to know of the kind of lock. */
#include "lock.h"


static void make_keys(struct redis_backend *redis, const char *name)
{
	if (redis->node.keys[KEY_LOCK])
		return;
	if (redis->kind)
		redisson_make_keys(redis, name);
	else
		redis_make_keys(redis->node.prefix, name, redis->node.keys);
}

struct redisReply *redis_call(struct redis_backend *redis, const char *what,
			      const struct request *request, const char *const arguments[],
			      struct error *err)
{
	struct redis_node *node = &redis->node;
	char owner[REDIS_OWNER_SIZE], most[REDIS_DIGITS_SIZE];
	const char *all[REDIS_ARGUMENTS + 1] = { what };
	int count = 3;

	make_keys(redis, request->name);
	redisson_owner(redis->kind, request->token, owner);
	all[1] = node->keys[KEY_CHANNEL];
	all[2] = owner;
	for (int i = 0; arguments[i]; i++)
		all[count++] = arguments[i];
	if (!redis->kind)
		return redis_node_script(node, &script_plain, all, err);
	all[count++] = redis->kind->name;
	all[count++] = node->keys[KEY_SHARED] ? node->keys[KEY_SHARED] : "";
	all[count++] = redis_digits(redis->most_read_ms, most);
	all[count++] = node->sharded ? "1" : "0";
	return redis_node_script(node, &script_redisson, all, err);
}
