/* SPDX-License-Identifier: MIT */
/* renew, verify and release. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "lock/hold.h"
#include "exit_status.h"
#include "json.h"
#include "session.h"
#include "token_ask.h"

/* The token is an operand, a line of standard input (the operand is "-"), or $DLOCK_TOKEN. */
static int read_token(const struct session *session, char token[static TOKEN_SIZE], int *level,
		      struct error *err)
{
	const struct options *options = &session->options;
	const bool operand = options->operand_count > 1;
	const char *given = operand ? options->operands[1] : getenv("DLOCK_TOKEN");
	char line[128];

	if (!given || !given[0])
		return error_set(err, ERROR_USAGE, 0,
				 "no token given: write it as TOKEN, or on standard input with '-' "
				 "as TOKEN, or in DLOCK_TOKEN");
	if (!strcmp(given, "-")) {
		if (!fgets(line, sizeof(line), stdin))
			return error_set(err, ERROR_USAGE, 0, "no token on standard input");
		line[strcspn(line, "\r\n")] = '\0';
		given = line;
	}
	if (token_read(given, token, level, err))
		return operand ? -1 : error_prefix(err, "DLOCK_TOKEN");
	session_hide_token(session);
	return 0;
}

/* Asks the backend itself, because the hold has no keeper. */
static int ask_backend(struct session *session, enum keeper_verb verb,
		       const struct request *request, struct keeper_reply *reply,
		       struct error *err)
{
	struct grant grant = { 0 };
	struct backend *backend;

	if (session_connect(session, err))
		return -1;
	backend = session->backend;
	switch (verb) {
	case KEEPER_VERB_RELEASE:
		reply->outcome = hold_release_other(backend, request, err);
		break;
	case KEEPER_VERB_RENEW:
		reply->outcome = hold_renew_other(backend, request, &grant, err);
		reply->lease_ms = grant.ttl_ms;
		break;
	default:	/* no other is asked for than KEEPER_VERB_VERIFY */
		reply->outcome = hold_verify(backend, request, err);
		break;
	}
	return reply->outcome == OUTCOME_ERROR ? -1 : 0;
}

int token_ask(struct session *session, enum keeper_verb verb, const struct request *request,
	      struct keeper_reply *reply, struct error *err)
{
	struct keeper_query query = { .verb = verb, .ttl_ms = request->ttl_ms,
				      .backend = uri_identity(&session->settings.uri) };

	memcpy(query.token, request->token, TOKEN_SIZE);
	strncpy(query.name, request->name, NAME_MAX_BYTES);
	switch (keeper_socket_ask(&query, reply, INT64_C(4) * BACKEND_TIMEOUT_MS, err)) {
	case 0:
		*err = reply->error;
		return reply->outcome == OUTCOME_ERROR ? -1 : 0;
	case -1:
		return -1;
	default:
		return ask_backend(session, verb, request, reply, err);
	}
}

static void print_renewed(const struct session *session, const struct keeper_reply *reply)
{
	const int64_t lease_ms = reply->lease_ms;
	struct json json = { .comma = false };
	char text[DURATION_TEXT_SIZE];

	if (!session->options.json) {
		log_say(SAY_STEP, "renewed%s%s", lease_ms ? " for " : "",
			    lease_ms ? duration_format(lease_ms, text, sizeof(text)) : "");
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "name", session->name);
	json_lease(&json, lease_ms);
	json_close(&json, '}');
	putchar('\n');
}

static int report(const struct session *session, enum keeper_verb verb, const char *token,
		  const struct keeper_reply *reply)
{
	const uint64_t identity = backend_identity(session->settings.driver,
						   &session->settings.uri);

	if (reply->outcome == OUTCOME_LOST) {
		log_say(SAY_WARNING, "this token is not the holder%s",
			    token_scope(token, session->name, identity) == TOKEN_OF_NAME
			    ? " here: it was made for another --backend" : "");
		return EXIT_LOST;
	}
	if (verb == KEEPER_VERB_RENEW)
		print_renewed(session, reply);
	else if (verb == KEEPER_VERB_VERIFY)
		log_say(SAY_STEP, "this token is the holder");
	else
		log_say(SAY_STEP, "released");
	return 0;
}

/*
 * A release that frees nothing. The hold is the outer one's: that of an acquisition which a nested
 * one was made in, or that of a run, whose command must stay protected.
 */
static int refuse_release(int level)
{
	if (!level) {
		log_say(SAY_WARNING, "not released: this is the hold of a dlock run, "
			    "which releases it when its command ends; end that command");
		return EXIT_LOST;
	}
	log_say(SAY_STEP, "still held: the outer hold goes on");
	return 0;
}

int command_token(struct session *session, struct error *err)
{
	const bool release = session->command->bit == COMMAND_RELEASE;
	enum keeper_verb verb = session->command->bit == COMMAND_RENEW ? KEEPER_VERB_RENEW
							: KEEPER_VERB_VERIFY;
	struct keeper_reply reply = { .lease_ms = 0 };
	char token[TOKEN_SIZE];
	bool frees;
	int level;
	const struct request request = {
		.name = session->name, .token = token, .mode = HOLD_ANY,
		.ttl_ms = session->settings.asked_ttl_ms,
	};

	if (read_token(session, token, &level, err))
		return -1;
	frees = release && !level && !token_is_of_run(token);
	if (frees)
		verb = KEEPER_VERB_RELEASE;
	if (token_ask(session, verb, &request, &reply, err))
		return -1;
	if (release && !frees && reply.outcome == OUTCOME_HELD)
		return refuse_release(level);
	return report(session, verb, token, &reply);
}
