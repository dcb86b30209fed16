/* SPDX-License-Identifier: MIT */
/*
 * What is stored: the keys of a lock.
 *
 *	PREFIX/NAME/ID		value "dlock:MODE TAKEN RECORD"
 *
 * ID is the number of a lease in hex. It is made of the token and the name: a process that has the
 * token finds the key, and a request whose reply was lost can be repeated. MODE is as
 * hold_mode_text() writes it. TAKEN is when the entry began to hold or to wait, in ms since the
 * epoch by its host's clock.
 *
 * Keys of `etcdctl lock` and of Go's concurrency.Mutex have no such value, and are exclusive.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "etcd.h"
#include "lock/hold.h"

#define MARK "dlock:"

/* ---- names ---- */

static char *encode_text(char *text)
{
	char *encoded = etcd_encode(text, strlen(text));

	free(text);
	return encoded;
}

void etcd_forget(struct etcd_own *own)
{
	free(own->directory);
	free(own->first);
	free(own->end);
	free(own->key);
	free(own->entry.text);
	*own = (struct etcd_own){ .held = false };
}

char *etcd_key(const struct etcd_own *own, const char *id)
{
	return encode_text(memory_format("%s%s", own->directory, id));
}

void etcd_name(struct etcd_backend *etcd, const struct request *request)
{
	struct etcd_own *own = &etcd->own;
	char *directory = memory_format("%s%s/", etcd->prefix, request->name), *text;
	char *first = etcd_encode(directory, strlen(directory)), digest[ROW_ID_SIZE];
	int64_t number;

	/* With the lock's name, because a token may be tried for another lock. */
	text = memory_format("%.64s %s", request->token, first);
	row_id(text, digest);
	free(text);
	digest[ETCD_HEX_SIZE - 1] = '\0';
	number = (int64_t)(strtoull(digest, NULL, 16) >> 1);
	/* Only a process that has no entry of its own asks about several tokens. */
	if (own->number && (own->number == number || !request->token[0])) {
		free(directory);
		free(first);
		return;
	}
	etcd_forget(own);
	own->number = number ? number : 1;
	snprintf(own->entry.id, sizeof(own->entry.id), "%" PRIx64, (uint64_t)own->number);
	own->entry.text = memory_copy("");
	own->directory = directory;
	own->first = first;
	/* '0' follows '/'. */
	own->end = encode_text(memory_format("%s%s0", etcd->prefix, request->name));
	own->key = etcd_key(own, own->entry.id);
}

/* ---- entries ---- */

bool etcd_is_id(const char *text)
{
	const size_t length = strlen(text);

	return length && length < ETCD_HEX_SIZE && text[0] != '0' &&
	       strspn(text, "0123456789abcdef") == length;
}

/* Read a value, and keep what is behind the mark as the text. */
static void read_value(struct etcd_entry *entry, char *value)
{
	char mode[12];
	int at = 0;

	entry->text = value;
	if (sscanf(value, MARK "%11[0-9sx] %" SCNd64 " %n", mode, &entry->taken_ms, &at) < 2 ||
	    !at) {
		entry->mode = HOLD_EXCLUSIVE;
		entry->foreign = true;
		entry->taken_ms = 0;
		return;
	}
	hold_mode_read(mode, &entry->mode, &entry->slots);
	memmove(value, value + at, strlen(value + at) + 1);
}

/* Add the entry of a key, or the name of one that is none. directory: length bytes of its key. */
static void add_entry(struct etcd_queue *queue, struct json_object *kv, size_t directory)
{
	struct etcd_entry *entry = &queue->entries[queue->count];
	size_t length, value_length;
	char *key = etcd_decode(etcd_text(kv, "/key"), &length);
	const char *id = length > directory ? key + directory : "";

	*entry = (struct etcd_entry){ .lease = etcd_number(kv, "/lease"),
				      .created = (uint64_t)etcd_number(kv, "/create_revision") };
	if (etcd_is_id(id) && entry->lease && entry->created) {
		snprintf(entry->id, sizeof(entry->id), "%.16s", id);
		read_value(entry, etcd_decode(etcd_text(kv, "/value"), &value_length));
		queue->count++;
	} else {
		queue->others = true;
		if (!strchr(id, '/'))
			name_list_add(&queue->ignored, id, strlen(id));
	}
	free(key);
}

static int compare_entries(const void *a, const void *b)
{
	const struct etcd_entry *p = a, *q = b;

	return p->created < q->created ? -1 : p->created > q->created;
}

void etcd_queue_read(struct etcd_backend *etcd, struct json_object *range, struct etcd_queue *queue)
{
	struct json_object *kvs;
	const size_t count = etcd_array(range, "/kvs", &kvs);
	const size_t directory = strlen(etcd->own.directory);

	*queue = (struct etcd_queue){ .entries = memory_new(count + 1, sizeof(*queue->entries)) };
	for (size_t i = 0; i < count; i++)
		add_entry(queue, json_object_array_get_idx(kvs, i), directory);
	qsort(queue->entries, (size_t)queue->count, sizeof(*queue->entries), compare_entries);
	queue->mine = queue->count - 1;
	while (queue->mine >= 0 && strcmp(queue->entries[queue->mine].id, etcd->own.entry.id) != 0)
		queue->mine--;
}

void etcd_queue_free(struct etcd_queue *queue)
{
	for (ptrdiff_t i = 0; i < queue->count; i++)
		free(queue->entries[i].text);
	free(queue->entries);
	name_list_finish(&queue->ignored);
	*queue = (struct etcd_queue){ .count = 0 };
}

ptrdiff_t etcd_queue_blocker(const struct etcd_queue *queue, ptrdiff_t i)
{
	const struct etcd_entry *entries = queue->entries;

	return hold_blocker(&entries[0].mode, sizeof(*entries), i, entries[i].slots);
}

/* ---- requests ---- */

/* Take over what is stored of our entry. */
static void adopt_entry(struct etcd_own *own, const struct etcd_queue *queue)
{
	const struct etcd_entry *stored;

	if (queue->mine < 0) {
		own->entry.created = 0;
		own->held = false;
		return;
	}
	stored = &queue->entries[queue->mine];
	/* Of another lease nothing is known. */
	if (own->entry.lease != stored->lease)
		own->asked_s = own->sent_ms = 0;
	free(own->entry.text);
	own->entry = *stored;
	own->entry.text = memory_copy(stored->text);
}

int etcd_read(struct etcd_backend *etcd, enum etcd_part part, char *change,
	      struct etcd_queue *queue, struct error *err)
{
	const bool alone = part == ETCD_OWN;
	struct etcd_own *own = &etcd->own;
	char *range = memory_format(
		"\"key\":\"%s\",\"range_end\":\"%s\",\"max_create_revision\":\"%" PRIu64 "\"",
		alone ? own->key : own->first, alone ? "" : own->end,
		part == ETCD_ALL ? 0 : own->entry.created);
	const char *path = "/v3/kv/range", *answer = "";
	char *json = memory_format("{%s}", range);

	if (change) {
		free(json);
		json = memory_format(
			"{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
			"\"create_revision\":\"%" PRIu64 "\"}],\"success\":[%s,"
			"{\"request_range\":{%s%s}}],\"failure\":[{\"request_range\":{%s}}]}",
			own->key, own->entry.created, change, range,
			part == ETCD_LAST ? ",\"sort_target\":\"CREATE\","
					    "\"sort_order\":\"DESCEND\",\"limit\":\"2\"" : "",
			range);
		free(change);
		path = "/v3/kv/txn";
	}
	free(range);
	if (etcd_call(etcd, path, json, err))
		return -1;
	if (change)
		answer = etcd_get(etcd->reply, "/responses/1") ? "/responses/1/response_range"
							       : "/responses/0/response_range";
	etcd_queue_read(etcd, etcd_get(etcd->reply, answer), queue);
	if (part != ETCD_ALL)
		adopt_entry(own, queue);
	return 0;
}

char *etcd_put(const struct etcd_own *own, const char *text)
{
	const struct etcd_entry *entry = &own->entry;
	char mode[TEXT_DIGITS_SIZE];
	char *value = encode_text(memory_format(MARK "%s %" PRId64 " %s",
						hold_mode_text(entry->mode, entry->slots, mode),
						entry->taken_ms, text ? text : entry->text));
	char *json = memory_format("{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\","
				   "\"lease\":\"%" PRId64 "\"}}",
				   own->key, value, entry->lease);

	free(value);
	return json;
}

enum outcome etcd_delete(struct etcd_backend *etcd, struct error *err)
{
	char *change = memory_format("{\"request_delete_range\":{\"key\":\"%s\"}}", etcd->own.key);
	struct etcd_queue queue;

	if (etcd_read(etcd, ETCD_OWN, change, &queue, err))
		return OUTCOME_ERROR;
	etcd_queue_free(&queue);
	return json_object_get_boolean(etcd_get(etcd->reply, "/succeeded")) ? OUTCOME_HELD
									    : OUTCOME_LOST;
}

int etcd_call_lease(struct etcd_backend *etcd, const char *path, int64_t lease, struct error *err)
{
	return etcd_call(etcd, path, memory_format("{\"ID\":\"%" PRId64 "\"}", lease), err);
}
