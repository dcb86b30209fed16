/* SPDX-License-Identifier: MIT */
/* Rounds: one request to all servers at once, and their connections: client.h. */
#include "client.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lock/hold.h"

/*
 * A server that has not answered this many requests hangs, and gets nothing more but a release:
 * other requests would only fill a buffer.
 */
#define MOST_STALE 8
/* The least time between two look-ups of the names of several servers. */
#define LOOK_UP_MS 30000

static struct redis_conn *conn_of(struct redis_server *server, const struct redis_call *call)
{
	return call->wake ? &server->wake : &server->main;
}

/* ---- the object ---- */

void redis_client_init(struct redis_client *client, size_t count)
{
	client->servers = memory_new(count, sizeof(client->servers[0]));
	client->count = (int)count;
	client->quorum = client->count / 2 + 1;
	client->set_fd = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < count; i++) {
		struct redis_server *server = &client->servers[i];

		server->main = (struct redis_conn){ .address = &server->address,
						    .stream.fd = -1,
						    .set_fd = client->set_fd };
		server->wake = server->main;
	}
}

static void finish_route(struct redis_route *route)
{
	if (route->sentinel)
		redis_client_finish(route->sentinel);
	free(route->sentinel);
	free(route->endpoints);
	free(route->master);
	free(route);
}

void redis_client_finish(struct redis_client *client)
{
	redis_free_replies(client);
	for (int i = 0; i < client->count; i++)
		redis_server_leave(&client->servers[i]);
	for (int i = 0; i < REDIS_KEYS; i++)
		free(client->keys[i]);
	close(client->set_fd);
	if (client->route)
		finish_route(client->route);
	free(client->servers);
}

void redis_server_leave(struct redis_server *server)
{
	redis_conn_close(&server->wake);
	redis_conn_close(&server->main);
}

/* ---- connecting ---- */

/*
 * Look up the server, and keep its old addresses if the name is not found. A Unix socket has its
 * address already.
 */
static void look_up(struct redis_server *server)
{
	const struct redis_endpoint *at = &server->address.at;
	struct net_address found[NET_ADDRESSES];
	const int count = at->port ? net_resolve(at->host, at->port, found, &server->unresolved)
				   : 0;

	if (count < 1)
		return;
	memcpy(server->found, found, (size_t)count * sizeof(found[0]));
	server->found_count = count;
}

/*
 * Look up the servers without an address, at most every 30 s after the first time, because a slow
 * resolver blocks. Without a connection to a majority, also look up the servers that are missing,
 * because their addresses may have changed. A missing minority is not needed, and must not delay a
 * renewal. A single server is looked up for each connection.
 */
static void look_up_all(struct redis_client *client)
{
	int unreached = 0;

	if (client->count == 1 ||
	    (client->looked_up_ms && clock_boot_ms() < client->looked_up_ms + LOOK_UP_MS))
		return;
	for (int i = 0; i < client->count; i++)
		unreached += client->servers[i].unreached;
	for (int i = 0; i < client->count; i++) {
		struct redis_server *server = &client->servers[i];

		if (server->found_count < 1) {
			look_up(server);
		} else if (server->unreached && unreached > client->count - client->quorum) {
			look_up(server);
			/*
			 * A connection under way may lead to an old address. One with unanswered
			 * requests stays, because the server could handle them after those of a
			 * new connection.
			 */
			if (!server->main.ignored)
				redis_conn_close(&server->main);
		}
	}
	client->looked_up_ms = clock_boot_ms();
}

/* Begin to connect to the next address. */
static int begin_connection(struct redis_server *server, struct redis_conn *conn,
			    struct error *err)
{
	const struct net_address *address;
	int fd = -1;

	server->tries++;
	if (server->found_count > 0) {
		server->next %= server->found_count;
		address = &server->found[server->next];
		fd = net_connect_begin((const struct sockaddr *)&address->address,
				       address->length, err);
	} else {
		*err = server->unresolved;
	}
	if (fd < 0)
		return error_prefix(err, "%s", server->address.label);
	redis_conn_begin(conn, fd, conn == &server->wake);
	return 0;
}

/* ---- one server in a round ---- */

/* Append a command whose answer is dropped. */
static void send_before(struct redis_conn *conn, const char *command, const char *argument)
{
	redis_conn_send(conn, (const char *const[]){ command, argument, NULL });
	conn->ignored++;
}

/* Append the request to the output. */
static void send_request(const struct redis_client *client, struct redis_server *server,
			 const struct redis_call *call, bool as_text)
{
	const char *argv[3 + REDIS_KEYS + 5 + REDIS_ARGUMENTS + 4 + 1];
	char owner[REDIS_OWNER_SIZE], keys[TEXT_DIGITS_SIZE], most[TEXT_DIGITS_SIZE];
	char late[TEXT_DIGITS_SIZE], queue[TEXT_DIGITS_SIZE];
	const struct script *script = client->kind ? &script_redisson : &script_plain;
	struct redis_conn *conn = conn_of(server, call);
	int argc = 3;

	if (client->route && client->route->asking)
		send_before(conn, "ASKING", NULL);
	/* For the messages of Redisson in a cluster of Redis 7 or newer. An error does no harm. */
	if (client->sharded && call->wake)
		send_before(conn, "SSUBSCRIBE", call->command[call->command[2] ? 2 : 1]);
	if (call->what) {
		argv[0] = as_text ? "EVAL" : "EVALSHA";
		argv[1] = as_text ? script->text : script->sha1;
		for (int i = 0; i < KEY_CHANNEL; i++)
			if (client->keys[i])
				argv[argc++] = client->keys[i];
		argv[2] = redis_digits(argc - 3, keys);
		argv[argc++] = call->what;
		argv[argc++] = client->keys[KEY_CHANNEL];
		argv[argc++] = redisson_owner(client->kind, call->token, owner);
		argv[argc++] = redis_digits(HOLD_LATE_MS, late);
		argv[argc++] = redis_digits(HOLD_QUEUE_MS, queue);
		for (int i = 0; call->arguments[i]; i++)
			argv[argc++] = call->arguments[i];
		if (client->kind) {
			argv[argc++] = client->kind->name;
			argv[argc++] = client->keys[KEY_SHARED] ? client->keys[KEY_SHARED] : "";
			argv[argc++] = redis_digits(client->most_read_ms, most);
			argv[argc++] = client->sharded ? "1" : "0";
		}
		argv[argc] = NULL;
	}
	redis_conn_send(conn, call->what ? argv : call->command);
	server->sent = true;
	server->as_text = as_text;
}

bool redis_server_drain(struct redis_server *server)
{
	redisReply *reply = NULL;

	if (!redis_conn_is_open(&server->main) || !redis_conn_poll(&server->main, &reply))
		return false;
	/* An unsolicited answer counts as the end of the connection. */
	freeReplyObject(reply);
	redis_conn_close(&server->main);
	return true;
}

static void begin_server(const struct redis_client *client, struct redis_server *server,
			 const struct redis_call *call)
{
	freeReplyObject(server->reply);
	server->reply = NULL;
	server->state = SERVER_UNASKED;
	server->resent = server->sent = false;
	server->tries = 0;
	server->error = (struct error){ 0 };
	if (call->servers && !(call->servers & 1u << (server - client->servers)))
		return;
	server->state = SERVER_ASKED;
	/* The answers may be there: while calls fail, the engine reads no events. */
	if (server->main.ignored >= MOST_STALE)
		redis_server_drain(server);
	if (server->main.ignored < MOST_STALE || (call->what && !strcmp(call->what, "release")))
		return;
	server->state = SERVER_FAILED;
	redis_conn_silent(&server->main, &server->error);
}

/*
 * Handle a failed connection. Until a round has tried each address, it goes on with the next one. A
 * request that was sent is sent once more, over a new connection.
 */
static void end_connection(struct redis_server *server, struct redis_conn *conn,
			   const struct error *err)
{
	const bool final = err->kind != ERROR_UNAVAILABLE;

	/* Keep an earlier error: a later one may only mean that this host has no IPv6. */
	if (redis_conn_is_open(conn) || server->error.kind == ERROR_NONE)
		server->error = *err;
	server->resent |= server->sent;
	server->next += !server->sent && server->tries && !final;
	server->sent = false;
	server->unreached = true;
	redis_conn_close(conn);
	if (final || server->tries >= server->found_count + server->resent)
		server->state = SERVER_FAILED;
}

/* Take the answer to this round's request, or the end of connecting. */
static void take_answer(const struct redis_client *client, struct redis_server *server,
			const struct redis_call *call)
{
	server->unreached = false;
	server->error = (struct error){ 0 };
	server->state = SERVER_ANSWERED;
	if (!server->reply || server->reply->type != REDIS_REPLY_ERROR)
		return;
	if (call->what && !server->as_text && !strncmp(server->reply->str, "NOSCRIPT", 8)) {
		freeReplyObject(server->reply);
		server->reply = NULL;
		server->state = SERVER_ASKED;
		send_request(client, server, call, true);
		return;
	}
	server->state = SERVER_FAILED;
	server->sent = redis_is_torn(server->reply->str);
	redis_refusal(&server->address, server->reply->str, &server->error);
}

/* Continue with one server until it has to be waited for. */
static void step_server(const struct redis_client *client, struct redis_server *server,
			const struct redis_call *call, bool readable)
{
	struct redis_conn *conn = conn_of(server, call);
	struct error err;
	int state;

	while (server->state == SERVER_ASKED) {
		err = (struct error){ 0 };
		state = redis_conn_is_open(conn) ? 0 : begin_connection(server, conn, &err);
		if (!state)
			state = redis_conn_reach(conn, &err);
		if (state > 0 && (call->what || call->command)) {
			/*
			 * Behind an unanswered request, send a script as its text: the answer
			 * NOSCRIPT might never be read.
			 */
			if (!server->sent)
				send_request(client, server, call, server->main.ignored > 0);
			state = redis_conn_step(conn, readable, &server->reply, &err);
		}
		if (state == 0)
			break;
		if (state > 0)
			take_answer(client, server, call);
		else
			end_connection(server, conn, &err);
		readable = false;
	}
}

/*
 * End the round for a server that has not answered. A single server gets another connection for the
 * next request, unless the round was cancelled.
 */
static void leave_server(const struct redis_client *client, struct redis_server *server,
			 const struct redis_call *call, bool cancelled)
{
	struct redis_conn *conn = conn_of(server, call);

	redis_conn_silent(conn, &server->error);
	server->unreached |= !server->sent;
	if (call->wake || (client->count == 1 && !cancelled))
		redis_conn_close(conn);
	else
		conn->ignored += server->sent;
}

bool redis_may_have_done(const struct redis_server *server)
{
	return server->state == SERVER_UNASKED || server->sent || server->resent;
}

/* ---- a round ---- */

void redis_free_replies(struct redis_client *client)
{
	for (int i = 0; i < client->count; i++) {
		freeReplyObject(client->servers[i].reply);
		client->servers[i].reply = NULL;
	}
}

int redis_count(const struct redis_client *client, enum redis_state state)
{
	int count = 0;

	for (int i = 0; i < client->count; i++)
		count += client->servers[i].state == state;
	return count;
}

/* Sleep until a server is ready or until_ms has come. False: cancelled. */
static bool sleep_until(struct redis_client *client, const struct redis_call *call,
			int64_t until_ms)
{
	struct pollfd fds[REDIS_MOST_SERVERS + 1];

	for (int i = 0; i < client->count; i++) {
		const struct redis_conn *conn = conn_of(&client->servers[i], call);

		fds[i].fd = client->servers[i].state == SERVER_ASKED ? conn->stream.fd : -1;
		fds[i].events = conn->stream.wanted;
		fds[i].revents = 0;
	}
	fds[client->count] = (struct pollfd){ .fd = client->base.cancel_fd, .events = POLLIN };
	if (poll(fds, (nfds_t)client->count + 1, clock_poll_timeout(until_ms)) <= 0)
		return true;
	for (int i = 0; i < client->count; i++)
		if (fds[i].revents)
			step_server(client, &client->servers[i], call, fds[i].revents & ~POLLOUT);
	return !fds[client->count].revents;
}

static bool is_same_server(const struct redis_server *a, const struct redis_server *b)
{
	return a->state == SERVER_ANSWERED && b->state == SERVER_ANSWERED && a->main.known &&
	       b->main.known && a->main.run_id[0] && !strcmp(a->main.run_id, b->main.run_id);
}

/*
 * Count only the first answer of a server with two names, which would give it two votes. The names
 * may lead to one server only since the lock was acquired.
 */
static void fail_duplicates(struct redis_client *client)
{
	client->duplicate = NULL;
	for (int i = 0; i < client->count; i++) {
		struct redis_server *server = &client->servers[i];

		for (int j = 0; j < i; j++) {
			if (!is_same_server(server, &client->servers[j]))
				continue;
			server->state = SERVER_FAILED;
			client->duplicate = server;
			error_set(&server->error, ERROR_REFUSED, 0, "%s and %s are the same "
				  "server: redlock: needs nodes that do not depend on each other",
				  client->servers[j].address.label, server->address.label);
		}
	}
}

int redis_round(struct redis_client *client, const struct redis_call *call, struct error *err)
{
	int64_t most_ms, patience_ms, until_ms;
	bool goes_on = true, polled = false;

	look_up_all(client);
	for (int i = 0; i < client->count; i++)
		begin_server(client, &client->servers[i], call);
	for (int i = 0; i < client->count; i++)
		step_server(client, &client->servers[i], call, false);
	/* Time counts from here: with TLS, files were read until now. */
	patience_ms = clock_boot_ms() + client->patience_ms;
	most_ms = clock_boot_ms() + (call->timeout_ms ? call->timeout_ms : client->base.timeout_ms);
	if (client->until_ms)
		most_ms = clock_earlier(most_ms, client->until_ms);
	patience_ms = client->count == 1 ? most_ms : clock_earlier(patience_ms, most_ms);
	while (goes_on && redis_count(client, SERVER_ASKED) &&
	       !(call->decided && call->decided(client, call->state))) {
		until_ms = redis_count(client, SERVER_ANSWERED) < call->least ? most_ms
									      : patience_ms;
		/* Poll once before giving up: this process may have been stopped. */
		if (polled && clock_boot_ms() >= until_ms)
			break;
		goes_on = sleep_until(client, call, until_ms);
		polled = true;
	}
	for (int i = 0; i < client->count; i++)
		if (client->servers[i].state == SERVER_ASKED)
			leave_server(client, &client->servers[i], call, !goes_on);
	fail_duplicates(client);
	return goes_on ? 0 : error_set(err, ERROR_CANCELLED, 0, "cancelled");
}

/*
 * The best reason is a refusal. The last one is a missing answer, because a round may end before
 * the server's time is over.
 */
int redis_no_majority(const struct redis_client *client, int answered, struct error *err)
{
	const struct redis_server *why = NULL;
	int refused = 0;

	for (int i = 0; i < client->count; i++) {
		const struct redis_server *server = &client->servers[i];

		/* An error in the URI or on this host is the same for all servers. */
		if (client->count == 1 || server->error.kind == ERROR_USAGE ||
		    server->error.kind == ERROR_INTERNAL) {
			*err = server->error;
			return -1;
		}
		refused += server->error.kind == ERROR_REFUSED;
		if (server->error.kind != ERROR_NONE &&
		    (!why || why->state == SERVER_ASKED || server->error.kind == ERROR_REFUSED))
			why = server;
	}
	return error_set(err, refused > client->count - client->quorum ? ERROR_REFUSED
								       : ERROR_UNAVAILABLE, 0,
			 "no majority: %d of %d nodes can be used, %d are needed%s%.300s", answered,
			 client->count, client->quorum, why ? "; " : "",
			 why ? why->error.message : "");
}

/* ---- calls ---- */

/* An address that does not answer leaves time for the others. */
int redis_reach(struct redis_client *client, int64_t limit_ms, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + limit_ms;
	struct redis_server *server = &client->servers[0];
	struct redis_call call = { .least = 1 };
	int left;

	if (redis_conn_is_open(&server->main) && server->main.stream.reached)
		return 0;
	look_up(server);
	left = net_is_local(server->address.at.host) || server->found_count < 1
		? 1 : server->found_count;
	do {
		call.timeout_ms = (until_ms - clock_boot_ms()) / left + 1;
		if (redis_round(client, &call, err))
			return -1;
		server->next += server->state != SERVER_ANSWERED;
	} while (server->state == SERVER_ASKED && --left > 0);
	return server->state == SERVER_ANSWERED ? 0 : redis_no_majority(client, 0, err);
}

/*
 * Make the names of all keys that have none yet, in one slot of a cluster: Redis puts keys with the
 * same text in braces into one slot. A name may have such a text, which then also counts with a
 * suffix (Redis cluster specification, "Hash tags"). The second colon behind it tells the keys of
 * the lock "{a}" from those of "a".
 */
void redis_make_keys(struct redis_client *client, const char *name)
{
	static const char *const suffixes[REDIS_KEYS] = {
		[KEY_HOLDERS] = ":holders", [KEY_QUEUE] = ":queue", [KEY_WAITERS] = ":waiters",
		[KEY_FENCE] = ":fence", [KEY_CHANNEL] = ":wake:",
	};
	char **keys = client->keys;
	const char *brace;

	if (keys[KEY_LOCK])
		return;
	keys[KEY_LOCK] = memory_format("%s%s", client->prefix, name);
	if (client->kind)
		redisson_make_keys(client);
	brace = strchr(keys[KEY_LOCK], '{');
	for (int i = 0; i < REDIS_KEYS; i++)
		if (suffixes[i] && !keys[i])
			keys[i] = memory_format(brace && strchr(brace, '}') ? "%s:%s" : "{%s}%s",
						keys[KEY_LOCK], suffixes[i]);
}

int redis_odd(struct redis_server *server, struct error *err)
{
	redis_conn_close(&server->main);
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: unexpected reply",
			 server->address.label);
}
