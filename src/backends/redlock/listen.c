/* SPDX-License-Identifier: MIT */
/* What the nodes say unasked: messages to a waiter, late answers, the end of a connection. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "round.h"

/*
 * After the message of one node, how long to wait for those of a majority: the nodes learn of a
 * release at almost the same time, and a try before the last of a majority has would fail.
 */
#define GATHER_MS 5
/* A holder looks so long after a connection has ended: the node may be back without the lock. */
#define HEAL_MS 500

static int count_listening(const struct redlock *lock)
{
	int count = 0;

	for (int i = 0; i < lock->count; i++)
		count += redis_conn_is_open(&lock->nodes[i].wake);
	return count;
}

bool redlock_listens(const struct redlock *lock)
{
	return count_listening(lock) > 0;
}

void redlock_stop_listening(struct redlock *lock)
{
	for (int i = 0; i < lock->count; i++)
		redis_conn_close(&lock->nodes[i].wake);
	lock->listens_on = false;
}

int redlock_listen(struct redlock *lock, const char *who, struct error *err)
{
	char *channel = memory_format("%s%s", lock->keys[KEY_CHANNEL], who);
	const char *const command[] = { "SUBSCRIBE", channel, NULL };
	struct redlock_call call = { .command = command, .wake = true, .least = lock->quorum };
	int failed = 0;

	for (int i = 0; i < lock->count; i++)
		if (!redis_conn_is_open(&lock->nodes[i].wake))
			call.nodes |= 1u << i;
	call.least -= count_listening(lock);
	if (call.nodes)
		failed = redlock_round(lock, &call, err);
	free(channel);
	for (int i = 0; i < lock->count; i++)
		if (call.nodes & 1u << i && lock->nodes[i].state != NODE_ANSWERED)
			redis_conn_close(&lock->nodes[i].wake);
	if (failed)
		return -1;
	if (count_listening(lock) >= lock->quorum)
		return 0;
	return redlock_no_majority(lock, count_listening(lock), err);
}

/* ---- one descriptor for all connections ---- */

/* The connection of a node that may say something unasked: to a waiter, or to a holder. */
static struct redis_conn *watched_conn(struct redlock *lock, int node, bool listens)
{
	return listens ? &lock->nodes[node].wake : &lock->nodes[node].main;
}

/* A number that no other connection to this node has had; 0: there is no connection. */
static int connection(struct redlock *lock, int node, bool listens)
{
	if (!redis_conn_is_open(watched_conn(lock, node, listens)))
		return 0;
	return lock->nodes[node].openings * 2 + listens;
}

/*
 * Makes the set anew. What was closed does not leave it by itself while another process has a copy
 * of the descriptor, and another connection may have the number of one that was closed.
 */
static void watch(struct redlock *lock, bool listens)
{
	struct epoll_event input = { .events = EPOLLIN };

	if (lock->epoll_fd >= 0)
		close(lock->epoll_fd);
	lock->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < lock->count && lock->epoll_fd >= 0; i++) {
		input.data.u32 = (uint32_t)i;
		lock->watched[i] = connection(lock, i, listens);
		if (lock->watched[i])
			epoll_ctl(lock->epoll_fd, EPOLL_CTL_ADD,
				  watched_conn(lock, i, listens)->fd, &input);
	}
}

/* It is readable when one of several is. */
int redlock_event_fd(struct backend *backend)
{
	struct redlock *lock = redlock_from_backend(backend);
	const bool listens = redlock_listens(lock);

	for (int i = 0; i < lock->count; i++) {
		if (lock->epoll_fd < 0 || lock->watched[i] != connection(lock, i, listens)) {
			watch(lock, listens);
			break;
		}
	}
	return lock->epoll_fd;
}

/* A bit for each node whose connection is readable. */
static unsigned find_readable(const struct redlock *lock)
{
	struct epoll_event events[REDLOCK_MOST_NODES];
	unsigned nodes = 0;
	int count;

	if (lock->epoll_fd < 0)
		return 0;
	count = epoll_wait(lock->epoll_fd, events, REDLOCK_MOST_NODES, 0);
	for (int i = 0; i < count; i++)
		nodes |= 1u << events[i].data.u32;
	return nodes;
}

/* ---- what is said ---- */

/* Returns when to try because of what a node has said. */
static int64_t read_messages(struct redlock_node *node)
{
	int64_t next_ms = CLOCK_NEVER, delay_ms;
	redisReply *reply;

	while (redis_conn_poll(&node->wake, &reply) > 0) {
		if (redis_has_shape(reply, "..s")) {
			delay_ms = strtoll(reply->element[2]->str, NULL, 10);
			if (delay_ms <= 0)
				node->woken = true;
			else if (delay_ms <= 10000)
				next_ms = clock_earlier(next_ms, clock_boot_ms() + delay_ms);
		}
		freeReplyObject(reply);
	}
	return next_ms;
}

static int64_t hear(struct redlock *lock, unsigned readable)
{
	int64_t next_ms = CLOCK_NEVER;
	int woken = 0;

	for (int i = 0; i < lock->count; i++) {
		struct redlock_node *node = &lock->nodes[i];

		if (readable & 1u << i)
			next_ms = clock_earlier(next_ms, read_messages(node));
		woken += node->woken;
	}
	if (woken >= lock->quorum || count_listening(lock) < lock->quorum)
		return 0;
	return woken ? clock_earlier(next_ms, clock_boot_ms() + GATHER_MS) : next_ms;
}

/* Drops late answers, and notices connections that have ended. */
static int64_t drain(struct redlock *lock, unsigned readable)
{
	int64_t next_ms = CLOCK_NEVER;

	for (int i = 0; i < lock->count; i++)
		if (readable & 1u << i && redlock_node_drain(&lock->nodes[i]))
			next_ms = clock_boot_ms() + HEAL_MS;
	return next_ms;
}

int64_t redlock_event(struct backend *backend)
{
	struct redlock *lock = redlock_from_backend(backend);

	if (lock->listens_on) {
		redlock_stop_listening(lock);
		return CLOCK_NEVER;
	}
	return redlock_listens(lock) ? hear(lock, find_readable(lock))
				     : drain(lock, find_readable(lock));
}
