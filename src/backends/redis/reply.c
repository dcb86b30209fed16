/* SPDX-License-Identifier: MIT */
#include "reply.h"

#include <hiredis/hiredis.h>
#include <string.h>

bool redis_is_integer(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER;
}

bool redis_is_text(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING;
}

bool redis_has_shape(const struct redisReply *reply, const char *shape)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < strlen(shape))
		return false;
	for (size_t i = 0; shape[i]; i++) {
		const int type = reply->element[i]->type;

		if ((shape[i] == 'i' && type != REDIS_REPLY_INTEGER) ||
		    (shape[i] == 's' && type != REDIS_REPLY_STRING) ||
		    (shape[i] == 'a' && type != REDIS_REPLY_ARRAY))
			return false;
	}
	return true;
}
