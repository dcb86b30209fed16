/* SPDX-License-Identifier: MIT */
/* Showing, listing and breaking locks on Redis. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock.h"

bool redis_add_row(const redisReply *reply, bool holds, struct rows *rows)
{
	redisReply *const *e = reply->element;
	struct row *row;

	if (!redis_has_shape(reply, holds ? "sisissi" : "sisis"))
		return false;
	row = rows_add(rows, e[4]->str, e[4]->len);
	snprintf(row->id, sizeof(row->id), "%s", e[0]->str);
	row->mine = e[1]->integer == 1;
	row->holds = holds;
	hold_mode_read(e[2]->str, &row->mode, &row->slots);
	row->age_ms = e[3]->integer;
	if (holds) {
		row->fence = strtoull(e[5]->str, NULL, 10);
		row->left_ms = e[6]->integer;
	}
	return true;
}

static bool read_rows(const redisReply *reply, struct rows *rows)
{
	if (!redis_has_shape(reply, "saa"))
		return false;
	rows->fence = strtoull(reply->element[0]->str, NULL, 10);
	for (size_t part = 1; part <= 2; part++)
		for (size_t i = 0; i < reply->element[part]->elements; i++)
			if (!redis_add_row(reply->element[part]->element[i], part == 1, rows))
				return false;
	return true;
}

/* ---- names ---- */

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

static bool ends_with(const char *key, size_t length, const char *suffix)
{
	const size_t tail = strlen(suffix);

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
		if (ends_with(text, length, silent[i]) && memchr(text, '{', length))
			return;
	for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++) {
		if (ends_with(text, length, telling[i]) && memchr(text, '{', length)) {
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

/* Add the lock that a key of dlock's records belongs to. See redisson_make_keys(). */
void redisson_list_key(const char *before, const redisReply *key, struct name_list *names)
{
	static const char braced[] = ":dlock.braced", plain[] = "}:dlock";
	const size_t prefix = strlen(before);
	const char *text = key->str;
	size_t length = key->len;

	if (ends_with(text, length, braced)) {
		length -= strlen(braced);
	} else if (text[0] == '{' && ends_with(text, length, plain)) {
		text++;
		length -= 1 + strlen(plain);
	} else {
		return;
	}
	if (length > prefix && !strncmp(text, before, prefix))
		name_list_add(names, text + prefix, length - prefix);
}

struct scan {
	const char *pattern;
	void (*found)(const char *prefix, const redisReply *key, struct name_list *names);
	struct name_list *names;
};

/* Add the names of the locks on one server to context, a struct scan. */
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

static int list_names(struct redis_backend *redis, struct name_list *names, struct error *err)
{
	struct redis_node *node = &redis->node;
	char *pattern = redis->kind ? memory_copy("*:dlock*") : redis_list_pattern(node->prefix);
	struct scan scan = { pattern, redis->kind ? redisson_list_key : redis_list_key, names };
	const int failed = redis_node_each(node, scan_server, &scan, err);

	free(pattern);
	return failed;
}

int redis_show(struct backend *backend, const struct request *request, struct rows *rows,
	       struct error *err)
{
	static const char *const none[] = { NULL };
	struct redis_backend *redis = redis_from_backend(backend);
	redisReply *reply;

	if (!request->name)
		return list_names(redis, &rows->names, err);
	reply = redis_call(redis, "show", request, none, err);
	if (!reply)
		return -1;
	if (!read_rows(reply, rows))
		return redis_node_odd(&redis->node, reply, err);
	freeReplyObject(reply);
	return 0;
}

/* ---- breaking ---- */

enum outcome redis_break(struct backend *backend, const char *name, const struct row *row,
			 struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	const struct request request = { .name = name, .token = "" };
	const char *const arguments[] = { row->id, NULL };
	redisReply *reply = redis_call(redis, "break", &request, arguments, err);
	enum outcome outcome = OUTCOME_ERROR;

	if (!reply)
		return OUTCOME_ERROR;
	if (redis_is_integer(reply))
		outcome = reply->integer ? OUTCOME_HELD : OUTCOME_LOST;
	else if (redis_is_text(reply))
		error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' is a %.20s of another program: "
			  "dlock does not delete it", redis->node.address.label,
			  redis->node.keys[KEY_LOCK], reply->str);
	else
		return redis_node_odd(&redis->node, reply, err), OUTCOME_ERROR;
	freeReplyObject(reply);
	return outcome;
}
