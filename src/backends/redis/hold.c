/* SPDX-License-Identifier: MIT */
/*
 * Acquiring, waiting, renewing, releasing and breaking, on one server or on a majority of several.
 * A try on several servers is in ../redlock/backend.c.
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "client.h"
#include "lock/hold.h"
#include "lock/lease.h"

/*
 * How long to wait for a majority after the first message: a release reaches all servers at almost
 * the same time, and a try before a majority has it would fail.
 */
#define GATHER_MS 5
/* The pause before another connection, because a server may end each of them at once. */
#define RECONNECT_MS 100
/* Renew this long after a connection has ended: the server may be back without the lock. */
#define HEAL_MS 500

/* A hold as the servers that answered report it. */
struct standing {
	int held, lost;
	int resent;			/* of the lost: that may have ended the hold themselves */
	const redisReply *best;		/* the reply with the greatest fence */
	uint64_t fence;
	unsigned empty;			/* a bit for each server where nobody has the lock */
	bool refused;			/* the TTL is too long for this kind of lock */
};

/* Read the reply of renew, release or break (lua/common.lua). False: it is not valid. */
static bool read_answer(const struct redis_client *client, struct redis_server *server,
			struct standing *standing)
{
	redisReply *const *e = server->reply->element;
	const bool known = redis_has_shape(server->reply, "iss");
	const uint64_t fence = known ? strtoull(e[1]->str, NULL, 10) : 0;

	if (redis_has_shape(server->reply, "s"))
		error_set(&server->error, ERROR_REFUSED, 0, "%s: key '%.220s' is a %.20s of "
			  "another program: dlock does not delete it", server->address.label,
			  client->keys[KEY_LOCK], e[0]->str);
	if (!redis_has_shape(server->reply, "i"))
		return false;
	if (e[0]->integer != 1) {
		standing->lost++;
		standing->resent += server->resent;
		standing->empty |= (unsigned)(e[0]->integer == 0) << (server - client->servers);
		standing->refused |= e[0]->integer == 3;
		return true;
	}
	standing->held++;
	if (known && fence < BACKEND_FENCE_END && (!standing->best || fence > standing->fence)) {
		standing->best = server->reply;
		standing->fence = fence;
	}
	return true;
}

static void read_answers(const struct redis_client *client, struct standing *standing)
{
	*standing = (struct standing){ .held = 0 };
	for (int i = 0; i < client->count; i++) {
		struct redis_server *server = &client->servers[i];

		if (server->state != SERVER_ANSWERED ||
		    read_answer(client, server, standing))
			continue;
		server->state = SERVER_FAILED;
		if (server->error.kind == ERROR_NONE)
			redis_odd(server, &server->error);
	}
}

/*
 * HELD: a majority has the hold. LOST: too many have lost it for the others to be a majority. ERROR
 * with *err: too few have answered.
 */
static enum outcome classify_standing(const struct redis_client *client,
				      const struct standing *standing, const char *how,
				      struct error *err)
{
	if (standing->held >= client->quorum)
		return OUTCOME_HELD;
	if (standing->lost <= client->count - client->quorum) {
		redis_no_majority(client, standing->held, err);
		return OUTCOME_ERROR;
	}
	if (client->count == 1)
		error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' %s",
			  client->servers[0].address.label, client->keys[KEY_LOCK], how);
	else
		error_set(err, ERROR_REFUSED, 0, "%d of %d nodes no longer have the lock",
			  standing->lost, client->count);
	return OUTCOME_LOST;
}

/* ---- renewing ---- */

/*
 * Restore the lock on the servers that have lost it, while a majority has it. A server where
 * somebody else holds it changes nothing.
 */
static void restore_lock(struct redis_client *client, const struct request *request,
			 const struct standing *standing)
{
	char *text = memory_copy(standing->best->element[2]->str);
	struct redis_call call = { .servers = standing->empty };
	struct request restored = *request;
	struct error ignored;

	restored.mode = HOLD_EXCLUSIVE;
	restored.text = text;
	redis_send_acquire(client, &restored, false, standing->fence, &call, &ignored);
	free(text);
}

/*
 * Wait until client->replicas replicas have the writes of a script that was sent at sent_ms
 * (CLOCK_BOOTTIME), so that the hold survives a failover: Redis replicates asynchronously. Script
 * and wait together last as long as one request at most. A new connection fails, because WAIT
 * covers only the writes of its own connection.
 */
static int await_replicas(struct redis_client *client, int64_t sent_ms, struct error *err)
{
	struct redis_server *server = &client->servers[0];
	const int64_t left_ms = sent_ms + client->base.timeout_ms - clock_boot_ms();
	char count[TEXT_DIGITS_SIZE], wait[TEXT_DIGITS_SIZE];
	/* The other half is for the answer to arrive. */
	const char *const command[] = {
		"WAIT", redis_digits(client->replicas, count),
		redis_digits(left_ms < 2 ? 1 : left_ms / 2, wait), NULL
	};
	const struct redis_call call = { .command = command, .timeout_ms = left_ms };
	long long have;

	/* WAIT with a time of 0 would wait for ever. */
	if (left_ms < 2 || !redis_conn_is_open(&server->main))
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "%s: no time was left to ask whether the replicas have the lock",
				 server->address.label);
	if (redis_round(client, &call, err)) {
		/* No later request is answered before WAIT is. */
		redis_conn_close(&server->main);
		return -1;
	}
	if (server->state != SERVER_ANSWERED)
		return redis_no_majority(client, 0, err);
	if (server->tries || server->reply->type != REDIS_REPLY_INTEGER)
		return redis_odd(server, err);
	have = server->reply->integer;
	if (have >= client->replicas)
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: only %lld of %lld replicas ha%s the lock",
			 server->address.label, have, (long long)client->replicas,
			 have == 1 ? "s" : "ve");
}

enum outcome redis_grant(struct redis_client *client, int64_t sent_ms,
			 const struct request *request, struct grant *grant, struct error *err)
{
	if (client->replicas && await_replicas(client, sent_ms, err))
		return OUTCOME_ERROR;
	if (client->count > 1 && lease_end(sent_ms, request->ttl_ms) <= clock_boot_ms()) {
		error_set(err, ERROR_UNAVAILABLE, 0, "the nodes answered so late that nothing of "
			  "the TTL was left: take a longer one");
		return OUTCOME_ERROR;
	}
	grant->sent_ms = sent_ms;
	grant->ttl_ms = request->ttl_ms;
	return OUTCOME_HELD;
}

enum outcome redis_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	char ttl[TEXT_DIGITS_SIZE];
	struct redis_call call = {
		.what = "renew", .token = request->token,
		.arguments = { redis_digits(request->ttl_ms, ttl),
			       request->text ? request->text : "" },
	};
	const struct request shared = { .mode = HOLD_SHARED, .ttl_ms = INT64_MAX };
	const int64_t sent_ms = clock_boot_ms();
	struct standing standing;
	enum outcome outcome;

	if (redis_run(client, request->name, &call, err))
		return OUTCOME_ERROR;
	read_answers(client, &standing);
	if (standing.refused && !redisson_admits(client, &shared, err))
		return OUTCOME_ERROR;
	outcome = classify_standing(client, &standing,
				    standing.empty ? "is gone" : "belongs to somebody else now",
				    err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	grant->fence = standing.fence;
	if (standing.empty && standing.best)
		restore_lock(client, request, &standing);
	return redis_grant(client, sent_ms, request, grant, err);
}

/* ---- listening ---- */

static int count_listening(const struct redis_client *client)
{
	int count = 0;

	for (int i = 0; i < client->count; i++)
		count += redis_conn_is_open(&client->servers[i].wake);
	return count;
}

static void stop_listening(struct redis_client *client)
{
	for (int i = 0; i < client->count; i++)
		redis_conn_close(&client->servers[i].wake);
}

/*
 * Subscribe to the channel of owner and to keys[KEY_SHARED], where this is not done. The waiter
 * counts as alive from then on. Returns 0, or -1 if fewer than a majority listen.
 */
static int listen_servers(struct redis_client *client, const char *owner, struct error *err)
{
	char *own = memory_format("%s%s", client->keys[KEY_CHANNEL], owner);
	const char *const command[] = { "SUBSCRIBE", own, client->keys[KEY_SHARED], NULL };
	struct redis_call call = { .command = command, .wake = true,
				   .least = client->quorum - count_listening(client) };
	int failed;

	for (int i = 0; i < client->count; i++)
		if (!redis_conn_is_open(&client->servers[i].wake))
			call.servers |= 1u << i;
	failed = call.servers ? redis_round(client, &call, err) : 0;
	free(own);
	for (int i = 0; i < client->count; i++)
		if (call.servers & 1u << i && client->servers[i].state != SERVER_ANSWERED)
			redis_conn_close(&client->servers[i].wake);
	if (failed || count_listening(client) >= client->quorum)
		return failed;
	return redis_no_majority(client, count_listening(client), err);
}

int redis_fd(struct backend *backend)
{
	return redis_from_backend(backend)->set_fd;
}

/* ---- messages ---- */

/*
 * Returns when to try after a message: at once, or after as many ms as it names. Redisson's own
 * messages are small numbers and mean at once, like the end of a subscription, when a slot has
 * moved. Answers to SUBSCRIBE have no text.
 */
static int64_t read_message(const redisReply *reply)
{
	int64_t delay_ms;

	if (redis_has_shape(reply, "s") && !strcmp(reply->element[0]->str, "sunsubscribe"))
		return 0;
	if (!redis_has_shape(reply, "..s"))
		return CLOCK_NEVER;
	delay_ms = strtoll(reply->element[2]->str, NULL, 10);
	return delay_ms >= HOLD_LATE_MS && delay_ms < HOLD_RETRY_MS ? clock_boot_ms() + delay_ms
								     : 0;
}

/*
 * More messages at once than this end the connection, because an endless stream must not keep its
 * reader busy. A process that was stopped for long finds fewer.
 */
#define MOST_MESSAGES 10000

/* Read the messages of one server. Returns when to try. */
static int64_t read_messages(struct redis_server *server)
{
	int64_t next_ms = CLOCK_NEVER, at_ms;
	redisReply *reply;

	for (int count = 0; redis_conn_poll(&server->wake, &reply) > 0; count++) {
		at_ms = read_message(reply);
		if (at_ms == 0)
			server->woken = true;
		else
			next_ms = clock_earlier(next_ms, at_ms);
		freeReplyObject(reply);
		if (count == MOST_MESSAGES)
			redis_conn_close(&server->wake);
	}
	return next_ms;
}

/* Read the messages of all servers. Returns when to try. */
static int64_t receive_wakes(struct redis_client *client)
{
	int64_t next_ms = CLOCK_NEVER;
	int woken = 0;

	for (int i = 0; i < client->count; i++) {
		next_ms = clock_earlier(next_ms, read_messages(&client->servers[i]));
		woken += client->servers[i].woken;
	}
	if (count_listening(client) < client->quorum)
		return clock_boot_ms() + RECONNECT_MS;
	if (woken >= client->quorum)
		return 0;
	return woken ? clock_earlier(next_ms, clock_boot_ms() + GATHER_MS) : next_ms;
}

int64_t redis_event(struct backend *backend)
{
	struct redis_client *client = redis_from_backend(backend);
	const bool listens = count_listening(client);
	bool ended = false;

	for (int i = 0; i < client->count; i++)
		ended |= redis_server_drain(&client->servers[i]);
	if (listens)
		return receive_wakes(client);
	return ended ? clock_boot_ms() + (client->count == 1 ? RECONNECT_MS : HEAL_MS)
		     : CLOCK_NEVER;
}

/* ---- acquiring ---- */

int redis_send_acquire(struct redis_client *client, const struct request *request, bool enqueue,
		       uint64_t least, struct redis_call *call, struct error *err)
{
	char ttl[TEXT_DIGITS_SIZE], mode[TEXT_DIGITS_SIZE], queued_at[TEXT_DIGITS_SIZE];
	char fence[TEXT_DIGITS_SIZE];

	call->what = "acquire";
	call->token = request->token;
	call->arguments[0] = redis_digits(request->ttl_ms, ttl);
	call->arguments[1] = hold_mode_text(request->mode, request->slots, mode);
	call->arguments[2] = request->text;
	call->arguments[3] = redis_digits(client->queued_us, queued_at);
	call->arguments[4] = redis_digits((int64_t)least, fence);
	call->arguments[5] = enqueue ? "1" : "0";
	return redis_run(client, request->name, call, err);
}

/* Read the reply of acquire (lua/common.lua). */
static enum outcome read_grant(struct redis_client *client, const struct request *request,
			       struct grant *grant, struct error *err)
{
	const redisReply *reply = client->servers[0].reply;
	redisReply *const *e = reply->element;

	if (redis_has_shape(reply, "is") && e[0]->integer == 1) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		if (grant->fence)
			return OUTCOME_HELD;
	} else if (redis_has_shape(reply, "ii") && e[0]->integer == 2) {
		if (client->kind)
			error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the semaphore, "
				  "which has %lld permits", request->slots, e[1]->integer);
		else
			hold_mode_slots_agree((int)e[1]->integer, request, err);
		return OUTCOME_ERROR;
	} else if (redis_has_shape(reply, "iiisi") && e[0]->integer == 0) {
		client->queued_us = strtoll(e[3]->str, NULL, 10);
		grant->retry_ms = hold_retry_at(e[1]->integer, e[2]->integer, e[4]->integer);
		grant->poll_ms = e[2]->integer == 0 && e[4]->integer ? HOLD_FOREIGN_MS : 0;
		return OUTCOME_BUSY;
	}
	redis_odd(&client->servers[0], err);
	return OUTCOME_ERROR;
}

static enum outcome try_acquire(struct redis_client *client, const struct request *request,
				bool enqueue, struct grant *grant, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms(), queued_us = client->queued_us;
	struct redis_call call = { .what = NULL };
	struct error ignored = { 0 };
	enum outcome outcome;

	if (redis_send_acquire(client, request, enqueue, 0, &call, err))
		return OUTCOME_ERROR;
	outcome = read_grant(client, request, grant, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	outcome = redis_grant(client, sent_ms, request, grant, err);
	/*
	 * Too few replicas have it: the waiter keeps its position. The engine releases after a
	 * request that it has cancelled.
	 */
	if (outcome == OUTCOME_ERROR && err->kind != ERROR_CANCELLED) {
		redis_release(&client->base, request, &ignored);
		client->queued_us = queued_us;
	}
	return outcome;
}

enum outcome redis_acquire(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	redis_attempt_fn *const attempt = client->attempt ? client->attempt : try_acquire;
	char owner[REDIS_OWNER_SIZE];
	enum outcome outcome;
	bool listens;

	if (!redisson_admits(client, request, err))
		return OUTCOME_ERROR;
	for (int i = 0; i < client->count; i++)
		client->servers[i].woken = false;
	/* Most locks are free: try once before subscribing, unless this token is in the queue. */
	outcome = attempt(client, request, request->queue && count_listening(client), grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/*
		 * Listen before the next try, so that no message is missed, also where the lock has
		 * moved to. A waiter whose channel has no listener counts as dead.
		 */
		listens = count_listening(client);
		redisson_owner(client->kind, request->token, owner);
		if (listen_servers(client, owner, err))
			return OUTCOME_ERROR;
		if (!listens)
			outcome = attempt(client, request, true, grant, err);
	}
	/* It has moved once more: do not sleep for long without a channel. */
	if (outcome == OUTCOME_BUSY && request->queue && !count_listening(client))
		grant->retry_ms = clock_boot_ms() + RECONNECT_MS;
	if (outcome == OUTCOME_HELD) {
		stop_listening(client);
		/* A later wait begins at the end of the queue. */
		client->queued_us = 0;
	}
	return outcome;
}

/* ---- releasing ---- */

enum outcome redis_release(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	char keep[TEXT_DIGITS_SIZE];
	struct redis_call call = {
		.what = "release", .token = request->token,
		.arguments = { redis_digits(request->keep_ms, keep),
			       request->text ? request->text : "", "0", "0" },
	};
	struct standing standing;
	enum outcome outcome;

	/* No script has to call this token any more. */
	stop_listening(client);
	if (redis_run(client, request->name, &call, err))
		return OUTCOME_ERROR;
	client->queued_us = 0;
	read_answers(client, &standing);
	if (client->count > 1)
		client->base.resent = standing.held + standing.resent >= client->quorum;
	outcome = classify_standing(client, &standing, "does not have this token any more", err);
	/* No majority has it any more, although some released it before they were asked again. */
	return outcome == OUTCOME_ERROR && client->count > 1 && client->base.resent ? OUTCOME_LOST
										    : outcome;
}

/* ---- breaking ---- */

enum outcome redis_break(struct backend *backend, const char *name, const struct row *row,
			 struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	struct redis_call call = { .what = "break", .token = "", .arguments = { row->id } };
	struct standing standing;

	if (redis_run(client, name, &call, err))
		return OUTCOME_ERROR;
	read_answers(client, &standing);
	if (standing.held + standing.lost >= client->quorum)
		return standing.held ? OUTCOME_HELD : OUTCOME_LOST;
	redis_no_majority(client, standing.held + standing.lost, err);
	return OUTCOME_ERROR;
}
