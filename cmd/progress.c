/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/system_log.h"
#include "exit_status.h"

#define TICK_MS 1000

static void clear_line(struct progress *progress)
{
	if (!progress->line_shown)
		return;
	fputs("\r\033[K", stderr);
	progress->line_shown = false;
}

void progress_print(struct progress *progress, enum say level, const char *format, ...)
{
	static const int priorities[] = {
		[SAY_DETAIL] = LOG_DEBUG, [SAY_STEP] = LOG_INFO,
		[SAY_WARNING] = LOG_WARNING, [SAY_ERROR] = LOG_ERR,
	};
	char text[1200];
	va_list args;

	clear_line(progress);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* In one write, so that the lines of several processes do not mix in a log. */
	fprintf(stderr, "dlock: %s: %s\n", progress->name, text);
	if (progress->settings->syslog)
		system_log(priorities[level], progress->name, "%s", text);
}

static void say(void *context, enum say level, const char *text)
{
	progress_print(context, level, "%s", text);
}

/* The least important kind of message that is printed at this verbosity. */
static enum say least_at(int verbosity)
{
	if (verbosity < 0)
		return SAY_ERROR;
	if (verbosity == 0)
		return SAY_WARNING;
	return verbosity == 1 ? SAY_STEP : SAY_DETAIL;
}

static const char *where_text(const struct progress *progress, char buf[static URI_PLACE_SIZE])
{
	return backend_place(progress->settings->driver, &progress->settings->uri, buf);
}

/* ", next in line" or ", 3 ahead"; "" where that is not known. */
static const char *place_text(int64_t ahead, char buf[static 48])
{
	buf[0] = '\0';
	if (ahead == 0)
		strcpy(buf, ", next in line");
	else if (ahead > 0)
		snprintf(buf, 48, ", %" PRId64 " ahead", ahead);
	return buf;
}

/*
 * "the server cannot be reached, for 12s now; last seen " to stand before the holder, or "" when it
 * can be reached.
 */
static const char *down_text(int64_t down_ms, char buf[static 96])
{
	char duration[DURATION_TEXT_SIZE];

	buf[0] = '\0';
	if (down_ms > 0)
		snprintf(buf, 96, "the server cannot be reached, for %s now; last seen ",
			 duration_format(down_ms, duration, sizeof(duration)));
	return buf;
}

static void show_line(struct progress *progress, const struct wait_state *state, const char *holder)
{
	char elapsed[DURATION_TEXT_SIZE], text[1024], place[48], down[96];
	struct winsize size = { 0 };
	int width = 79, used;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 10)
		width = size.ws_col - 1;
	used = snprintf(text, sizeof(text), "dlock: %s: waiting %s%s, %s%s", progress->name,
			duration_format(state->elapsed_ms, elapsed, sizeof(elapsed)),
			place_text(state->down_ms ? -1 : state->ahead, place),
			down_text(state->down_ms, down), holder);
	if (used > width) {
		/* Does not cut within a character. */
		while (width > 0 && ((unsigned char)text[width] & 0xc0) == 0x80)
			width--;
		text[width] = '\0';
	}
	fprintf(stderr, "\r%s\033[K", text);
	progress->line_shown = true;
}

static void waiting(void *context, const struct wait_state *state)
{
	struct progress *progress = context;
	char holder[HOLDER_DESCRIPTION_SIZE], who[HOLDER_DESCRIPTION_SIZE];
	char place[48], where[URI_PLACE_SIZE];

	if (!state) {
		clear_line(progress);
		return;
	}
	holder_describe(state->holder, state->age_ms, holder, sizeof(holder));
	if (progress->live) {
		show_line(progress, state, holder);
		return;
	}
	if (progress->verbosity <= 0)
		return;
	/* A log gets a line when the holder has changed, and not every five seconds. */
	holder_describe(state->holder, -1, who, sizeof(who));
	if (progress->said_waiting && !strcmp(who, progress->last_holder))
		return;
	memcpy(progress->last_holder, who, sizeof(who));
	progress->said_waiting = true;
	progress_print(progress, SAY_STEP, "waiting for %s on %s, %s%s", progress->name,
		       where_text(progress, where), holder, place_text(state->ahead, place));
}

void progress_warn(struct progress *progress, const char *text)
{
	if (least_at(progress->verbosity) <= SAY_WARNING)
		progress_print(progress, SAY_WARNING, "%s", text);
}

void progress_init(struct progress *progress, const struct settings *settings, const char *name,
		   int verbosity, struct run_hooks *hooks)
{
	progress->settings = settings;
	progress->name = name;
	progress->verbosity = verbosity;
	progress->live = verbosity >= 0 && isatty(STDERR_FILENO);
	*hooks = (struct run_hooks){
		.context = progress, .say = say, .waiting = waiting,
		.tick_ms = progress->live ? TICK_MS : CLOCK_NEVER,
		.least = least_at(verbosity),
	};
}

static void print_not_obtained(struct progress *progress, const struct run_result *result)
{
	char holder[HOLDER_DESCRIPTION_SIZE], where[URI_PLACE_SIZE], down[96];
	const char *why = "the backend gave no answer within the time to wait";

	if (result->replaced)
		why = holder_describe_newer(&result->holder, holder, sizeof(holder));
	else if (result->holder_known)
		why = holder_describe(&result->holder, result->age_ms, holder, sizeof(holder));
	progress_print(progress, SAY_WARNING, "%s%s (on %s)", down_text(result->down_ms, down), why,
		       where_text(progress, where));
}

int progress_report_failure(struct progress *progress, const struct run_result *result,
			    int not_obtained)
{
	switch (result->end) {
	case RUN_NOT_OBTAINED:
		if (progress->verbosity >= 0)
			print_not_obtained(progress, result);
		return not_obtained;
	case RUN_INTERRUPTED:
		return EXIT_SIGNAL + result->status;
	case RUN_LOST:
		if (result->error.kind != ERROR_NONE)
			progress_print(progress, SAY_ERROR, "%s", result->error.message);
		return EXIT_LOST;
	case RUN_OVERDUE:
		return EXIT_OVERDUE;
	default:
		break;
	}
	progress_print(progress, SAY_ERROR, "%s", result->error.message);
	return exit_status_of(&result->error);
}
