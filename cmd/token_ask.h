/* SPDX-License-Identifier: MIT */
/* One operation with a token: through the keeper that holds, else by the backend. */
#ifndef DLOCK_TOKEN_ASK_H
#define DLOCK_TOKEN_ASK_H

#include "engine/keeper_socket.h"
#include "session.h"

struct token_result {
	enum outcome outcome;
	int64_t lease_ms;	/* renew: from now; 0: until released */
};

/* 0, or -1 with *err when it is not known what came of it. */
int token_ask(struct session *session, enum keeper_verb verb, const struct request *request,
	      struct token_result *result, struct error *err);

#endif
