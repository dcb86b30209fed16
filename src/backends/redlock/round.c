/* SPDX-License-Identifier: MIT */
#include "round.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/*
 * A node that has not answered so many requests is asked for nothing more but a release: it hangs,
 * and what it would be sent only fills a buffer.
 */
#define MOST_STALE 8
/* How often names are looked up that could not be found, or lead to no server. */
#define LOOK_UP_MS 30000

static struct redis_conn *conn_of(struct redlock_node *node, const struct redlock_call *call)
{
	return call->wake ? &node->wake : &node->main;
}

/* Is nothing asked of the nodes but to be there? */
static bool is_empty(const struct redlock_call *call)
{
	return !call->what && !call->command;
}

/* ---- one node ---- */

/* Puts the request behind what is still to be sent. text: with the script, and not its digest. */
static void send_request(const struct redlock *lock, struct redlock_node *node,
			 const struct redlock_call *call, bool text)
{
	const char *argv[3 + REDIS_KEYS + 3 + REDLOCK_ARGUMENTS];
	struct redis_conn *conn = conn_of(node, call);
	const size_t before = conn->unsent_length;
	int argc = 0;

	if (call->what) {
		argv[argc++] = text ? "EVAL" : "EVALSHA";
		argv[argc++] = text ? script_plain.text : script_plain.sha1;
		argv[argc++] = "5";
		for (int i = KEY_LOCK; i <= KEY_FENCE; i++)
			argv[argc++] = lock->keys[i];
		argv[argc++] = call->what;
		argv[argc++] = lock->keys[KEY_CHANNEL];
		argv[argc++] = call->token;
		for (int i = 0; call->arguments[i]; i++)
			argv[argc++] = call->arguments[i];
	} else {
		while (call->command[argc]) {
			argv[argc] = call->command[argc];
			argc++;
		}
	}
	redis_conn_send(conn, argc, argv);
	node->length = conn->unsent_length - before;
	node->as_text = text;
}

static void close_conn(struct redlock_node *node, const struct redlock_call *call)
{
	if (call->wake)
		redis_conn_close(&node->wake);
	else
		redlock_node_close(node);
}

/* Connects if there is no connection, and prepares the request. */
static void ask(const struct redlock *lock, struct redlock_node *node,
		const struct redlock_call *call)
{
	node->state = NODE_FAILED;
	if (redlock_node_connect(node, conn_of(node, call), &node->error)) {
		node->unreached = true;
		error_prefix(&node->error, "%s", node->address.label);
		return;
	}
	node->state = NODE_ASKED;
	node->length = 0;
	if (is_empty(call))
		return;
	/* It travels with the first request, so that the server reads and answers both at once. */
	if (!call->wake)
		redlock_node_ask_age(node);
	/*
	 * Behind a request that was not answered a script travels as its text, for the answer that
	 * a server does not know it may never be read.
	 */
	send_request(lock, node, call, node->stale > 0);
}

static void begin(const struct redlock *lock, struct redlock_node *node,
		  const struct redlock_call *call)
{
	freeReplyObject(node->reply);
	node->reply = NULL;
	node->state = NODE_UNASKED;
	node->resent = node->sent = false;
	node->tries = 0;
	node->error = (struct error){ 0 };
	if (call->nodes && !(call->nodes & 1u << (node - lock->nodes)))
		return;
	/* The answers may have come meanwhile: while calls fail, the engine reads no events. */
	if (node->stale >= MOST_STALE)
		redlock_node_drain(node);
	if (node->stale >= MOST_STALE && !(call->what && !strcmp(call->what, "release"))) {
		node->state = NODE_FAILED;
		error_set(&node->error, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: no answer",
			  node->address.label);
		return;
	}
	ask(lock, node, call);
}

/*
 * The connection has failed. Over a new one the request is sent once more, for all of them can be
 * repeated with the same token. An address that cannot be reached is followed by the next one.
 */
static void broke(const struct redlock *lock, struct redlock_node *node,
		  const struct redlock_call *call)
{
	const bool final = node->error.kind != ERROR_UNAVAILABLE;

	if (redis_conn_has_begun(conn_of(node, call), node->length)) {
		node->resent = true;
	} else if (node->tries && !final) {
		if (node->error.errnum)
			error_set(&node->error, ERROR_UNAVAILABLE, node->error.errnum,
				  "%s: cannot connect", node->address.label);
		node->place++;
	}
	close_conn(node, call);
	node->state = NODE_FAILED;
	node->unreached = true;
	if (!final && node->tries < (node->resent ? 2 : node->place_count))
		ask(lock, node, call);
}

/* The answer to this round's request has come, or the node was reached. */
static void answered(const struct redlock *lock, struct redlock_node *node,
		     const struct redlock_call *call)
{
	node->unreached = false;
	if (!node->reply || node->reply->type != REDIS_REPLY_ERROR) {
		node->state = NODE_ANSWERED;
		return;
	}
	if (call->what && !node->as_text && !strncmp(node->reply->str, "NOSCRIPT", 8)) {
		send_request(lock, node, call, true);
	} else {
		redis_refusal(&node->address, node->reply->str, &node->error);
		node->state = NODE_FAILED;
	}
	freeReplyObject(node->reply);
	node->reply = NULL;
}

/* Goes on with one node, until it must be waited for. */
static void go_on(const struct redlock *lock, struct redlock_node *node,
		  const struct redlock_call *call, bool readable)
{
	int state;

	while (node->state == NODE_ASKED) {
		if (is_empty(call))
			state = redis_conn_reach(&node->main, &node->error);
		else
			state = redlock_node_step(node, conn_of(node, call), readable,
						  &node->reply, &node->error);
		if (call->takes && redis_conn_has_begun(conn_of(node, call), node->length))
			node->touched = true;
		if (state > 0)
			answered(lock, node, call);
		else if (state < 0)
			broke(lock, node, call);
		else
			break;
		readable = false;
	}
}

/* The round is over, and the node has not answered. */
static void leave(struct redlock_node *node, const struct redlock_call *call)
{
	struct redis_conn *conn = conn_of(node, call);

	redis_conn_silent(conn, &node->error);
	if (call->wake) {
		redis_conn_close(conn);
	} else if (!is_empty(call)) {
		node->sent = redis_conn_has_begun(conn, node->length);
		if (node->sent) {
			node->stale++;
		} else {
			node->unreached = true;
			redis_conn_take_back(conn, node->length);
		}
	}
}

/* ---- all of them ---- */

int redlock_count(const struct redlock *lock, enum redlock_state state)
{
	int count = 0;

	for (int i = 0; i < lock->count; i++)
		count += lock->nodes[i].state == state;
	return count;
}

static bool is_over(const struct redlock *lock, const struct redlock_call *call)
{
	return !redlock_count(lock, NODE_ASKED) ||
	       (call->decided && call->decided(lock, call->state));
}

/* Sleeps until a node can go on. False: cancelled. */
static bool sleep_until(struct redlock *lock, const struct redlock_call *call, int64_t until_ms)
{
	struct pollfd fds[REDLOCK_MOST_NODES + 1];
	struct redis_conn *conn;

	for (int i = 0; i < lock->count; i++) {
		conn = conn_of(&lock->nodes[i], call);
		fds[i].fd = lock->nodes[i].state == NODE_ASKED ? conn->fd : -1;
		fds[i].events = redis_conn_events(conn);
		fds[i].revents = 0;
	}
	fds[lock->count] = (struct pollfd){ .fd = lock->base.cancel_fd, .events = POLLIN };
	if (poll(fds, (nfds_t)lock->count + 1, clock_poll_timeout(until_ms)) <= 0)
		return true;
	for (int i = 0; i < lock->count; i++)
		if (fds[i].revents)
			go_on(lock, &lock->nodes[i], call, fds[i].revents & ~POLLOUT);
	return !fds[lock->count].revents;
}

/*
 * The names of two nodes may have come to lead to one server since the lock was acquired. Of its
 * answers only the first one counts.
 */
static void fail_twins(struct redlock *lock)
{
	for (int i = 0; i < lock->count; i++) {
		struct redlock_node *node = &lock->nodes[i];

		for (int j = 0; j < i && node->state == NODE_ANSWERED; j++)
			if (lock->nodes[j].state == NODE_ANSWERED &&
			    redlock_node_refuse_twin(&lock->nodes[j], node, &node->error))
				node->state = NODE_FAILED;
	}
}

int redlock_round(struct redlock *lock, const struct redlock_call *call, struct error *err)
{
	int64_t most_ms, node_ms, until_ms;
	bool goes_on = true;

	for (int i = 0; i < lock->count; i++)
		begin(lock, &lock->nodes[i], call);
	for (int i = 0; i < lock->count; i++)
		go_on(lock, &lock->nodes[i], call, false);
	/* From here on the nodes take the time. With TLS, files were read until now. */
	node_ms = clock_boot_ms() + lock->node_timeout_ms;
	most_ms = clock_boot_ms() + (call->timeout_ms ? call->timeout_ms : lock->base.timeout_ms);
	node_ms = clock_earlier(node_ms, most_ms);
	while (goes_on && !is_over(lock, call)) {
		until_ms = redlock_count(lock, NODE_ANSWERED) < call->least ? most_ms : node_ms;
		if (clock_boot_ms() >= until_ms)
			break;
		goes_on = sleep_until(lock, call, until_ms);
	}
	for (int i = 0; i < lock->count; i++)
		if (lock->nodes[i].state == NODE_ASKED)
			leave(&lock->nodes[i], call);
	fail_twins(lock);
	if (goes_on)
		return 0;
	return error_set(err, ERROR_CANCELLED, 0, "cancelled");
}

/*
 * How much the error of a node says: a refusal the most, and the least that a node has not answered
 * yet, for a round may have ended before its time was over. 0: there is none.
 */
static int worth(const struct redlock_node *node)
{
	if (node->error.kind == ERROR_NONE)
		return 0;
	if (node->error.kind == ERROR_REFUSED)
		return 3;
	return node->state == NODE_ASKED ? 1 : 2;
}

int redlock_no_majority(const struct redlock *lock, int answered, struct error *err)
{
	const struct redlock_node *why = NULL;
	int refused = 0;

	for (int i = 0; i < lock->count; i++) {
		const struct error *error = &lock->nodes[i].error;

		/* What is wrong in the URI or on this host is not a matter of the nodes. */
		if (error->kind == ERROR_USAGE || error->kind == ERROR_INTERNAL) {
			*err = *error;
			return -1;
		}
		refused += error->kind == ERROR_REFUSED;
		if (worth(&lock->nodes[i]) > (why ? worth(why) : 0))
			why = &lock->nodes[i];
	}
	return error_set(err, refused > lock->count - lock->quorum ? ERROR_REFUSED
								   : ERROR_UNAVAILABLE, 0,
			 "no majority: %d of %d nodes can be used, %d are needed%s%.300s", answered,
			 lock->count, lock->quorum, why ? "; " : "", why ? why->error.message : "");
}

/* ---- before others ---- */

/* Keeps the addresses that the node has if its name is not found. */
static void look_up(struct redlock_node *node)
{
	struct net_address places[NET_ADDRESSES];
	struct error ignored;
	const int count = net_look_up(node->address.host, node->address.port, places, &ignored);

	if (count < 1)
		return;
	memcpy(node->places, places, (size_t)count * sizeof(places[0]));
	node->place_count = count;
	/*
	 * A connection that is still being made may lead to an old address. What a node was sent
	 * and has not answered, it may carry out after what comes over the next connection, so that
	 * such a connection stays.
	 */
	if (node->unreached && node->stale == 0)
		redlock_node_close(node);
}

void redlock_look_up(struct redlock *lock)
{
	int unreached = 0;

	if (lock->looked_up_ms && clock_boot_ms() < lock->looked_up_ms + LOOK_UP_MS)
		return;
	for (int i = 0; i < lock->count; i++)
		unreached += lock->nodes[i].unreached;
	for (int i = 0; i < lock->count; i++) {
		struct redlock_node *node = &lock->nodes[i];

		if (node->place_count < 1 ||
		    (node->unreached && unreached > lock->count - lock->quorum))
			look_up(node);
	}
	lock->looked_up_ms = clock_boot_ms();
}

void redlock_begin(struct redlock *lock, const char *name)
{
	redis_make_keys(lock->prefix, name, lock->keys);
	redlock_look_up(lock);
}

static bool is_majority(const struct redlock *lock, const void *state)
{
	(void)state;
	return redlock_count(lock, NODE_ANSWERED) >= lock->quorum;
}

int redlock_reach(struct redlock *lock, const char *const *command, struct error *err)
{
	const struct redlock_call call = {
		.command = command, .least = lock->quorum,
		.timeout_ms = lock->base.connect_timeout_ms, .decided = is_majority,
	};

	redlock_look_up(lock);
	if (redlock_round(lock, &call, err))
		return -1;
	if (is_majority(lock, NULL))
		return 0;
	return redlock_no_majority(lock, redlock_count(lock, NODE_ANSWERED), err);
}
