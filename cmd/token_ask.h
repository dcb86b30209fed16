/* SPDX-License-Identifier: MIT */
/* One operation with a token: the keeper of the hold does it, or without one the backend. */
#ifndef DLOCK_TOKEN_ASK_H
#define DLOCK_TOKEN_ASK_H

#include "engine/keeper_socket.h"
#include "session.h"

struct token_result {
	enum outcome outcome;
	int64_t lease_ms;	/* renew: what the lease has left; 0: it has no end */
};

/* 0, or -1 with *err when the outcome is not known. */
int token_ask(struct session *session, enum keeper_verb verb, const struct request *request,
	      struct token_result *result, struct error *err);

#endif
