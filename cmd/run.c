/* SPDX-License-Identifier: MIT */
/* The command run: chooses the name of the lock, and turns the result into an exit status. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "engine/run.h"
#include "lock/name.h"
#include "metrics.h"
#include "session.h"

/*
 * ---- several locks ----
 *
 * The run of the first NAME runs dlock for the others, with the same words, and with the end of the
 * wait (CLOCK_BOOTTIME) as --nested. A run that is not obtained dies of this signal, which the run
 * around it can tell from each exit status of the command.
 */
#define NESTED_SIGNAL SIGVTALRM

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Make the command that runs dlock for the names behind the first one. 0, or -1 with *err. */
static int nest_run(struct options *options, int64_t now_ms, struct error *err)
{
	static char self[PATH_MAX];
	size_t count = 3;
	char **word = options->line, **argv;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
		return error_set(err, ERROR_INTERNAL, errno, "several locks need /proc/self/exe");
	while (*word)
		word++;
	argv = memory_new((size_t)(word - options->line) + count, sizeof(*argv));
	argv[0] = self;
	argv[1] = options->line[0];
	argv[2] = memory_format("--nested=%lld",
				(long long)clock_after(now_ms, options->run.wait_ms));
	for (word = options->line; *++word;)
		if (*word != options->operands[0])
			argv[count++] = *word;
	options->run.argv = argv;
	/* These count for the command alone. */
	options->run.max_run_ms = options->run.until_ms = 0;
	return 0;
}

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
	if (options->operand_count > 1 && options->shell[2])
		return error_set(err, ERROR_USAGE, 0,
				 "there is also '%s': put all of the STRING of -c in quotes",
				 text_quote(options->operands[1], shown, sizeof(shown)));
	qsort(options->operands, (size_t)options->operand_count, sizeof(*options->operands),
	      compare_names);
	name_derive((const char *const *)argv, derived_name);
	session->options.run.name = options->operand_count ? options->operands[0] : derived_name;
	for (int i = 0; i < options->operand_count; i++)
		if (options->operand_count > 1 && strstr(options->operands[i], "://"))
			return error_set(err, ERROR_USAGE, 0, "a backend is named by -b, not '%s'",
					 text_quote(options->operands[i], shown, sizeof(shown)));
	return 0;
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

static int run_locked(struct session *session, struct run_result *result, struct error *err)
{
	struct run_request *request = &session->options.run;
	const int64_t left_ms = request->until_ms - clock_wall_ms(), now_ms = clock_boot_ms();
	const bool nests = session->options.operand_count > 1;
	const char *nested = session->options.nested;
	const int64_t end_ms = nested ? strtoll(nested, NULL, 10) : CLOCK_NEVER;
	struct signals signals;

	if (session_begin(session, err) || signals_init(&signals, err))
		return log_fail(err);
	/* Do not wait past --until: the command would be stopped before it starts. */
	if (request->until_ms)
		request->wait_ms = clock_earlier(request->wait_ms, left_ms);
	if (end_ms != CLOCK_NEVER)
		request->wait_ms = clock_earlier(request->wait_ms, end_ms - now_ms);
	if (request->wait_ms < 0)
		request->wait_ms = 0;
	request->command = request->argv[0];
	if (nests && nest_run(&session->options, now_ms, err))
		return log_fail(err);
	supervise_run(request, &log_hooks, &signals, result);
	if (nests && result->end == RUN_EXITED && WIFSIGNALED(result->status) &&
	    WTERMSIG(result->status) == NESTED_SIGNAL) {
		result->end = RUN_NOT_OBTAINED;
		result->facts.acquired_ms = 0;
		return session->options.conflict_exit_code;
	}
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
	if (path && !session->options.nested &&
	    metrics_write(path, session->options.run.name, began_at_ms, &result, status, err))
		log_print(LEVEL_ERROR, "--metrics %s: %s",
			  text_quote(path, shown, sizeof(shown)), err->message);
	if (session->options.nested && result.end == RUN_NOT_OBTAINED)
		signals_exit(NESTED_SIGNAL);
	/*
	 * Die of the same Ctrl-C as the command, so that a calling shell sees it. Nobody else is
	 * signalled: the command may have sent the signal to itself.
	 */
	if (result.end == RUN_EXITED && result.from_terminal && WIFSIGNALED(result.status) &&
	    (WTERMSIG(result.status) == SIGINT || WTERMSIG(result.status) == SIGQUIT))
		signals_exit(WTERMSIG(result.status));
	return status;
}
