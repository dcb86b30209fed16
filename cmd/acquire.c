/* SPDX-License-Identifier: MIT */
/* The commands acquire, renew, verify and release. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/process.h"
#include "base/signals.h"
#include "engine/keeper_socket.h"
#include "engine/run.h"
#include "lock/hold.h"
#include "json.h"
#include "session.h"

/* Open the process of --pid, which a signal must reach when the lock is lost. Returns 0 or -1. */
static int open_process(struct pidfd *process, const struct options *options, struct error *err)
{
	if (!pidfd_init(process, options->pid, err)) {
		if (!options->run.kill_on_lost || !pidfd_signal(process, 0))
			return 0;
		error_set(err, ERROR_USAGE, errno, "this user may not signal that process when the "
			  "lock is lost; --on-lost warn sends no signal");
	}
	return error_prefix(err, "--pid %d", (int)options->pid);
}

/* Returns the exit status. */
static int print_result(const struct session *session, const struct acquire_result *result)
{
	const uint64_t fence = result->run.facts.fence;
	struct json json = { .stream = stdout };

	if (!session->options.json) {
		puts(result->token);
	} else {
		json_open(&json, NULL, '{');
		json_text(&json, "name", session->options.run.name);
		json_text(&json, "token", result->token);
		json_number(&json, "fence", fence ? (int64_t)fence : -1);
		json_lease(&json, result->lease_ms ? result->lease_ms : -1);
		json_number(&json, "keeper_pid", result->keeper ? result->keeper : -1);
		json_close(&json, '}');
		putchar('\n');
	}
	return log_flush(0);
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

/* Ask the keeper of the hold, or the backend if there is none. 0 with *reply, or -1 with *err. */
static int ask_hold(struct session *session, enum keeper_verb verb, const struct request *request,
		    struct keeper_reply *reply, struct error *err)
{
	struct grant grant = { 0 };
	const int asked = keeper_socket_ask(verb, request, uri_identity(&session->settings.uri),
					    reply, NULL, INT64_C(4) * BACKEND_TIMEOUT_MS, err);

	if (asked < 0 || (asked > 0 && session_connect(session, err)))
		return -1;
	if (!asked) {
		*err = reply->error;
	} else if (verb == KEEPER_VERB_RELEASE) {
		reply->outcome = hold_release_other(session->backend, request, err);
	} else if (verb == KEEPER_VERB_RENEW) {
		reply->outcome = hold_renew_other(session->backend, request, &grant, err);
		reply->lease_ms = grant.ttl_ms;
	} else {
		reply->outcome = hold_verify(session->backend, request, &reply->fence, err);
	}
	return reply->outcome == OUTCOME_ERROR ? -1 : 0;
}

/* Release a lock whose token could not be printed: nobody else could release it. */
static void release_unprinted(struct session *session, const char *token)
{
	const struct request request = { .name = session->options.run.name, .token = token };
	struct keeper_reply reply;
	struct error err = { 0 };

	if (!ask_hold(session, KEEPER_VERB_RELEASE, &request, &reply, &err))
		return;
	error_prefix(&err, "cannot release it");
	log_fail(&err);
}

int command_acquire(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	struct run_request *request = &session->options.run;
	struct pidfd process;
	struct acquire_result result;
	struct signals signals;
	char command[64];
	int status;

	if (request->if_down == IF_DOWN_RUN)
		return error_set(err, ERROR_USAGE, 0, "--if-down run is for 'dlock run', which has "
				 "a command to run");
	if (check_output(err) || (options->pid && open_process(&process, options, err)) ||
	    signals_init(&signals, err))
		return -1;
	/* status shows the name of the script that the lock is held for. */
	if (!process_name(options->pid ? options->pid : getppid(), command, sizeof(command)))
		snprintf(command, sizeof(command), "dlock acquire");
	request->command = command;
	request->process = options->pid ? &process : NULL;
	supervise_acquire(request, &log_hooks, &signals, &result);
	if (result.run.end != RUN_EXITED)
		return log_failed_run(&result.run, options->conflict_exit_code);
	status = print_result(session, &result);
	if (status && !result.nested)
		release_unprinted(session, result.token);
	return status;
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
	return 0;
}

static void report_renewed(const struct session *session, int64_t lease_ms)
{
	struct json json = { .stream = stdout };
	char text[DURATION_TEXT_SIZE];

	if (!session->options.json) {
		log_print(LEVEL_STEP, "renewed%s%s", lease_ms ? " for " : "",
			  lease_ms ? duration_format(lease_ms, text, sizeof(text)) : "");
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "name", session->options.run.name);
	json_lease(&json, lease_ms ? lease_ms : -1);
	json_close(&json, '}');
	putchar('\n');
}

/*
 * Only the plain token of an acquisition frees the lock: with a level it is that of a nested one,
 * and the command of a run must stay protected.
 */
static int report_kept(int level)
{
	if (level) {
		log_print(LEVEL_STEP, "still held: the outer hold goes on");
		return 0;
	}
	log_print(LEVEL_WARNING, "not released: this is the hold of a dlock run, which releases it "
		  "when its command ends; end that command");
	return EXIT_LOST;
}

int command_token(struct session *session, struct error *err)
{
	const char *name = session->options.run.name;
	const bool release = session->command->bit == COMMAND_RELEASE;
	enum keeper_verb verb = session->command->bit == COMMAND_RENEW ? KEEPER_VERB_RENEW
								       : KEEPER_VERB_VERIFY;
	struct keeper_reply reply = { .lease_ms = 0 };
	char token[TOKEN_SIZE];
	int level = 0;
	const struct request request = {
		.name = name, .token = token, .mode = HOLD_ANY,
		.ttl_ms = session->options.run.asked_ttl_ms,
	};

	if (read_token(session, token, &level, err))
		return -1;
	if (release && !level && !token_is_of_run(token))
		verb = KEEPER_VERB_RELEASE;
	if (ask_hold(session, verb, &request, &reply, err))
		return -1;
	if (reply.outcome == OUTCOME_LOST) {
		log_print(LEVEL_WARNING, "this token does not hold the lock%s%s",
			  token_scope(token, name, uri_identity(&session->settings.uri)) ==
			  TOKEN_OF_NAME ? " here: it is of another --backend" : "",
			  session->options.operand_count > 1
			  ? "" : "; if its hold has ended, unset DLOCK_TOKEN");
		return EXIT_LOST;
	}
	if (release && verb == KEEPER_VERB_VERIFY)
		return report_kept(level);
	if (verb == KEEPER_VERB_RENEW)
		report_renewed(session, reply.lease_ms);
	else if (release && err->kind == ERROR_REFUSED)
		log_print(LEVEL_WARNING, "released, but %s", err->message);
	else
		log_print(LEVEL_STEP, release ? "released" : "this token holds the lock");
	return 0;
}
