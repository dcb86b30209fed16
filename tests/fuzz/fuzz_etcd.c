/* SPDX-License-Identifier: MIT */
/*
 * Any response of a server: bytes go through a connection into the parsers of replies, of queues,
 * and of the lines of a watch.
 */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "backends/etcd/client.c"
#include "backends/etcd/lock.c"
#include "backends/etcd/show.c"

extern const struct backend_module dlock_module;

/* Let the server send the bytes as the response to a request. Returns as http_step(). */
static int answer(struct http_conn *conn, const uint8_t *data, size_t size, struct error *err)
{
	int ends[2], state;

	INVARIANT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
	http_begin(conn, ends[0], NULL, "h");
	http_post(conn, "h:2379", "/v3/kv/range", NULL, "{}", ETCD_MOST_EVENT);
	/* What is too large for the socket is cut. */
	INVARIANT(!size || write(ends[1], data, size) > 0);
	state = http_step(conn, err);
	INVARIANT(conn->length <= size);
	close(ends[1]);
	return state;
}

static void take_queue(struct etcd_backend *etcd)
{
	struct rows rows = { 0 };
	struct etcd_queue queue;
	struct json_object *kvs;

	etcd_queue_read(etcd, etcd->reply, &queue);
	for (ptrdiff_t i = 0; i < queue.count; i++) {
		INVARIANT(!i || queue.entries[i - 1].created <= queue.entries[i].created);
		INVARIANT(etcd_is_id(queue.entries[i].id) && queue.entries[i].lease);
		INVARIANT(queue.entries[i].mode != HOLD_SLOT || queue.entries[i].slots > 0);
		add_row(&rows, &queue.entries[i], i == queue.mine,
			etcd_queue_blocker(&queue, i) < 0);
	}
	if (queue.count)
		INVARIANT(etcd_queue_blocker(&queue, 0) < 0);
	etcd_queue_free(&queue);
	for (size_t i = 0, count = etcd_array(etcd->reply, "/kvs", &kvs); i < count; i++)
		add_name(etcd, json_object_array_get_idx(kvs, i), &rows);
	rows_finish(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct request request = { .name = "n", .token = "t" };
	struct etcd_backend *etcd;
	struct error err = { 0 };
	struct uri uri;
	char *line;

	INVARIANT(!uri_parse(&uri, "etcd://h/p", &err));
	etcd = etcd_from_backend(dlock_module.ops->open(&uri, &err));
	INVARIANT(etcd);
	etcd_name(etcd, &request);
	if (answer(&etcd->main, data, size, &err) > 0) {
		if (read_reply(etcd, &err))
			INVARIANT(err.kind != ERROR_NONE && err.message[0]);
		else
			take_queue(etcd);
	}
	answer(&etcd->watch, data, size, &err);
	while ((line = http_take_line(&etcd->watch)))
		take_line(etcd, line);
	dlock_module.ops->close(&etcd->base);
	uri_finish(&uri);
	return 0;
}
