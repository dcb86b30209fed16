/* SPDX-License-Identifier: MIT */
/* What the dialects of the Redis backend have in common. */
#include "lock.h"

#include <stdlib.h>

void redis_close(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	if (!redis)
		return;
	redis_node_finish(&redis->node);
	free(redis);
}

const char *redis_mode(const struct request *request, char buf[static REDIS_DIGITS_SIZE])
{
	switch (request->mode) {
	case HOLD_SHARED:
		return "s";
	case HOLD_SLOT:
		return redis_digits(request->slots, buf);
	case HOLD_ANY:
	case HOLD_EXCLUSIVE:
		break;
	}
	return "x";
}

struct redis_conn *redis_listening_conn(struct redis_node *node)
{
	return redis_conn_is_open(&node->wake) ? &node->wake : &node->main;
}

int redis_event_fd(struct backend *backend)
{
	return redis_listening_conn(&redis_from_backend(backend)->node)->fd;
}
