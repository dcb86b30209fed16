/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/signals.h"
#include "base/textfile.h"
#include "engine/supervise.h"
#include "lock/name.h"
#include "lock/uri.h"
#include "command.h"
#include "log.h"
#include "metrics.h"
#include "settings.h"

struct run {
	struct options options;
	struct settings settings;
	struct signals signals;
	const char *name;
	char derived_name[NAME_DERIVED_SIZE];
	int64_t began_at_ms;		/* for --metrics: ms since the epoch */
	struct run_result result;	/* zeroed until there is a run */
};

/* Checks the operands and the command, and chooses the name of the lock. 0, or -1 with *err. */
static int choose_name(struct run *run, struct error *err)
{
	const struct options *options = &run->options;
	char shown[SHOWN_SIZE];

	if (!options->argv)
		return error_set(err, ERROR_USAGE, 0, options_may_be_cut(options)
				 ? "no command given; a URI with & needs quotes in a shell"
				 : "no command given: put it behind '--', as in "
				   "'dlock run NAME -- COMMAND'");
	if (!options->argv[0] || !options->argv[0][0])
		return error_set(err, ERROR_USAGE, 0, "no command given behind '--'");
	if (options->operand_count > 1)
		return error_set(err, ERROR_USAGE, 0, options->operands[1][0] == '-'
				 ? "'%s' stands after NAME: options go before it"
				 : "one NAME is wanted before '--', but there is also '%s'",
				 uri_redact(options->operands[1], shown, sizeof(shown)));
	if (options->operand_count == 1) {
		run->name = options->operands[0];
		return name_check(run->name, err);
	}
	name_derive((const char *const *)options->argv, run->derived_name);
	run->name = run->derived_name;
	return 0;
}

static int report_exec_failure(const struct run *run, const struct run_result *result)
{
	const char *command = run->options.argv[0];
	const int errnum = result->error.errnum;
	char text[PATH_MAX + 64];

	if (errnum != ENOENT)
		snprintf(text, sizeof(text), "%s: cannot execute it: %s", command,
			 strerror(errnum));
	else if (strchr(command, '/') && !access(command, F_OK))
		snprintf(text, sizeof(text), "%s: its interpreter was not found", command);
	else if (strchr(command, ' ') && !strchr(command, '\''))
		snprintf(text, sizeof(text), "%s: command not found; for a shell command: "
			 "sh -c '%s'", command, command);
	else
		snprintf(text, sizeof(text), "%s: command not found", command);
	log_line(&(struct log_line){
		.level = SAY_ERROR, .event = EVENT_FAILED, .nameless = true, .text = text,
		.facts = &result->facts,
	});
	return errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

/*
 * The terminal has sent a Ctrl-C to the command's process group alone. Passes it on to the own
 * group, which is also that of the calling script, so that the script ends as it would without
 * dlock.
 */
static void die_as_command(const struct run_result *result)
{
	int sig;

	if (result->end != RUN_EXITED || !WIFSIGNALED(result->status) || !result->from_terminal)
		return;
	sig = WTERMSIG(result->status);
	if (sig == SIGINT || sig == SIGQUIT)
		signals_die(sig, true);
}

/*
 * The job counts for more than what is told of it: a file that cannot be written is said at the
 * end, and neither keeps the command from running nor changes the exit status.
 */
static void write_metrics(const struct run *run, int status)
{
	const struct metrics metrics = {
		.name = run->name, .began_at_ms = run->began_at_ms, .result = &run->result,
		.exit_status = status,
	};
	struct error err = { 0 };

	if (!metrics_write(run->options.metrics, &metrics, &err))
		return;
	error_prefix(&err, "--metrics %s", run->options.metrics);
	log_line(&(struct log_line){
		.level = SAY_ERROR, .event = EVENT_OTHER, .text = err.message,
		.facts = &run->result.facts,
	});
}

static int report(struct run *run)
{
	const struct run_result *result = &run->result;

	switch (result->end) {
	case RUN_EXITED:
		return WIFSIGNALED(result->status) ? EXIT_SIGNAL + WTERMSIG(result->status)
						   : WEXITSTATUS(result->status);
	case RUN_EXEC_FAILED:
		return report_exec_failure(run, result);
	default:
		return log_failed_run(result, run->options.conflict_exit_code);
	}
}

/* For how long to wait: at most until the command would be stopped before it has begun. */
static int64_t wait_time(const struct run *run)
{
	const int64_t until_ms = run->options.until_ms, now_ms = clock_wall_ms();

	if (!until_ms)
		return run->settings.wait_ms;
	return clock_earlier(run->settings.wait_ms, until_ms > now_ms ? until_ms - now_ms : 0);
}

static int run_locked(struct run *run)
{
	const struct run_hooks hooks = log_hooks();
	struct run_request request = settings_request(&run->settings, &run->options, run->name);

	request.argv = run->options.argv;
	request.wait_ms = wait_time(run);
	request.kill_after_ms = run->settings.kill_after_ms;
	request.max_run_ms = run->options.max_run_ms;
	request.until_ms = run->options.until_ms;
	request.no_renew = run->options.no_renew;
	request.closes = run->options.closes;
	request.contain = run->settings.contain;
	request.kill_on_lost = !run->options.only_warn;
	request.on_lost_run = run->options.on_lost_run;
	request.wait_for_leftovers = run->options.wait_for_leftovers;
	request.run_if_down = run->options.run_if_down;
	log_about(run->name, &run->settings, run->settings.syslog);
	if (run->settings.warning[0])
		log_say(SAY_WARNING, "%s", run->settings.warning);
	supervise_run(&request, &hooks, &run->signals, &run->result);
	return report(run);
}

int command_run(const struct options *options)
{
	static struct run run;
	struct error err = { 0 };
	int status;

	run.options = *options;
	if (run.options.metrics)
		run.began_at_ms = clock_wall_ms();
	if (choose_name(&run, &err))
		return log_fail(&err);
	if (settings_load(&run.settings, &run.options, &err) ||
	    signals_init(&run.signals, &err))
		status = log_fail(&err);
	else
		status = run_locked(&run);
	if (run.options.metrics)
		write_metrics(&run, status);
	settings_finish(&run.settings);
	die_as_command(&run.result);
	return status;
}
