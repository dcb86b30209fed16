/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/info.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "validity.h"

void redlock_node_close(struct redlock_node *node)
{
	redis_conn_close(&node->main);
	/* What nobody has answered may have been carried out up to any of the requests. */
	if (node->stale > 0)
		node->touched = true;
	node->info_asked = node->info_due = node->known = false;
	node->stale = 0;
}

void redlock_node_finish(struct redlock_node *node)
{
	redlock_node_close(node);
	redis_conn_close(&node->wake);
	freeReplyObject(node->reply);
	redis_address_finish(&node->address);
}

/* ---- connecting ---- */

int redlock_node_connect(struct redlock_node *node, struct redis_conn *conn, struct error *err)
{
	const struct net_address *place;
	int fd = -1;

	if (redis_conn_is_open(conn))
		return 0;
	if (node->place_count < 1)
		error_set(err, ERROR_UNAVAILABLE, 0, "cannot resolve");
	while (fd < 0 && node->tries <= node->place_count && node->place_count > 0) {
		node->place %= node->place_count;
		place = &node->places[node->place];
		fd = net_connect_begin((const struct sockaddr *)&place->address, place->length,
				       err);
		node->tries++;
		if (fd < 0)
			node->place++;
	}
	if (fd < 0)
		return -1;
	redis_conn_begin(conn, fd, conn == &node->wake);
	node->openings++;
	return 0;
}

void redlock_node_ask_age(struct redlock_node *node)
{
	static const char *const info[] = { "INFO", "server" };

	if (node->info_asked)
		return;
	redis_conn_send(&node->main, 2, info);
	node->info_asked = node->info_due = true;
}

/* ---- answers ---- */

static void read_info(struct redlock_node *node, const redisReply *reply)
{
	char uptime[24];

	node->info_due = false;
	if (!redis_is_text(reply))
		return;
	redis_info_field(reply->str, "uptime_in_seconds", uptime, sizeof(uptime));
	redis_info_field(reply->str, "run_id", node->run_id, sizeof(node->run_id));
	if (!uptime[0])
		return;
	node->age_ms = redlock_age(strtoll(uptime, NULL, 10));
	node->known_ms = clock_boot_ms();
	node->known = true;
}

int redlock_node_step(struct redlock_node *node, struct redis_conn *conn, bool readable,
		      struct redisReply **reply, struct error *err)
{
	int state;

	*reply = NULL;
	while ((state = redis_conn_step(conn, readable, reply, err)) > 0) {
		if (conn == &node->wake)
			break;
		if (node->info_due)
			read_info(node, *reply);
		else if (node->stale > 0)
			node->stale--;
		else
			break;
		freeReplyObject(*reply);
		*reply = NULL;
	}
	return state;
}

bool redlock_node_drain(struct redlock_node *node)
{
	struct error ignored;
	redisReply *reply;

	if (!redis_conn_is_open(&node->main) ||
	    !redlock_node_step(node, &node->main, true, &reply, &ignored))
		return false;
	/* An answer that nothing was asked for is as good as an end. */
	freeReplyObject(reply);
	redlock_node_close(node);
	return true;
}

int redlock_node_refuse_twin(const struct redlock_node *a, const struct redlock_node *b,
			     struct error *err)
{
	if (!a->known || !b->known || !a->run_id[0] || strcmp(a->run_id, b->run_id) != 0)
		return 0;
	return error_set(err, ERROR_REFUSED, 0, "%s and %s are the same server: redlock: needs "
			 "nodes that do not depend on each other", a->address.label,
			 b->address.label);
}

int64_t redlock_node_age(const struct redlock_node *node)
{
	return node->known ? node->age_ms + clock_boot_ms() - node->known_ms : -1;
}
