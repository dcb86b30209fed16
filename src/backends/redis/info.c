/* SPDX-License-Identifier: MIT */
#include "info.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "node.h"

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

const char *redis_setting(struct redis_node *node, const char *name, char *buf, size_t size)
{
	const char *argv[] = { "CONFIG", "GET", name };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_ask(node, 3, argv, &ignored);

	buf[0] = '\0';
	if (reply && redis_has_shape(reply, ".s"))
		snprintf(buf, size, "%s", reply->element[1]->str);
	freeReplyObject(reply);
	return buf;
}
