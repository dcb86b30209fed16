/* SPDX-License-Identifier: MIT */
/* Prints messages and the live line, and checks at the end that the output was written. */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/memory.h"
#include "base/system_log.h"
#include "base/text.h"
#include "json.h"
#include "options.h"

#define TICK_MS 1000
/* A CI system ends a job that prints nothing for some minutes. */
#define LINE_EACH_MS 60000
/* In such a job, without -v. */
#define LINE_FIRST_MS 10000

struct run_hooks log_hooks = { .report = log_message, .waiting = log_waiting };

/* One for the process, as stderr is. */
static struct {
	bool json, syslog;
	const char *name;		/* of the lock; NULL: not known yet */
	const char *location;		/* of the lock */
	bool live;			/* stderr is a terminal: show the live line while waiting */
	bool line_shown;
	char last_holder[HOLDER_DESCRIPTION_SIZE];	/* the last one that was printed */
	int64_t next_ms;		/* when to print it again: CLOCK_BOOTTIME */
} lines;

static const struct {
	const char *word;
	int priority;
} levels[] = {
	[LEVEL_STEP] = { "info", LOG_INFO },
	[LEVEL_WARNING] = { "warning", LOG_WARNING },
	[LEVEL_ERROR] = { "error", LOG_ERR },
};

/* ---- lines ---- */

void print_line(FILE *to, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		memory_exit();
	va_end(args);
	text_clean(text, strlen(text), text, strlen(text) + 1);
	fprintf(to, "%s\n", text);
	free(text);
}

const char *print_name(const char *name, char buf[static PRINT_NAME_SIZE])
{
	const bool has_blank = *name == ' ' || (*name && name[strlen(name) - 1] == ' ');

	snprintf(buf, PRINT_NAME_SIZE, has_blank ? "'%s'" : "%s", name);
	return buf;
}

bool print_is_screen(int fd)
{
	const char *term = getenv("TERM");

	return term && *term && strcmp(term, "dumb") != 0 && isatty(fd);
}

int print_width(int fd)
{
	struct winsize size = { .ws_col = 0 };

	if (!isatty(fd))
		return 0;
	return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

/* Every line has all keys; a key without a value is null. */
static void put_facts(struct json *json, const struct run_facts *facts)
{
	const int64_t now_ms = facts->over_ms ? facts->over_ms : clock_boot_ms();
	const bool died = facts->has_status && WIFSIGNALED(facts->status);

	json_number(json, "fence", facts->fence ? (int64_t)facts->fence : -1);
	json_number(json, "command_pid", facts->command ? facts->command : -1);
	json_number(json, "status", facts->has_status && !died ? WEXITSTATUS(facts->status) : -1);
	json_number(json, "signal", died ? WTERMSIG(facts->status) : -1);
	json_number(json, "waited_ms", !facts->began_ms ? -1 :
		   (facts->acquired_ms ? facts->acquired_ms : now_ms) - facts->began_ms);
	json_number(json, "held_ms", facts->acquired_ms ? now_ms - facts->acquired_ms : -1);
}

static void put_holder(struct json *json, const struct run_message *message)
{
	const struct wait_state *wait = message->wait;
	const bool waits = wait && !strcmp(message->event, EVENT_WAITING);

	json_number(json, "ahead", waits ? wait->ahead : -1);
	if (!wait) {
		json_text(json, "holder", NULL);
		return;
	}
	json_open(json, "holder", '{');
	json_who(json, &wait->holder);
	json_time(json, "kept_until", wait->holder.kept_ms);
	json_time(json, "done_at", wait->holder.done_ms);
	json_number(json, "held_for_ms", run_elapsed(wait->since_ms));
	json_close(json, '}');
}

static void print_json(const struct run_message *message)
{
	char *object, host[HOLDER_HOST_SIZE];
	size_t length;
	struct json json = { .stream = open_memstream(&object, &length) };
	static const struct run_facts none = { 0 };

	if (!json.stream)
		memory_exit();
	holder_host(host);
	json_open(&json, NULL, '{');
	json_time(&json, "time", clock_wall_ms());
	json_text(&json, "level", levels[message->level].word);
	json_text(&json, "event", message->event);
	json_text(&json, "name", lines.name);
	json_text(&json, "backend", lines.location);
	json_text(&json, "host", host);
	json_number(&json, "pid", getpid());
	put_facts(&json, message->facts ? message->facts : &none);
	put_holder(&json, message);
	json_text(&json, "message", message->text);
	json_close(&json, '}');
	putc('\n', json.stream);
	if (fclose(json.stream))
		memory_exit();
	fwrite(object, 1, length, stderr);
	free(object);
}

/* In the background the cursor belongs to the user's shell. */
static bool in_foreground(void)
{
	return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void clear_live_line(void)
{
	if (lines.line_shown && in_foreground())
		fputs("\r\033[K", stderr);
	lines.line_shown = false;
}

void log_message(const struct run_message *message)
{
	const char *name = message->nameless ? NULL : lines.name;
	char shown[PRINT_NAME_SIZE];

	if (message->level < log_hooks.least)
		return;
	clear_live_line();
	/* One write, so that lines of several processes do not mix in a log. */
	if (lines.json)
		print_json(message);
	else
		print_line(stderr, "dlock: %s%s%s", name ? print_name(name, shown) : "",
			   name ? ": " : "", message->text);
	if (lines.syslog)
		system_log(levels[message->level].priority, lines.name, "%s", message->text);
}

void log_print(enum level level, const char *format, ...)
{
	char text[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_message(&(struct run_message){ .level = level, .event = EVENT_OTHER, .text = text });
}

/* Print the error that has ended a run; facts are NULL without one. Returns its exit status. */
static int report_error(const char *event, const struct error *err, const struct run_facts *facts)
{
	log_message(&(struct run_message){
		.level = LEVEL_ERROR, .event = event, .text = err->message, .facts = facts,
		.nameless = err->kind == ERROR_USAGE && !facts,
	});
	return err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_REFUSED ? EXIT_UNAVAILABLE
									    : EXIT_DLOCK;
}

int log_fail(const struct error *err)
{
	return report_error(EVENT_FAILED, err, NULL);
}

void log_begin(const struct options *options)
{
	const char *ci = getenv("CI");
	bool in_job;

	lines.json = options->log_json;
	lines.syslog = options->syslog;
	/* JSON reports each step. */
	log_hooks.least = lines.json && options->least < LEVEL_ERROR ? LEVEL_STEP : options->least;
	lines.live = options->least < LEVEL_ERROR && !lines.json && print_is_screen(STDERR_FILENO);
	in_job = log_hooks.least == LEVEL_WARNING && ci && *ci && !isatty(STDERR_FILENO);
	lines.next_ms = clock_boot_ms() + LINE_FIRST_MS + TICK_MS;
	log_hooks.tick_ms = lines.live ? TICK_MS : in_job ? LINE_FIRST_MS
				       : log_hooks.least == LEVEL_STEP ? LINE_EACH_MS : CLOCK_NEVER;
}

void log_about(const char *name, const char *location, bool syslog)
{
	static char uri[PRINT_NAME_SIZE];

	/* It may be a URI without its -b. */
	lines.name = name && strstr(name, "://") ? text_quote(name, uri, sizeof(uri)) : name;
	lines.location = location;
	lines.syslog = syslog;
}

/* ---- stdout ---- */

int log_flush(int status)
{
	const int failed = fflush(stdout);
	struct error err;

	if (!failed && !ferror(stdout))
		return status;
	/* The reason of an earlier failure is not known any more. */
	error_set(&err, ERROR_INTERNAL, failed ? errno : 0, "cannot write the output");
	clearerr(stdout);
	return log_fail(&err);
}

/* ---- while dlock waits, and when it has not acquired the lock ---- */

/* ", next in line" or ", 3 ahead"; "" if the position is not known. */
static const char *queue_text(int64_t ahead, char buf[static 48])
{
	snprintf(buf, 48, ", %" PRId64 " ahead", ahead);
	return ahead < 0 ? "" : ahead ? buf : ", next in line";
}

#define TIMED_SIZE 96

/* Write a duration between two texts, or "" when it is negative. Returns buf. */
static const char *timed_text(const char *before, int64_t ms, const char *after,
			      char buf[static TIMED_SIZE])
{
	char duration[DURATION_TEXT_SIZE];

	snprintf(buf, TIMED_SIZE, "%s%s%s", before,
		 duration_format(ms, duration, sizeof(duration)), after);
	return ms < 0 ? "" : buf;
}

/* What comes before the last known holder while the server cannot be reached, or "". */
static const char *down_text(const struct wait_state *state, char buf[static TIMED_SIZE])
{
	return timed_text("the server has not been reachable for ",
			  run_elapsed(state->down_since_ms),
			  state->holder_known ? "; last seen " : "; ", buf);
}

static void show_live_line(const struct wait_state *state, const char *holder)
{
	char waited[TIMED_SIZE], text[1024], queue[48], down[TIMED_SIZE], name[PRINT_NAME_SIZE];
	const int width = print_width(STDERR_FILENO);

	if (!in_foreground() || !width)
		return;
	snprintf(text, sizeof(text), "dlock: %s: %s%s, %s%s", print_name(lines.name, name),
		 timed_text("waiting ", run_elapsed(state->began_ms), "", waited),
		 queue_text(state->down_since_ms ? -1 : state->ahead, queue),
		 down_text(state, down), holder);
	/* The NUL is where the last column is, so that the cursor stays in the line. */
	text_clean(text, strlen(text), text, (size_t)width);
	fprintf(stderr, "\r%s\033[K", text);
	lines.line_shown = true;
}

/* Print a line each minute, and with -v when the holder has changed. */
static void print_waiting(const struct wait_state *state, const char *holder)
{
	const struct run_facts facts = { .began_ms = state->began_ms };
	char who[HOLDER_DESCRIPTION_SIZE], queue[48], text[1200], polls[TIMED_SIZE];

	holder_describe(&state->holder, -1, who, sizeof(who));
	if (clock_boot_ms() < lines.next_ms - TICK_MS &&
	    (log_hooks.least > LEVEL_STEP || !strcmp(who, lines.last_holder)))
		return;
	memcpy(lines.last_holder, who, sizeof(who));
	lines.next_ms = clock_boot_ms() + LINE_EACH_MS;
	snprintf(text, sizeof(text), "waiting%s, %s (on %s)%s", queue_text(state->ahead, queue),
		 holder, lines.location,
		 timed_text("; no release wakes this waiter: it checks every ",
			    state->poll_ms ? state->poll_ms : -1, "", polls));
	log_message(&(struct run_message){
		.level = log_hooks.least, .event = EVENT_WAITING, .text = text, .facts = &facts,
		.wait = state,
	});
}

void log_waiting(const struct wait_state *state)
{
	char holder[HOLDER_DESCRIPTION_SIZE];

	if (!state)
		clear_live_line();
	/* Without a tick nobody reads the state. */
	if (!state || log_hooks.tick_ms == CLOCK_NEVER)
		return;
	if (state->holder_known || !state->down_since_ms)
		holder_describe(&state->holder, run_elapsed(state->since_ms), holder,
				sizeof(holder));
	else if (lines.live)
		strcpy(holder, "no holder is known");
	else
		return;
	if (lines.live)
		show_live_line(state, holder);
	else
		print_waiting(state, holder);
}

static void report_not_obtained(const struct run_result *result)
{
	const struct wait_state *wait = &result->wait;
	char holder[HOLDER_DESCRIPTION_SIZE], down[TIMED_SIZE], text[1200];
	const char *why = "it is taken, or others wait for it";

	if (result->done)
		why = holder_describe_done(&wait->holder, holder, sizeof(holder));
	else if (wait->holder_known)
		why = holder_describe(&wait->holder, run_elapsed(wait->since_ms), holder,
				      sizeof(holder));
	snprintf(text, sizeof(text), "%s%s (on %s)", down_text(wait, down), why, lines.location);
	log_message(&(struct run_message){
		.level = LEVEL_WARNING, .text = text,
		.event = EVENT_NOT_OBTAINED,
		.facts = &result->facts, .wait = wait->holder_known ? wait : NULL,
	});
}

int log_failed_run(const struct run_result *result, int not_obtained)
{
	char text[64];

	switch (result->end) {
	case RUN_NOT_OBTAINED:
		report_not_obtained(result);
		return not_obtained;
	case RUN_INTERRUPTED:
		snprintf(text, sizeof(text), "ended by signal %d before the lock was obtained",
			 result->status);
		log_message(&(struct run_message){
			.level = LEVEL_STEP, .event = EVENT_FAILED, .text = text,
			.facts = &result->facts,
		});
		return EXIT_SIGNAL + result->status;
	case RUN_LOST:
		if (result->error.kind != ERROR_NONE)
			report_error(EVENT_LOST, &result->error, &result->facts);
		return EXIT_LOST;
	case RUN_OVERDUE:
		return EXIT_OVERDUE;
	default:
		return report_error(EVENT_FAILED, &result->error, &result->facts);
	}
}
