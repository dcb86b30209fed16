/* SPDX-License-Identifier: MIT */
/* Showing holds and waiters, and breaking holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "etcd.h"
#include "lock/lease.h"

/* Keys that are read at once for the names of all locks. */
#define PAGE 10000

/* ---- rows ---- */

/* Returns the ms until the lease ends; -1: not known. */
static int64_t read_left(struct etcd_backend *etcd, int64_t lease)
{
	struct error ignored;

	/* Rows are worth more than their times. */
	if (clock_boot_ms() >= etcd->deadline_ms ||
	    etcd_call_lease(etcd, "/v3/lease/timetolive", lease, &ignored) ||
	    !etcd_number(etcd->reply, "/grantedTTL"))
		return -1;
	return clock_earlier(etcd_number(etcd->reply, "/TTL"), LEASE_SHOWN_MS / 1000) * 1000;
}

static void add_row(struct rows *rows, const struct etcd_entry *entry, bool mine, bool holds)
{
	struct row *row = rows_add(rows, holds, entry->text,
				   entry->foreign ? 0 : strlen(entry->text));

	if (entry->foreign) {
		/* Elections of Go's concurrency name their leader. */
		text_clean(entry->text, strlen(entry->text), row->holder.note,
			   sizeof(row->holder.note));
		snprintf(row->holder.command, sizeof(row->holder.command),
			 "etcdctl or Go, lease %s", entry->id);
	}
	snprintf(row->id, sizeof(row->id), "%s", entry->id);
	row->mine = mine;
	row->mode = entry->mode;
	row->slots = entry->slots;
	row->age_ms = rows_age(entry->taken_ms);
	row->fence = holds ? entry->created : 0;
	if (row->fence > rows->fence)
		rows->fence = row->fence;
}

static int show_lock(struct etcd_backend *etcd, const struct request *request, struct rows *rows,
		     struct error *err)
{
	/* A process that waits, and may be one of many, needs no ends of leases. */
	const bool waits = etcd->own.entry.created && !etcd->own.held;
	struct etcd_queue queue;

	if (etcd_read(etcd, waits ? ETCD_UNTIL : ETCD_ALL, NULL, &queue, err))
		return -1;
	for (ptrdiff_t i = 0; i < queue.count; i++)
		add_row(rows, &queue.entries[i], request->token[0] && i == queue.mine,
			etcd_queue_blocker(&queue, i) < 0);
	/* The rows that hold are the first entries, in this order. */
	for (size_t i = 0; i < rows->hold_count && !waits; i++)
		rows->holds[i].left_ms = read_left(etcd, queue.entries[i].lease);
	rows->ignored = queue.ignored;
	queue.ignored = (struct name_list){ 0 };
	etcd_queue_free(&queue);
	return 0;
}

/* ---- the names of all locks ---- */

/* Add the name of the lock that has this key. */
static void add_name(const struct etcd_backend *etcd, struct json_object *kv, struct rows *rows)
{
	size_t length;
	char *key = etcd_decode(etcd_text(kv, "/key"), &length);
	const char *name = key + strlen(etcd->prefix), *end = strrchr(key, '/');

	if (length > strlen(etcd->prefix) && end > name && etcd_is_id(end + 1) &&
	    etcd_number(kv, "/lease"))
		name_list_add(&rows->names, name, (size_t)(end - name));
	free(key);
}

/* Read the keys of all locks, page by page. */
static int show_names(struct etcd_backend *etcd, struct rows *rows, struct error *err)
{
	/* Without a prefix, all keys; otherwise those from it to the one behind '/'. */
	char *last = memory_copy(etcd->prefix), *end, *first;
	size_t length = strlen(last), count;
	struct json_object *kvs;
	int failed;

	first = etcd_encode(last, length ? length : 1);
	if (length)
		last[length - 1]++;
	end = etcd_encode(last, length ? length : 1);
	free(last);
	for (;;) {
		failed = etcd_call(etcd, "/v3/kv/range",
				   memory_format("{\"key\":\"%s\",\"range_end\":\"%s\","
						 "\"keys_only\":true,\"limit\":\"%d\"}",
						 first, end, PAGE),
				   err);
		count = etcd_array(failed ? NULL : etcd->reply, "/kvs", &kvs);
		for (size_t i = 0; i < count; i++)
			add_name(etcd, json_object_array_get_idx(kvs, i), rows);
		if (count < PAGE)
			break;
		/* The next page begins behind the last key: with a NUL more. */
		last = etcd_decode(etcd_text(json_object_array_get_idx(kvs, count - 1), "/key"),
				   &length);
		free(first);
		first = etcd_encode(last, length + 1);
		free(last);
	}
	free(first);
	free(end);
	return failed;
}

int etcd_show(struct backend *backend, const struct request *request, struct rows *rows,
	      struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);

	etcd_begin(etcd);
	if (!request->name)
		return show_names(etcd, rows, err);
	etcd_name(etcd, request);
	return show_lock(etcd, request, rows, err);
}

/* ---- breaking ---- */

enum outcome etcd_break(struct backend *backend, const char *name, const struct row *row,
			struct error *err)
{
	const struct request request = { .name = name, .token = "" };
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct etcd_own *own = &etcd->own;

	etcd_begin(etcd);
	etcd_name(etcd, &request);
	/* Nobody has the token "", so what is deleted may take the place of our entry. */
	free(own->key);
	own->key = etcd_key(own, row->id);
	own->entry.created = row->fence;
	return etcd_delete(etcd, err);
}
