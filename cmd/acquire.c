/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pidfd.h"
#include "base/procstat.h"
#include "base/proctree.h"
#include "base/signals.h"
#include "command.h"
#include "exit_status.h"
#include "json.h"
#include "progress.h"
#include "session.h"
#include "token_ask.h"

/*
 * Who named the number knew the process before dlock was started. One that is younger
 * has inherited the number, unless it is our child, of the shell that we were before.
 */
static bool reused(pid_t pid)
{
	struct procstat theirs, ours;
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return proctree_available() && procstat_read(text, &theirs) &&
	       procstat_read("self", &ours) && theirs.start_ticks > ours.start_ticks &&
	       theirs.parent != getpid();
}

/* The process that is meant. 0, or -1 with *err. told: it must hear of it when the lock is lost. */
static int open_process(struct pidfd *process, pid_t pid, bool told, struct error *err)
{
	int result = pidfd_init(process, pid, err);

	if (!result && reused(pid)) {
		error_set(err, ERROR_USAGE, 0, "that process has ended, and another one has its "
			  "number");
		result = -1;
	} else if (!result && told && pidfd_signal(process, 0)) {
		error_set(err, ERROR_USAGE, errno, "cannot tell that process of a loss (without: "
			  "--on-lost warn)");
		result = -1;
	}
	if (result)
		error_prefix(err, "--pid %d", (int)pid);
	return result;
}

/* What status shows: the script that the lock is held for says more than "dlock". */
static const char *process_name(pid_t pid, char *buf, size_t size)
{
	char path[40];
	FILE *comm;

	snprintf(buf, size, "dlock acquire");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	comm = fopen(path, "re");
	if (!comm)
		return buf;
	if (fgets(buf, (int)size, comm))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(comm);
	return buf;
}

static int print_result(const struct session *session, const struct acquire_result *result)
{
	struct json json = { .comma = false };

	if (!session->options.json) {
		puts(result->token);
	} else {
		json_open(&json, NULL, '{');
		json_text(&json, "name", session->options.operands[0]);
		json_text(&json, "token", result->token);
		json_number(&json, "fence", (int64_t)result->fence);
		json_maybe(&json, "expires_in_ms", result->lease_ms ? result->lease_ms : -1);
		json_time(&json, "expires_at",
			  result->lease_ms ? clock_wall_ms() + result->lease_ms : 0);
		json_maybe(&json, "keeper_pid", result->keeper ? result->keeper : -1);
		json_close(&json, '}');
		putchar('\n');
	}
	return flush_output();
}

/* Said before anything is taken, for the token of a hold is printed on standard output. */
static int check_output(struct error *err)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);

	if (flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY)
		return 0;
	error_set(err, ERROR_USAGE, 0, "standard output is closed: the token could not be "
		  "printed, and nobody could release the lock");
	return -1;
}

/* Nobody will ever know this token: the lock must not be left to it. */
static void take_back(struct session *session, const char *token)
{
	const struct request request = { .name = session->options.operands[0],
					 .token = token };
	struct token_result result;
	struct error err = { 0 };

	if (!token_ask(session, KEEPER_VERB_RELEASE, &request, &result, &err))
		return;
	error_prefix(&err, "%s: cannot give it back", request.name);
	complain(&err);
}

static int acquire(struct session *session, const struct signals *signals,
		   const struct pidfd *process)
{
	const struct options *options = &session->options;
	char command[64];
	struct acquire_request request = {
		.run = {
			.driver = session->settings.driver,
			.uri = &session->settings.uri,
			.uri_text = session->settings.uri_text,
			.name = options->operands[0],
			.mode = options_mode(options),
			.slots = options->slots,
			.ttl_ms = session->settings.ttl_ms,
			.wait_ms = session->settings.wait_ms,
			.min_hold_ms = options->min_hold_ms,
		},
		.again_ttl_ms = session->settings.asked_ttl_ms,
		.command = process_name(options->pid ? options->pid : getppid(), command,
					sizeof(command)),
		.process = process,
		.term_on_lost = options->kill_on_lost,
	};
	struct progress progress = { .name = NULL };
	struct acquire_result result;
	struct run_hooks hooks;

	progress_init(&progress, options->operands[0], options->verbosity, &hooks);
	supervise_acquire(&request, &hooks, signals, &result);
	if (result.run.end == RUN_EXITED) {
		/* main() says what is wrong with the output. */
		if (print_result(session, &result))
			take_back(session, result.token);
		return 0;
	}
	return progress_report_failure(&progress, &result.run, options->conflict_exit_code);
}

int command_acquire(int argc, char **argv)
{
	struct signals signals;
	struct session session;
	struct pidfd process = { .fd = -1 };
	struct error err = { 0 };
	int status;

	if (session_init(&session, COMMAND_ACQUIRE, argc, argv, 1, 1, &err)) {
		status = complain(&err);
	} else if (session.done) {
		status = 0;
	} else {
		const struct options *options = &session.options;

		if (check_output(&err) ||
		    (options->pid && open_process(&process, options->pid, options->kill_on_lost,
						  &err)) || signals_init(&signals, &err))
			status = complain(&err);
		else
			status = acquire(&session, &signals, options->pid ? &process : NULL);
	}
	session_finish(&session);
	return status;
}
