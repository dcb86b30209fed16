/* SPDX-License-Identifier: MIT */
/* Showing, listing and breaking locks on Redis. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock/view.h"
#include "lock.h"

/* {text, mode, fence, age, expires}: see inspect.lua. */
static bool read_hold(const redisReply *row, struct lock_view *view)
{
	redisReply *const *e = row->element;
	struct hold_view *hold;

	if (!redis_has_shape(row, "sssii"))
		return false;
	hold = lock_view_add_hold(view);
	holder_decode(&hold->holder, e[0]->str, e[0]->len);
	hold_mode_read(e[1]->str, &hold->mode, &hold->slots);
	hold->fence = strtoull(e[2]->str, NULL, 10);
	hold->age_ms = e[3]->integer;
	hold->expires_ms = e[4]->integer;
	return true;
}

/* {text, mode, waiting} */
static bool read_waiter(const redisReply *row, struct lock_view *view)
{
	redisReply *const *e = row->element;
	struct waiter_view *waiter;

	if (!redis_has_shape(row, "ssi"))
		return false;
	waiter = lock_view_add_waiter(view);
	holder_decode(&waiter->holder, e[0]->str, e[0]->len);
	hold_mode_read(e[1]->str, &waiter->mode, &waiter->slots);
	waiter->waiting_ms = e[2]->integer;
	return true;
}

/* Reads what inspect.lua returns. False: it is something else. */
static bool read_view(const redisReply *reply, struct lock_view *view)
{
	redisReply *const *e = reply->element;

	if (!redis_has_shape(reply, "saas"))
		return false;
	view->fence = strtoull(e[0]->str, NULL, 10);
	for (size_t i = 0; i < e[1]->elements; i++)
		if (!read_hold(e[1]->element[i], view))
			return false;
	for (size_t i = 0; i < e[2]->elements; i++)
		if (!read_waiter(e[2]->element[i], view))
			return false;
	view->held = view->hold_count > 0;
	return true;
}

static int look(struct redis_backend *redis, const char *name, const char *then_break,
		struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name, .token = "" };
	const char *const arguments[] = { then_break, NULL };
	redisReply *reply = redis->dialect->run(&redis->node, redis->dialect->inspect, &request,
						arguments, err);
	int result = 0;

	if (!reply)
		return -1;
	if (!read_view(reply, view))
		return redis_node_odd(&redis->node, reply, err);
	if (reply->element[3]->str[0]) {
		error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' is a %.20s of another program: "
			  "dlock does not delete it", redis->node.address.label,
			  redis->node.keys[KEY_LOCK], reply->element[3]->str);
		result = -1;
	}
	freeReplyObject(reply);
	return result;
}

int redis_inspect(struct backend *backend, const char *name, bool listen,
		  struct lock_view *view, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);

	redis->dialect->make_keys(&redis->node, name);
	if (listen && redis_node_listen(&redis->node, redis->dialect->free, err))
		return -1;
	return look(redis, name, "0", view, err);
}

int redis_break(struct backend *backend, const char *name, struct lock_view *view,
		struct error *err)
{
	return look(redis_from_backend(backend), name, "1", view, err);
}

/* ---- list ---- */

char *redis_list_pattern(const char *prefix)
{
	char *pattern = memory_new(2 * strlen(prefix) + 8, 1), *c = pattern;

	if (!prefix[0])
		return strcpy(pattern, "{*}:*");
	*c++ = '*';
	for (; *prefix; prefix++) {
		if (strchr("*?[]\\", *prefix))
			*c++ = '\\';
		*c++ = *prefix;
	}
	*c = '*';
	return pattern;
}

bool redis_ends_with(const char *key, size_t length, const char *suffix)
{
	size_t tail = strlen(suffix);

	return length >= tail && !memcmp(key + length - tail, suffix, tail);
}

/* A fence outlives its lock and proves nothing, and there are no waiters without a queue. */
void redis_list_key(const char *before, const redisReply *key, struct name_list *names)
{
	static const char *const telling[] = { ":holders", ":queue" };
	static const char *const silent[] = { ":fence", ":waiters", ":newest" };
	size_t prefix = strlen(before), length = key->len;
	const char *text = key->str;
	bool side = false, braces = text[0] == '{';

	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
		if (redis_ends_with(text, length, silent[i]) && memchr(text, '{', length))
			return;
	for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++) {
		if (redis_ends_with(text, length, telling[i]) && memchr(text, '{', length)) {
			length -= strlen(telling[i]);
			side = true;
			break;
		}
	}
	if (braces && side && length > 2 && text[length - 1] == '}' &&
	    !strncmp(text + 1, before, prefix))
		name_list_add(names, text + 1 + prefix, length - 2 - prefix);
	else if (prefix && !strncmp(text, before, prefix) && length > prefix)
		name_list_add(names, text + prefix, length - prefix);
}

struct scan {
	const char *pattern;
	redis_key_found *found;
	struct name_list *names;
};

/* Adds the names of the locks on one server to context, a struct scan. */
static int scan_server(struct redis_node *node, void *context, struct error *err)
{
	const struct scan *scan = context;
	char cursor[32] = "0";
	const char *const argv[] = { "SCAN", cursor, "MATCH", scan->pattern, "COUNT", "1000" };

	do {
		redisReply *reply = redis_node_ask(node, 6, argv, err), *keys;

		if (!reply)
			return -1;
		if (!redis_has_shape(reply, "sa"))
			return redis_node_odd(node, reply, err);
		keys = reply->element[1];
		for (size_t i = 0; i < keys->elements; i++)
			if (redis_is_text(keys->element[i]))
				scan->found(node->prefix, keys->element[i], scan->names);
		snprintf(cursor, sizeof(cursor), "%.30s", reply->element[0]->str);
		freeReplyObject(reply);
	} while (strcmp(cursor, "0") != 0);
	return 0;
}

int redis_scan(struct redis_node *node, const char *pattern, redis_key_found *found,
	       struct name_list *names, struct error *err)
{
	struct scan scan = { pattern, found, names };
	const int failed = redis_node_each(node, scan_server, &scan, err);

	name_list_sort(names);
	return failed;
}

int redis_list(struct backend *backend, struct name_list *names, struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;
	char *pattern = redis_list_pattern(node->prefix);
	const int failed = redis_scan(node, pattern, redis_list_key, names, err);

	free(pattern);
	return failed;
}
