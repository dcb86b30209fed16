/* SPDX-License-Identifier: MIT */
/* The commands acquire, renew, verify and release. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/pidfd.h"
#include "base/process.h"
#include "base/signals.h"
#include "engine/keeper_socket.h"
#include "engine/run.h"
#include "lock/hold.h"
#include "lock/name.h"
#include "json.h"
#include "log.h"
#include "session.h"

/* signalled: a signal must reach the process when the lock is lost. 0, or -1 with *err. */
static int open_process(struct pidfd *process, pid_t pid, bool signalled, struct error *err)
{
	int result = pidfd_init(process, pid, err);

	if (!result && signalled && pidfd_signal(process, 0)) {
		error_set(err, ERROR_USAGE, errno, "this user may not signal that process when the "
			  "lock is lost; --on-lost warn sends no signal");
		result = -1;
	}
	if (result)
		error_prefix(err, "--pid %d", (int)pid);
	return result;
}

/* The command that status shows: the name of the script that the lock is held for. */
static const char *command_of(pid_t pid, char *buf, size_t size)
{
	if (!process_name(pid, buf, size))
		snprintf(buf, size, "dlock acquire");
	return buf;
}

static int print_result(const struct session *session, const struct acquire_result *result)
{
	struct json json = { .stream = stdout };

	if (!session->options.json) {
		puts(result->token);
	} else {
		json_open(&json, NULL, '{');
		json_text(&json, "name", session->name);
		json_text(&json, "token", result->token);
		json_number(&json, "fence", result->fence ? (int64_t)result->fence : -1);
		json_lease(&json, result->lease_ms ? result->lease_ms : -1);
		json_number(&json, "keeper_pid", result->keeper ? result->keeper : -1);
		json_close(&json, '}');
		putchar('\n');
	}
	return log_flush();
}

/* The token goes to standard output: check it before the lock is taken. */
static int check_output(struct error *err)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);

	if (flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "standard output is closed: the token could not be "
			 "printed, and nobody could release the lock");
}

/* Ask the backend, because the hold has no keeper. 0 with *reply, or -1 with *err. */
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
	default:	/* KEEPER_VERB_VERIFY */
		reply->outcome = hold_verify(backend, request, &reply->fence, err);
		break;
	}
	return reply->outcome == OUTCOME_ERROR ? -1 : 0;
}

/* Ask the keeper of the hold, or the backend if there is none. 0 with *reply, or -1 with *err. */
static int ask_hold(struct session *session, enum keeper_verb verb, const struct request *request,
	      struct keeper_reply *reply, struct error *err)
{
	switch (keeper_socket_ask(verb, request, uri_identity(&session->settings.uri), reply, NULL,
				  INT64_C(4) * BACKEND_TIMEOUT_MS, err)) {
	case 0:
		*err = reply->error;
		return reply->outcome == OUTCOME_ERROR ? -1 : 0;
	case -1:
		return -1;
	default:
		return ask_backend(session, verb, request, reply, err);
	}
}

/* Release a lock whose token could not be printed: nobody else could release it. */
static void release_unprinted(struct session *session, const char *token)
{
	const struct request request = { .name = session->name, .token = token };
	struct keeper_reply reply;
	struct error err = { 0 };

	if (!ask_hold(session, KEEPER_VERB_RELEASE, &request, &reply, &err))
		return;
	error_prefix(&err, "cannot release it");
	log_fail(&err);
}

static int acquire_for(struct session *session, const struct signals *signals,
		       const struct pidfd *process)
{
	const struct options *options = &session->options;
	char command[64];
	struct acquire_request request = {
		.run = options->run,
		.nested_ttl_ms = session->settings.asked_ttl_ms,
		.command = command_of(options->pid ? options->pid : getppid(), command,
					sizeof(command)),
		.process = process,
		.term_on_lost = options->run.kill_on_lost,
	};
	struct acquire_result result;
	const struct run_hooks hooks = log_hooks();

	supervise_acquire(&request, &hooks, signals, &result);
	if (result.run.end != RUN_EXITED)
		return log_failed_run(&result.run, options->conflict_exit_code);
	/* log_finish() prints what is wrong with the output. */
	if (print_result(session, &result) && !result.nested)
		release_unprinted(session, result.token);
	return 0;
}

int command_acquire(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	struct pidfd process = { .fd = -1 };
	struct signals signals;

	if (check_output(err) ||
	    (options->pid &&
	     open_process(&process, options->pid, options->run.kill_on_lost, err)) ||
	    signals_init(&signals, err))
		return -1;
	return acquire_for(session, &signals, options->pid ? &process : NULL);
}

/* ---- renew, verify and release ---- */

/* Read the token from the operand, from standard input if it is "-", or from $DLOCK_TOKEN. */
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

static void print_renewed(const struct session *session, const struct keeper_reply *reply)
{
	const int64_t lease_ms = reply->lease_ms;
	struct json json = { .stream = stdout };
	char text[DURATION_TEXT_SIZE];

	if (!session->options.json) {
		log_print(LEVEL_STEP, "renewed%s%s", lease_ms ? " for " : "",
			    lease_ms ? duration_format(lease_ms, text, sizeof(text)) : "");
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "name", session->name);
	json_lease(&json, lease_ms ? lease_ms : -1);
	json_close(&json, '}');
	putchar('\n');
}

static int report_reply(const struct session *session, enum keeper_verb verb, const char *token,
		  const struct keeper_reply *reply)
{
	const uint64_t identity = uri_identity(&session->settings.uri);

	if (reply->outcome == OUTCOME_LOST) {
		log_print(LEVEL_WARNING, "this token does not hold the lock%s",
			    token_scope(token, session->name, identity) == TOKEN_OF_NAME
			    ? " here: it is of another --backend" : "");
		return EXIT_LOST;
	}
	if (verb == KEEPER_VERB_RENEW)
		print_renewed(session, reply);
	else if (verb == KEEPER_VERB_VERIFY)
		log_print(LEVEL_STEP, "this token holds the lock");
	else
		log_print(LEVEL_STEP, "released");
	return 0;
}

/*
 * Refuse to free an outer hold: that of an acquisition around a nested one, or that of a run, whose
 * command must stay protected.
 */
static int refuse_release(int level)
{
	if (!level) {
		log_print(LEVEL_WARNING, "not released: this is the hold of a dlock run, "
			    "which releases it when its command ends; end that command");
		return EXIT_LOST;
	}
	log_print(LEVEL_STEP, "still held: the outer hold goes on");
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
	if (ask_hold(session, verb, &request, &reply, err))
		return -1;
	if (release && !frees && reply.outcome == OUTCOME_HELD)
		return refuse_release(level);
	return report_reply(session, verb, token, &reply);
}
