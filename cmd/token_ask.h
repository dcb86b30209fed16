/* SPDX-License-Identifier: MIT */
/* One operation with a token. The hold's keeper does it, or the backend if there is no keeper. */
#pragma once

#include "engine/keeper_socket.h"
#include "session.h"

/* 0 with *reply, or -1 with *err when the outcome is not known. */
int token_ask(struct session *session, enum keeper_verb verb, const struct request *request,
	      struct keeper_reply *reply, struct error *err);
