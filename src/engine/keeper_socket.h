/* SPDX-License-Identifier: MIT */
/*
 * The socket of the daemon of `dlock acquire`: a Unix socket with an abstract address, which has
 * the first 8 digits of the token in it. Both sides accept only the same user and root. A query
 * must carry the whole token.
 *
 * Calling sequence, in the daemon: keeper_socket_listen() once; keeper_socket_accept() whenever the
 * listener is readable, and a reply to each query. In a command and in a run's keeper:
 * keeper_socket_ask().
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "lock/backend.h"
#include "lock/name.h"
#include "lock/token.h"

enum keeper_verb {
	KEEPER_VERB_RELEASE,
	KEEPER_VERB_RENEW,
	KEEPER_VERB_VERIFY,
	KEEPER_VERB_NEST,	/* dlock acquire inside this hold: verify, and renew */
	KEEPER_VERB_JOIN,	/* a run begins under this hold */
	KEEPER_VERB_STAY,	/* it goes on: renew, with the hold's own TTL */
};

struct keeper_query {
	enum keeper_verb verb;
	uint64_t backend;		/* uri_identity() */
	int64_t ttl_ms;			/* of the hold from now on; 0: its own one */
	enum hold_mode mode;		/* that the hold must cover */
	int slots;
	char token[TOKEN_SIZE];
	char name[NAME_MAX_BYTES + 1];
};

struct keeper_reply {
	enum outcome outcome;		/* of the backend's operation */
	uint64_t fence;
	int64_t lease_ms;		/* renew, nest, join, stay: from now; 0: until released */
	int64_t ttl_ms;			/* join, stay: ask again after a third; nest: lease_ms */
	struct error error;
};

/*
 * Ask the daemon of request->token, which holds request->name on backend (uri_identity()). Returns
 * 0: *reply is its answer; 1: there is no daemon; -1 with *err: the daemon has not answered within
 * timeout_ms. share is for KEEPER_VERB_JOIN alone, otherwise NULL. When the outcome is HELD, *share
 * becomes the connection. The answer stays unread in it, with a copy of the descriptor that the
 * hold lives with. Until the last copy of the connection is closed, that descriptor stays open, and
 * the daemon keeps the lock even when its process has ended. POLLRDHUP on *share: the daemon has
 * ended.
 */
int keeper_socket_ask(enum keeper_verb verb, const struct request *request, uint64_t backend,
		      struct keeper_reply *reply, int *share, int64_t timeout_ms,
		      struct error *err);

/* Listen for queries about token. Returns the descriptor, or -1 with *err. */
int keeper_socket_listen(const char *token, struct error *err);

/* Accept a caller that is this user or root. Returns the connection, or -1: there is none. */
int keeper_socket_accept(int listener);
