/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "base/procstat.h"
#include "base/signals.h"
#include "engine/supervise.h"
#include "json.h"
#include "log.h"
#include "session.h"
#include "token_ask.h"

/* told: a signal must reach the process when the lock is lost. 0, or -1 with *err. */
static int open_process(struct pidfd *process, pid_t pid, bool told, struct error *err)
{
	int result = pidfd_init(process, pid, err);

	if (!result && told && pidfd_signal(process, 0)) {
		error_set(err, ERROR_USAGE, errno, "cannot tell that process of a loss (without: "
			  "--on-lost warn)");
		result = -1;
	}
	if (result)
		error_prefix(err, "--pid %d", (int)pid);
	return result;
}

/* The command that status shows: the name of the script that the lock is held for. */
static const char *process_name(pid_t pid, char *buf, size_t size)
{
	if (!procstat_name(pid, buf, size))
		snprintf(buf, size, "dlock acquire");
	return buf;
}

static int print_result(const struct session *session, const struct acquire_result *result)
{
	struct json json = { .comma = false };

	if (!session->options.json) {
		puts(result->token);
	} else {
		json_open(&json, NULL, '{');
		json_text(&json, "name", session->name);
		json_text(&json, "token", result->token);
		json_maybe(&json, "fence", result->fence ? (int64_t)result->fence : -1);
		json_lease(&json, result->lease_ms);
		json_maybe(&json, "keeper_pid", result->keeper ? result->keeper : -1);
		json_close(&json, '}');
		putchar('\n');
	}
	return log_flush();
}

/* The token of a hold is printed on standard output, which is checked before the lock is taken. */
static int check_output(struct error *err)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);

	if (flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "standard output is closed: the token could not be "
			 "printed, and nobody could release the lock");
}

/* Releases a lock whose token could not be printed, so that nobody else could release it. */
static void take_back(struct session *session, const char *token)
{
	const struct request request = { .name = session->name, .token = token };
	struct keeper_reply reply;
	struct error err = { 0 };

	if (!token_ask(session, KEEPER_VERB_RELEASE, &request, &reply, &err))
		return;
	error_prefix(&err, "cannot give it back");
	log_fail(&err);
}

static int acquire_for(struct session *session, const struct signals *signals,
		       const struct pidfd *process)
{
	const struct options *options = &session->options;
	char command[64];
	struct acquire_request request = {
		.run = settings_request(&session->settings, options, session->name),
		.nested_ttl_ms = session->settings.asked_ttl_ms,
		.command = process_name(options->pid ? options->pid : getppid(), command,
					sizeof(command)),
		.process = process,
		.term_on_lost = !options->only_warn,
	};
	struct acquire_result result;
	const struct run_hooks hooks = log_hooks();

	supervise_acquire(&request, &hooks, signals, &result);
	if (result.run.end != RUN_EXITED)
		return log_failed_run(&result.run, options->conflict_exit_code);
	/* log_finish() says what is wrong with the output. */
	if (print_result(session, &result) && !result.nested)
		take_back(session, result.token);
	return 0;
}

int command_acquire(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	struct pidfd process = { .fd = -1 };
	struct signals signals;

	if (check_output(err) ||
	    (options->pid && open_process(&process, options->pid, !options->only_warn, err)) ||
	    signals_init(&signals, err))
		return -1;
	return acquire_for(session, &signals, options->pid ? &process : NULL);
}
