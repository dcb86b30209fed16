/* SPDX-License-Identifier: MIT */
/*
 * One of the nodes of a lock, and what is known of it. No function here waits: round.h polls all
 * nodes at once.
 *
 * Answers come in the order of the requests. A request that was not answered in its round may still
 * be answered later, so the node counts the answers that nobody waits for any more (stale), and
 * drops them when they come. The connection stays open: the server carries out what is sent later
 * behind that request, so that a release removes what a late acquisition has taken.
 */
#pragma once

#include "backends/redis/node.h"
#include "base/error.h"
#include "base/net.h"

enum redlock_state {
	NODE_UNASKED,
	NODE_ASKED,		/* no answer yet; after a round: none in time */
	NODE_ANSWERED,		/* reply is there */
	NODE_FAILED,		/* error says why */
};

struct redlock_node {
	struct redis_address address;
	struct redis_conn main;		/* requests */
	struct redis_conn wake;		/* subscribed, while waiting */
	struct net_address places[NET_ADDRESSES];
	int place_count, place;		/* 0 or less: the name was not found yet */
	/* The present round, or the last one: */
	enum redlock_state state;
	struct redisReply *reply;	/* NODE_ANSWERED */
	struct error error;
	bool unreached;			/* it has not answered since a connection to it failed */
	bool resent;			/* sent twice, for the connection broke in between */
	int tries;			/* connections made in this round */
	size_t length;			/* of the request */
	bool as_text;			/* the request has the text of its script */
	bool sent;			/* NODE_ASKED, after the round: the request is under way */
	int openings;			/* how often a connection was begun */
	/* The main connection: */
	bool info_asked;		/* INFO was put in front of the first request */
	bool info_due;			/* the answer to INFO comes first */
	int stale;			/* answers that are dropped when they come */
	bool known;			/* INFO was answered: the following three are valid */
	int64_t age_ms;			/* of the server, at known_ms */
	int64_t known_ms;		/* CLOCK_BOOTTIME */
	char run_id[41];
	/* An acquisition may have been carried out there, with no release sent behind. */
	bool touched;
	bool woken;			/* a message has come since the last try */
};

void redlock_node_finish(struct redlock_node *node);

/* Closes the main connection, and forgets what belonged to it. */
void redlock_node_close(struct redlock_node *node);

/*
 * Makes conn, one of the two, begin to connect unless it is open. A round tries each address once,
 * and the first one twice. 0, or -1: no address is left to try, and *err is set if something was
 * tried.
 */
int redlock_node_connect(struct redlock_node *node, struct redis_conn *conn, struct error *err);

/* Puts a question for the server's age in front of the first request of the main connection. */
void redlock_node_ask_age(struct redlock_node *node);

/*
 * Goes on without waiting. 1 with *reply, an answer that belongs to the last request; 0: not yet;
 * -1 with *err: the connection has failed, and the caller closes it.
 */
int redlock_node_step(struct redlock_node *node, struct redis_conn *conn, bool readable,
		      struct redisReply **reply, struct error *err);

/*
 * Between two rounds: drops the late answers that have come over the main connection. True: the
 * connection has ended, and is closed.
 */
bool redlock_node_drain(struct redlock_node *node);

/*
 * Two names of one server would give it two votes. 0, or -1 with *err: the nodes are the same
 * server, as far as the run_id that both have told says so.
 */
int redlock_node_refuse_twin(const struct redlock_node *a, const struct redlock_node *b,
			     struct error *err);

/* The age of the server, in ms; -1: not known. */
int64_t redlock_node_age(const struct redlock_node *node);
