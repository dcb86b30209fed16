/* SPDX-License-Identifier: MIT */
/* Tests of the form and meaning of replies: reply.h. */
#include "reply.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

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

bool redis_is_no_master(const char *text)
{
	return strstr(text, "READONLY") || strstr(text, "MASTERDOWN") || strstr(text, "LOADING");
}

/* The second text is of Redis and Valkey 8. */
bool redis_is_torn(const char *text)
{
	return strstr(text, "access a non local key") ||
	       strstr(text, "accessed during rehashing of the slot");
}

const char *redis_info_field(const char *info, const char *name, char *buf, size_t size)
{
	size_t length = strlen(name);
	const char *line = info;

	buf[0] = '\0';
	while (line && *line) {
		if (!strncmp(line, name, length) && line[length] == ':') {
			snprintf(buf, size, "%.*s", (int)strcspn(line + length + 1, "\r\n"),
				 line + length + 1);
			break;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return buf;
}
