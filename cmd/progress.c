/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/text.h"
#include "exit_status.h"
#include "log.h"
#include "print.h"

#define TICK_MS 1000

/* In the background, the cursor is where the shell's user types. */
static bool in_foreground(void)
{
	return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void clear_line(struct progress *progress)
{
	if (progress->line_shown && in_foreground())
		fputs("\r\033[K", stderr);
	progress->line_shown = false;
}

/* Prints the line in place of the live line, if there is one. */
static void print(struct progress *progress, struct log_line line)
{
	clear_line(progress);
	line.name = progress->name;
	log_line(&line);
}

static void say(void *context, const struct run_message *message)
{
	print(context, (struct log_line){
		.level = message->level, .event = message->event, .text = message->text,
		.facts = message->facts,
	});
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
 * "the server has not been reachable for 12s; last seen " to stand before the holder, or "" when it
 * can be reached.
 */
static const char *down_text(int64_t down_ms, char buf[static 96])
{
	char duration[DURATION_TEXT_SIZE];

	buf[0] = '\0';
	if (down_ms > 0)
		snprintf(buf, 96, "the server has not been reachable for %s; last seen ",
			 duration_format(down_ms, duration, sizeof(duration)));
	return buf;
}

static void show_line(struct progress *progress, const struct wait_state *state, const char *holder)
{
	char elapsed[DURATION_TEXT_SIZE], text[1024], place[48], down[96];
	struct winsize size = { 0 };
	int width = 79;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 10)
		width = size.ws_col - 1;
	snprintf(text, sizeof(text), "dlock: %s: waiting %s%s, %s%s", progress->name,
		 duration_format(state->elapsed_ms, elapsed, sizeof(elapsed)),
		 place_text(state->down_ms ? -1 : state->ahead, place),
		 down_text(state->down_ms, down), holder);
	text_clean(text, strlen(text), text, (size_t)width + 1);
	fprintf(stderr, "\r%s\033[K", text);
	progress->line_shown = true;
}

static void waiting(void *context, const struct wait_state *state)
{
	struct progress *progress = context;
	char holder[HOLDER_DESCRIPTION_SIZE], who[HOLDER_DESCRIPTION_SIZE];
	char place[48], where[URI_PLACE_SIZE], text[1200];
	struct run_facts facts = { 0 };

	if (!state) {
		clear_line(progress);
		return;
	}
	holder_describe(state->holder, state->age_ms, holder, sizeof(holder));
	if (progress->live) {
		if (in_foreground())
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
	facts.began_ms = clock_boot_ms() - state->elapsed_ms;
	snprintf(text, sizeof(text), "waiting%s, %s (on %s)", place_text(state->ahead, place),
		 holder, settings_place(progress->settings, where));
	print(progress, (struct log_line){
		.level = SAY_STEP, .event = EVENT_WAITING, .text = text, .facts = &facts,
		.holder = state->holder, .age_ms = state->age_ms, .ahead = state->ahead,
	});
}

void progress_warn(struct progress *progress, const char *text)
{
	if (log_least(progress->verbosity) <= SAY_WARNING)
		print(progress, (struct log_line){
			.level = SAY_WARNING, .event = EVENT_OTHER, .text = text,
		});
}

void progress_init(struct progress *progress, const struct settings *settings, const char *name,
		   int verbosity, struct run_hooks *hooks)
{
	/* Programs want to know each step, unless the user wants errors only. */
	if (log_is_json() && !verbosity)
		verbosity = 1;
	progress->settings = settings;
	progress->name = name;
	progress->verbosity = verbosity;
	progress->live = verbosity >= 0 && !log_is_json() &&
			 print_is_screen(STDERR_FILENO);
	*hooks = (struct run_hooks){
		.context = progress, .say = say, .waiting = waiting,
		.tick_ms = progress->live ? TICK_MS : CLOCK_NEVER,
		.least = log_least(verbosity),
	};
}

static void print_not_obtained(struct progress *progress, const struct run_result *result)
{
	char holder[HOLDER_DESCRIPTION_SIZE], where[URI_PLACE_SIZE], down[96], text[1200];
	const char *why = "the backend gave no answer within the time to wait";

	if (result->replaced)
		why = holder_describe_newer(&result->holder, holder, sizeof(holder));
	else if (result->holder_known)
		why = holder_describe(&result->holder, result->age_ms, holder, sizeof(holder));
	snprintf(text, sizeof(text), "%s%s (on %s)", down_text(result->down_ms, down), why,
		 settings_place(progress->settings, where));
	print(progress, (struct log_line){
		.level = SAY_WARNING, .text = text,
		.event = result->replaced ? EVENT_REPLACED : EVENT_NOT_OBTAINED,
		.facts = &result->facts, .ahead = -1, .age_ms = result->age_ms,
		.holder = result->holder_known ? &result->holder : NULL,
	});
}

static void print_failure(struct progress *progress, enum run_event event,
			  const struct run_result *result)
{
	print(progress, (struct log_line){
		.level = SAY_ERROR, .event = event, .text = result->error.message,
		.facts = &result->facts,
	});
}

static void print_interrupted(struct progress *progress, const struct run_result *result)
{
	char text[64];

	snprintf(text, sizeof(text), "ended by signal %d before the lock was obtained",
		 result->status);
	print(progress, (struct log_line){
		.level = SAY_STEP, .event = EVENT_FAILED, .text = text, .facts = &result->facts,
	});
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
		if (progress->verbosity > 0)
			print_interrupted(progress, result);
		return EXIT_SIGNAL + result->status;
	case RUN_LOST:
		if (result->error.kind != ERROR_NONE)
			print_failure(progress, EVENT_LOST, result);
		return EXIT_LOST;
	case RUN_OVERDUE:
		return EXIT_OVERDUE;
	default:
		break;
	}
	print_failure(progress, EVENT_FAILED, result);
	return exit_status_of(&result->error);
}
