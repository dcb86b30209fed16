/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "duration.h"
#include "error.h"
#include "exit_status.h"
#include "name.h"
#include "settings.h"
#include "signals.h"
#include "supervise.h"

#define TICK_MS 1000

struct run {
	struct options options;
	struct settings settings;
	struct signals signals;
	const char *name;
	char derived_name[NAME_DERIVED_SIZE];
	bool live;		/* waiting shows a line on a terminal */
	bool line_shown;
	bool said_waiting;
	char last_holder[320];	/* -v: what was said last of whom we wait for */
};

static void clear_line(struct run *run)
{
	if (run->line_shown)
		fputs("\r\033[K", stderr);
	run->line_shown = false;
}

static void print(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void print(struct run *run, const char *format, ...)
{
	char text[1200];
	va_list args;

	clear_line(run);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* One write: lines of several processes must not mix in a log. */
	fprintf(stderr, "dlock: %s: %s\n", run->name, text);
}

static void say(void *context, enum say level, const char *text)
{
	struct run *run = context;

	if (level == SAY_WARNING ? run->options.verbosity >= 0 : run->options.verbosity > 0)
		print(run, "%s", text);
}

static void show_line(struct run *run, const struct wait_state *state, const char *holder)
{
	char elapsed[DURATION_TEXT_SIZE], text[700], ahead[48] = "";
	struct winsize size = { 0 };
	int width = 79, used;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 10)
		width = size.ws_col - 1;
	if (state->ahead >= 0)
		snprintf(ahead, sizeof(ahead), ", %lld ahead", (long long)state->ahead);
	used = snprintf(text, sizeof(text), "dlock: %s: waiting %s%s, %s", run->name,
			duration_format(state->elapsed_ms, elapsed, sizeof(elapsed)),
			ahead, holder);
	if (used > width) {
		/* Not in the middle of a character. */
		while (width > 0 && ((unsigned char)text[width] & 0xc0) == 0x80)
			width--;
		text[width] = '\0';
	}
	fprintf(stderr, "\r%s\033[K", text);
	run->line_shown = true;
}

static void waiting(void *context, const struct wait_state *state)
{
	struct run *run = context;
	char holder[400], who[320];

	if (!state) {
		clear_line(run);
		return;
	}
	holder_describe(state->holder, state->age_ms, holder, sizeof(holder));
	if (run->live) {
		show_line(run, state, holder);
		return;
	}
	if (run->options.verbosity <= 0)
		return;
	/* A log wants a line when something changed, not every five seconds. */
	holder_describe(state->holder, -1, who, sizeof(who));
	if (run->said_waiting && !strcmp(who, run->last_holder))
		return;
	memcpy(run->last_holder, who, sizeof(who));
	run->said_waiting = true;
	if (state->ahead >= 0)
		print(run, "waiting, %s, %lld ahead", holder, (long long)state->ahead);
	else
		print(run, "waiting, %s", holder);
}

/* Reads the command line as far as it is run's own. */
static int choose_name(struct run *run, struct error *err)
{
	const struct options *options = &run->options;

	if (!options->argv) {
		error_set(err, ERROR_USAGE, 0, "no command given: put it behind '--', as in "
			  "'dlock run NAME -- COMMAND'");
		return -1;
	}
	if (!options->argv[0]) {
		error_set(err, ERROR_USAGE, 0, "no command given behind '--'");
		return -1;
	}
	if (options->operand_count > 1) {
		error_set(err, ERROR_USAGE, 0, "one NAME is wanted before '--', but there is "
			  "also '%s'", options->operands[1]);
		return -1;
	}
	if (options->operand_count == 1) {
		run->name = options->operands[0];
		return name_check(run->name, err);
	}
	name_derive((const char *const *)options->argv, run->derived_name);
	run->name = run->derived_name;
	return 0;
}

static int report_exec_failure(const struct run *run, int errnum)
{
	fprintf(stderr, "dlock: %s: %s\n", run->options.argv[0],
		errnum == ENOENT ? "command not found" : strerror(errnum));
	return errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

static int report_not_obtained(struct run *run, const struct run_result *result)
{
	char holder[400];

	if (run->options.verbosity >= 0)
		print(run, "%s", holder_describe(&result->holder, result->age_ms, holder,
						 sizeof(holder)));
	return run->options.conflict_exit_code;
}

static int report_exit(const struct run_result *result)
{
	int sig;

	if (!WIFSIGNALED(result->status))
		return WEXITSTATUS(result->status);
	sig = WTERMSIG(result->status);
	/*
	 * A Ctrl-C went to the command's group alone. Pass it on to ours, which is the
	 * calling script's too, so that it ends as it would without dlock in between.
	 */
	if (result->from_terminal && (sig == SIGINT || sig == SIGQUIT))
		signals_die(sig, true);
	return EXIT_SIGNAL + sig;
}

static int report(struct run *run, const struct run_result *result)
{
	switch (result->end) {
	case RUN_EXITED:
		return report_exit(result);
	case RUN_EXEC_FAILED:
		return report_exec_failure(run, result->error.errnum);
	case RUN_NOT_OBTAINED:
		return report_not_obtained(run, result);
	case RUN_LOST:
		if (result->error.kind != ERROR_NONE)
			print(run, "%s", result->error.message);
		return EXIT_LOST;
	case RUN_INTERRUPTED:
		return EXIT_SIGNAL + result->status;
	case RUN_FAILED:
		break;
	}
	print(run, "%s", result->error.message);
	return exit_status_of(&result->error);
}

/* Everything is known: hold the lock and run the command. */
static int run_locked(struct run *run, struct error *err)
{
	struct run_hooks hooks = {
		.context = run, .say = say, .waiting = waiting, .tick_ms = CLOCK_NEVER,
	};
	struct run_request request = {
		.uri = &run->settings.uri,
		.uri_text = run->settings.uri_text,
		.name = run->name,
		.argv = run->options.argv,
		.mode = options_mode(&run->options),
		.slots = run->options.slots,
		.ttl_ms = run->settings.ttl_ms,
		.wait_ms = run->settings.wait_ms,
		.kill_after_ms = run->options.kill_after_ms,
		.min_hold_ms = run->options.min_hold_ms,
		.no_renew = run->options.no_renew,
		.kill_on_lost = run->options.kill_on_lost,
		.run_if_down = run->options.run_if_down,
	};
	struct run_result result;

	request.driver = backend_find(run->settings.uri.scheme, err);
	if (!request.driver)
		return complain(err);
	run->live = run->options.verbosity >= 0 && isatty(STDERR_FILENO);
	if (run->live)
		hooks.tick_ms = TICK_MS;
	supervise_run(&request, &hooks, &run->signals, &result);
	return report(run, &result);
}

int command_run(int argc, char **argv)
{
	static struct run run;
	struct error err = { 0 };
	int status;

	if (options_parse(&run.options, COMMAND_RUN, argc, argv, &err))
		return complain(&err);
	if (run.options.help) {
		help_print(command_find("run"));
		return 0;
	}
	if (signals_init(&run.signals, &err) || choose_name(&run, &err))
		return complain(&err);
	if (settings_load(&run.settings, &run.options, &err)) {
		status = complain(&err);
	} else {
		if (run.settings.warning[0])
			say(&run, SAY_WARNING, run.settings.warning);
		status = run_locked(&run, &err);
	}
	settings_finish(&run.settings);
	return status;
}
