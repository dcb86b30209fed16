/* SPDX-License-Identifier: MIT */
/*
 * How commands reach the daemon that `dlock acquire` left behind: by a Unix socket with an abstract
 * address, which has the first 8 digits of the token in it. Either side serves nobody but the same
 * user and root. A query must carry the whole token.
 *
 * Calling sequence: keeper_socket_listen() once, in the daemon; keeper_socket_accept() whenever the
 * listener is readable, and then an answer to each query. In a command and in a run's keeper:
 * keeper_socket_ask().
 */
#pragma once

#include <stdbool.h>
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
	int64_t ttl_ms;			/* KEEPER_VERB_RENEW, _NEST: as in struct request */
	enum hold_mode mode;		/* KEEPER_VERB_NEST, _JOIN: as in struct request */
	int slots;
	char token[TOKEN_SIZE];
	char name[NAME_MAX_BYTES + 1];
};

struct keeper_reply {
	enum outcome outcome;		/* as the backend operation gives it */
	uint64_t fence;
	int64_t lease_ms;		/* renew, nest, join, stay: from now; 0: until released */
	int64_t ttl_ms;			/* join, stay: ask again after a third; nest: lease_ms */
	struct error error;
};

/*
 * Asks the daemon of query->token. 0: *reply is its answer. 1: there is none. -1 with *err: there
 * is one, but it has not answered within timeout_ms. share is for KEEPER_VERB_JOIN alone, else
 * NULL. When the outcome is HELD, *share gets the connection: the answer, which is not taken out of
 * it, carries a copy of the descriptor that the hold lives with. Until the last copy of the
 * connection is closed, that stays open, and the daemon keeps the lock even when the process that
 * it holds for has ended. POLLRDHUP tells that the daemon has ended.
 */
int keeper_socket_ask(const struct keeper_query *query, struct keeper_reply *reply, int *share,
		      int64_t timeout_ms, struct error *err);

/* Listens for queries about token. Returns the descriptor, or -1 with *err. */
int keeper_socket_listen(const char *token, struct error *err);

/* Accepts a caller that is this user or root. Returns the connection, or -1: there is none. */
int keeper_socket_accept(int listener);

/* Answers a query, and shares hold_fd unless that is -1. False: the caller cannot be reached. */
bool keeper_socket_answer(int fd, const struct keeper_reply *reply, int hold_fd);
