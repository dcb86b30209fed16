/* SPDX-License-Identifier: MIT */
/* The command run: chooses the name of the lock, and turns the result into an exit status. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/text.h"
#include "lock/name.h"
#include "metrics.h"
#include "session.h"

/* Check the operands and the command, and choose the name of the lock. 0, or -1 with *err. */
static int choose_name(struct session *session, struct error *err)
{
	/* Kept to the end of the process: the last messages have the name in it. */
	static char derived_name[NAME_DERIVED_SIZE];
	const struct options *options = &session->options;
	char *const *argv = options->run.argv;
	char shown[TEXT_QUOTE_SIZE];

	if (argv && options->shell[2])
		return error_set(err, ERROR_USAGE, 0, "-c cannot be combined with a command "
				 "behind '--'");
	/* Its shell is sh, where flock(1) takes $SHELL. */
	if (options->shell[2])
		argv = session->options.run.argv = (char *const *)options->shell;
	if (!argv || !argv[0] || !argv[0][0])
		return error_set(err, ERROR_USAGE, 0, !argv && options_may_be_cut(options)
				 ? "no command given; a URI with & needs quotes in a shell"
				 : "no command given: put it behind '--', as in "
				   "'dlock run NAME -- COMMAND'");
	if (options->operand_count > 1)
		return error_set(err, ERROR_USAGE, 0, options->shell[2]
				 ? "there is also '%s': put all of the STRING of -c in quotes"
				 : "one NAME is wanted before '--', but there is also '%s'",
				 text_quote(options->operands[1], shown, sizeof(shown)));
	name_derive((const char *const *)argv, derived_name);
	session->name = options->operand_count ? options->operands[0] : derived_name;
	return name_check(session->name, err);
}

static int report_exec_failure(const char *command, struct run_result *result)
{
	struct error *err = &result->error;
	const int errnum = err->errnum;
	char shown[200];

	text_quote(command, shown, sizeof(shown));
	if (errnum != ENOENT)
		error_set(err, ERROR_INTERNAL, errnum, "%s: cannot execute it", shown);
	else if (strchr(command, '/') && !access(command, F_OK))
		error_set(err, ERROR_INTERNAL, 0, "%s: its interpreter was not found", shown);
	else if (strchr(command, ' ') && !strchr(command, '\''))
		error_set(err, ERROR_INTERNAL, 0, "%s: command not found; for a shell command: "
			  "sh -c '%s'", shown, shown);
	else
		error_set(err, ERROR_INTERNAL, 0, "%s: command not found", shown);
	log_failed_run(result, 0);
	return errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

/*
 * Die of the same Ctrl-C as the command, so that a calling shell sees it. Nobody else is signalled:
 * the command may have sent the signal to itself.
 */
static void die_as_command(const struct run_result *result)
{
	int sig;

	if (result->end != RUN_EXITED || !WIFSIGNALED(result->status) || !result->from_terminal)
		return;
	sig = WTERMSIG(result->status);
	if (sig == SIGINT || sig == SIGQUIT)
		signals_exit(sig);
}

static int run_locked(struct session *session, struct run_result *result, struct error *err)
{
	struct run_request *request = &session->options.run;
	const int64_t left_ms = request->until_ms - clock_wall_ms();
	struct signals signals;

	if (session_begin(session, err) || signals_init(&signals, err))
		return log_fail(err);
	/* Do not wait past --until: the command would be stopped before it starts. */
	if (request->until_ms)
		request->wait_ms = clock_earlier(request->wait_ms, left_ms > 0 ? left_ms : 0);
	request->command = request->argv[0];
	supervise_run(request, &log_hooks, &signals, result);
	if (result->end == RUN_EXITED)
		return WIFSIGNALED(result->status) ? EXIT_SIGNAL + WTERMSIG(result->status)
						   : WEXITSTATUS(result->status);
	if (result->end == RUN_EXEC_FAILED)
		return report_exec_failure(request->command, result);
	return log_failed_run(result, session->options.conflict_exit_code);
}

int command_run(struct session *session, struct error *err)
{
	const char *path = session->options.metrics;
	char shown[TEXT_QUOTE_SIZE];
	const int64_t began_at_ms = clock_wall_ms();
	struct run_result result = { 0 };
	int status;

	if (choose_name(session, err))
		return -1;
	if (path && !strcmp(path, "-"))
		return error_set(err, ERROR_USAGE, 0, "--metrics: '-' is not the name of a file");
	status = run_locked(session, &result, err);
	/* The job matters more than its report, which does not change the exit status. */
	if (path && metrics_write(path, session->name, began_at_ms, &result, status, err))
		log_print(LEVEL_ERROR, "--metrics %s: %s",
			  text_quote(path, shown, sizeof(shown)), err->message);
	die_as_command(&result);
	return status;
}
