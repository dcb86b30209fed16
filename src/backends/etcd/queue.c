/* SPDX-License-Identifier: MIT */
/*
 * What is stored: the keys of a lock, and their leases.
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

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "etcd.h"
#include "lock/hold.h"
#include "lock/lease.h"

#define MARK "dlock:"

/* ---- names ---- */

int64_t etcd_lease(const struct etcd_own *own, const char *token, const char *purpose)
{
	/* With the lock's name, because a token may be tried for another lock. */
	char *text = memory_format("%.64s%s %s", token, purpose, own->first);
	unsigned char digest[SHA256_SIZE];
	uint64_t number = 0;

	sha256(text, strlen(text), digest);
	free(text);
	for (size_t i = 0; i < sizeof(number); i++)
		number = number << 8 | digest[i];
	number >>= 1;
	return number ? (int64_t)number : 1;
}

int64_t etcd_seconds(int64_t ms)
{
	return (ms + 999) / 1000;
}

void etcd_forget(struct etcd_own *own)
{
	free(own->key);
	free(own->first);
	free(own->end);
	free(own->text);
	*own = (struct etcd_own){ .held = false };
}

void etcd_set_text(struct etcd_own *own, const char *text)
{
	free(own->text);
	own->text = memory_copy(text ? text : "");
}

static char *encode_text(char *text)
{
	char *encoded = etcd_encode(text, strlen(text));

	free(text);
	return encoded;
}

void etcd_name(struct etcd_backend *etcd, const struct request *request)
{
	const char *name = request->name, *token = request->token;
	struct etcd_own *own = &etcd->own;
	char id[ETCD_HEX_SIZE];

	if (!own->first) {
		own->first = encode_text(memory_format("%s%s/", etcd->prefix, name));
		/* '0' follows '/'. */
		own->end = encode_text(memory_format("%s%s0", etcd->prefix, name));
	}
	if (!token || !token[0])
		return;
	snprintf(id, sizeof(id), "%" PRIx64, (uint64_t)etcd_lease(own, token, ""));
	if (!strcmp(own->id, id))
		return;
	/* Only a process that has no entry of its own asks about several tokens. */
	if (own->id[0]) {
		etcd_forget(own);
		etcd_name(etcd, request);
		return;
	}
	memcpy(own->id, id, sizeof(id));
	own->key = encode_text(memory_format("%s%s/%s", etcd->prefix, name, own->id));
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
	} else if (!strchr(id, '/')) {
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
	size_t directory;

	free(etcd_decode(etcd->own.first, &directory));
	*queue = (struct etcd_queue){ .entries = memory_new(count + 1, sizeof(*queue->entries)) };
	for (size_t i = 0; i < count; i++)
		add_entry(queue, json_object_array_get_idx(kvs, i), directory);
	qsort(queue->entries, (size_t)queue->count, sizeof(*queue->entries), compare_entries);
}

char *etcd_range(const struct etcd_own *own, uint64_t until)
{
	return memory_format("{\"key\":\"%s\",\"range_end\":\"%s\",\"max_create_revision\":"
			     "\"%" PRIu64 "\"}",
			     own->first, own->end, until);
}

int etcd_queue_fetch(struct etcd_backend *etcd, uint64_t until, struct etcd_queue *queue,
		     struct error *err)
{
	if (etcd_call(etcd, "/v3/kv/range", etcd_range(&etcd->own, until), err))
		return -1;
	etcd_queue_read(etcd, etcd->reply, queue);
	return 0;
}

void etcd_queue_free(struct etcd_queue *queue)
{
	for (ptrdiff_t i = 0; i < queue->count; i++)
		free(queue->entries[i].text);
	free(queue->entries);
	name_list_finish(&queue->ignored);
	*queue = (struct etcd_queue){ .count = 0 };
}

ptrdiff_t etcd_queue_find(const struct etcd_queue *queue, const char *id)
{
	ptrdiff_t i = queue->count - 1;

	while (i >= 0 && strcmp(queue->entries[i].id, id) != 0)
		i--;
	return i;
}

ptrdiff_t etcd_queue_blocker(const struct etcd_queue *queue, ptrdiff_t i)
{
	const struct etcd_entry *entries = queue->entries;

	return hold_blocker(&entries[0].mode, sizeof(*entries), i, entries[i].slots);
}

/* ---- leases ---- */

bool etcd_is_proven(const struct etcd_backend *etcd)
{
	return !etcd->own.sent_term || etcd->own.sent_term == etcd->term;
}

/* Note that our lease was extended by a request at sent_ms. */
static void note_extended(struct etcd_own *own, int64_t sent_ms, uint64_t term, int64_t ttl_s)
{
	own->sent_ms = sent_ms;
	own->sent_term = term;
	own->granted_s = clock_earlier(ttl_s, LEASE_SHOWN_MS / 1000);
}

int etcd_extend(struct etcd_backend *etcd, int64_t lease, int64_t *ttl_s, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	/* Without a term, none is the same as that of the next reply. */
	const uint64_t term = etcd->term ? etcd->term : UINT64_MAX;

	*ttl_s = 0;
	if (!etcd_call(etcd, "/v3/lease/keepalive",
		       memory_format("{\"ID\":\"%" PRId64 "\"}", lease), err))
		*ttl_s = etcd_number(etcd->reply, "/result/TTL");
	else if (etcd->status != ETCD_NOT_FOUND)
		return -1;
	if (*ttl_s > 0)
		note_extended(&etcd->own, sent_ms, term, *ttl_s);
	return 0;
}

/* Grant or extend a lease once. Returns 0; 1 if it has ended just now; or -1 and sets *err. */
static int grant_once(struct etcd_backend *etcd, int64_t lease, int64_t ttl_s, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	int64_t left_s;

	if (!etcd_call(
		    etcd, "/v3/lease/grant",
		    memory_format("{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}", ttl_s, lease),
		    err)) {
		/* A majority has granted it, so it needs no proof. */
		left_s = etcd_number(etcd->reply, "/TTL");
		note_extended(&etcd->own, sent_ms, 0, left_s);
		return left_s <= 0;
	}
	if (!strstr(err->message, "lease already exists"))
		return -1;
	/* An earlier request, whose reply was lost, has been granted. */
	return etcd_extend(etcd, lease, &left_s, err) ? -1 : left_s <= 0;
}

int etcd_grant(struct etcd_backend *etcd, int64_t lease, int64_t ttl_s, struct error *err)
{
	int ended = 1;

	for (int i = 0; i < ETCD_MOST_TRIES && ended > 0; i++)
		ended = grant_once(etcd, lease, ttl_s, err);
	return ended > 0 ? error_set(err, ERROR_UNAVAILABLE, 0, "%s: a new lease ends at once",
				     etcd->label)
			 : ended;
}

int etcd_revoke(struct etcd_backend *etcd, int64_t lease, struct error *err)
{
	return etcd_call(etcd, "/v3/lease/revoke", memory_format("{\"ID\":\"%" PRId64 "\"}", lease),
			 err) &&
			       etcd->status != ETCD_NOT_FOUND
		       ? -1
		       : 0;
}

/* ---- transactions ---- */

char *etcd_transaction(const char *key, uint64_t created, char *change, char *read)
{
	char *text = memory_format(
		"{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":"
		"\"EQUAL\",\"create_revision\":\"%" PRIu64 "\"}],\"success\":["
		"%s,{\"request_range\":%s}],\"failure\":[{\"request_range\":%s}]}",
		key, created, change, read, read);

	free(change);
	free(read);
	return text;
}

int etcd_delete(struct etcd_backend *etcd, const char *key, uint64_t created, bool *deleted,
		struct error *err)
{
	char *change = memory_format("{\"request_delete_range\":{\"key\":\"%s\"}}", key);
	char *range = memory_format("{\"key\":\"%s\"}", key);

	if (etcd_call(etcd, "/v3/kv/txn", etcd_transaction(key, created, change, range), err))
		return -1;
	*deleted = json_object_get_boolean(etcd_get(etcd->reply, "/succeeded"));
	return 0;
}

struct json_object *etcd_last_range(const struct etcd_backend *etcd)
{
	struct json_object *list;
	const size_t count = etcd_array(etcd->reply, "/responses", &list);

	return count ? etcd_get(json_object_array_get_idx(list, count - 1), "/response_range")
		     : NULL;
}

char *etcd_put(const struct etcd_own *own, int64_t lease)
{
	char mode[TEXT_DIGITS_SIZE];
	char *value = encode_text(memory_format(MARK "%s %" PRId64 " %s",
						hold_mode_text(own->mode, own->slots, mode),
						own->taken_ms, own->text));
	char *where = lease ? memory_format("\"lease\":\"%" PRId64 "\"", lease)
			    : memory_copy("\"ignore_lease\":true");
	char *text = memory_format("{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",%s}}",
				   own->key, value, where);

	free(value);
	free(where);
	return text;
}
