/* SPDX-License-Identifier: MIT */
/* Showing and listing locks on Redis. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "client.h"

static bool add_row(const redisReply *reply, bool holds, struct rows *rows)
{
	redisReply *const *e = reply->element;
	struct row *row;

	if (!redis_has_shape(reply, holds ? "sisissi" : "sisis"))
		return false;
	row = rows_add(rows, holds, e[4]->str, e[4]->len);
	snprintf(row->id, sizeof(row->id), "%s", e[0]->str);
	row->mine = e[1]->integer == 1;
	hold_mode_read(e[2]->str, &row->mode, &row->slots);
	row->age_ms = e[3]->integer;
	if (holds) {
		row->fence = strtoull(e[5]->str, NULL, 10);
		row->left_ms = e[6]->integer;
	}
	return true;
}

/* Add the rows of a reply to show. False: the reply is not valid. */
static bool read_rows(const redisReply *reply, struct rows *rows)
{
	uint64_t fence;

	if (!redis_has_shape(reply, "saa"))
		return false;
	fence = strtoull(reply->element[0]->str, NULL, 10);
	if (fence > rows->fence)
		rows->fence = fence;
	for (size_t part = 1; part <= 2; part++)
		for (size_t i = 0; i < reply->element[part]->elements; i++)
			if (!add_row(reply->element[part]->element[i], part == 1, rows))
				return false;
	return true;
}

/* ---- names ---- */

/* Make a pattern that fits the keys of all locks. More keys may fit, which list_key() drops. */
static char *make_pattern(const struct redis_client *client)
{
	if (!client->prefix[0])
		return memory_copy("*{*}*:*");
	return strpbrk(client->prefix, "*?[]\\") ? memory_copy("*")
						  : memory_format("*%s*", client->prefix);
}

/* Is it the name of a key beside a lock, with a suffix behind the colon (redis_make_keys())? */
static bool is_beside(const char *key, const char *colon)
{
	const size_t length = (size_t)(colon - key);

	return (key[0] == '{' && colon[-1] == '}') ||
	       (colon[-1] == ':' && memchr(key, '{', length) && memchr(key, '}', length));
}

/*
 * Add the lock of a key. Beside a lock that is held or waited for there are holders or a queue; a
 * fence outlives its lock. A key that is beside no lock is a lock if the prefix says so.
 */
static void list_key(const struct redis_client *client, const redisReply *key,
		     struct name_list *names)
{
	const size_t prefix = strlen(client->prefix);
	const char *text = key->str, *colon = strrchr(text, ':'), *end = text + key->len;

	if (colon && colon > text && is_beside(text, colon)) {
		if (strcmp(colon, ":holders") != 0 && strcmp(colon, ":queue") != 0)
			return;
		text += text[0] == '{' && colon[-1] == '}';
		end = colon - 1;
	} else if (!prefix || client->kind) {
		return;
	}
	if (end - text > (ptrdiff_t)prefix && !strncmp(text, client->prefix, prefix))
		name_list_add(names, text + prefix, (size_t)(end - text) - prefix);
}

/*
 * The bounds of a list of names: as many requests' times, and names. A server's cursor may never
 * return to 0.
 */
#define MOST_TIMEOUTS 15
#define MOST_NAMES (1 << 18)

/* Add the names of the locks on one server. endpoint: see redis_command(). */
static int scan_server(struct redis_client *client, const struct redis_endpoint *endpoint,
		       int64_t until_ms, struct name_list *names, struct error *err)
{
	char cursor[32] = "0", *pattern = make_pattern(client);
	const char *const get[] = { "SCAN", cursor, "MATCH", pattern, "COUNT", "1000", NULL };
	const redisReply *reply, *keys;
	int failed = 0;

	do {
		reply = redis_command(client, endpoint, get, err);
		if (!reply || !redis_has_shape(reply, "sa")) {
			failed = reply ? redis_odd(&client->servers[0], err) : -1;
			break;
		}
		keys = reply->element[1];
		for (size_t i = 0; i < keys->elements; i++)
			if (keys->element[i]->type == REDIS_REPLY_STRING)
				list_key(client, keys->element[i], names);
		snprintf(cursor, sizeof(cursor), "%.30s", reply->element[0]->str);
		if (clock_boot_ms() >= until_ms || names->count > MOST_NAMES) {
			failed = error_set(err, ERROR_UNAVAILABLE, 0, "%s: the list of locks does "
					   "not end: %zu names within %d times ?timeout=",
					   client->servers[0].address.label, names->count,
					   MOST_TIMEOUTS);
			break;
		}
	} while (strcmp(cursor, "0") != 0);
	free(pattern);
	return failed;
}

/* List the names on each server that may have locks. */
static int list_names(struct redis_client *client, struct name_list *names, struct error *err)
{
	static const char *const slots[] = { "CLUSTER", "SLOTS", NULL };
	struct redis_server *server = &client->servers[0];
	const redisReply *reply;
	struct redis_endpoint *endpoints;
	const int64_t until_ms = clock_boot_ms() + MOST_TIMEOUTS * client->base.timeout_ms;
	size_t count;
	int failed = 0;

	if (!client->route || !client->route->cluster)
		return scan_server(client, NULL, until_ms, names, err);
	reply = redis_command(client, NULL, slots, err);
	if (!reply)
		return -1;
	if (!redis_read_masters(reply, &server->address.at, &endpoints, &count))
		return redis_odd(server, err);
	for (size_t i = 0; i < count && !failed; i++)
		failed = scan_server(client, &endpoints[i], until_ms, names, err);
	free(endpoints);
	return failed;
}

int redis_show_rows(struct redis_client *client, const struct request *request, struct rows *rows,
		    int *answers, struct error *err)
{
	struct redis_call call = { .what = "show", .token = request->token };

	*answers = 0;
	if (redis_run(client, request->name, &call, err))
		return -1;
	for (int i = 0; i < client->count; i++) {
		struct redis_server *server = &client->servers[i];

		if (server->state != SERVER_ANSWERED)
			continue;
		if (read_rows(server->reply, rows))
			++*answers;
		else
			redis_odd(server, &server->error);
	}
	redis_free_replies(client);
	return *answers >= client->quorum ? 0 : redis_no_majority(client, *answers, err);
}

int redis_show(struct backend *backend, const struct request *request, struct rows *rows,
	       struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	int answers;

	return request->name ? redis_show_rows(client, request, rows, &answers, err)
			     : list_names(client, &rows->names, err);
}
