/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/system_log.h"
#include "json.h"
#include "options.h"
#include "print.h"
#include "settings.h"

/* One for the process, as stderr is. */
static struct {
	bool json, syslog;
	const char *name;		/* of the lock; NULL: not known yet */
	char place[URI_PLACE_SIZE];	/* where the lock is; only for JSON */
} lines;

static const struct {
	const char *word;
	int priority;
} levels[] = {
	[SAY_STEP] = { "info", LOG_INFO },
	[SAY_WARNING] = { "warning", LOG_WARNING },
	[SAY_ERROR] = { "error", LOG_ERR },
};

static const char *const events[RUN_EVENTS] = {
	[EVENT_OTHER] = "other",
	[EVENT_WAITING] = "waiting",
	[EVENT_UNREACHABLE] = "unreachable",
	[EVENT_REACHABLE] = "reachable",
	[EVENT_ACQUIRED] = "acquired",
	[EVENT_JOINED] = "joined",
	[EVENT_UNPROTECTED] = "unprotected",
	[EVENT_STARTED] = "started",
	[EVENT_ENDED] = "ended",
	[EVENT_OVERDUE] = "overdue",
	[EVENT_LEFTOVERS] = "leftovers",
	[EVENT_NOT_RENEWED] = "not-renewed",
	[EVENT_RENEWED] = "renewed",
	[EVENT_LOST] = "lost",
	[EVENT_RELEASED] = "released",
	[EVENT_NOT_RELEASED] = "not-released",
	[EVENT_NOT_OBTAINED] = "not-obtained",
	[EVENT_REPLACED] = "replaced",
	[EVENT_FAILED] = "failed",
};

void log_begin(const struct options *options)
{
	lines.json = options->log_json;
	lines.syslog = options->syslog;
}

void log_about(const char *name, const struct settings *settings)
{
	lines.name = name;
	lines.syslog = settings->syslog;
	if (lines.json)
		settings_place(settings, lines.place);
}

bool log_is_json(void)
{
	return lines.json;
}

/* All keys are there in each line; a key without a value is null. */
static void put_facts(struct json *json, const struct run_facts *facts)
{
	static const struct run_facts none = { 0 };
	int64_t now_ms;
	bool died;

	if (!facts)
		facts = &none;
	now_ms = facts->over_ms ? facts->over_ms : clock_boot_ms();
	died = facts->has_status && WIFSIGNALED(facts->status);
	json_maybe(json, "fence", facts->fence ? (int64_t)facts->fence : -1);
	json_maybe(json, "command_pid", facts->command ? facts->command : -1);
	json_maybe(json, "status", facts->has_status && !died ? WEXITSTATUS(facts->status) : -1);
	json_maybe(json, "signal", died ? WTERMSIG(facts->status) : -1);
	json_maybe(json, "waited_ms", !facts->began_ms ? -1 :
		   (facts->obtained_ms ? facts->obtained_ms : now_ms) - facts->began_ms);
	json_maybe(json, "held_ms", facts->obtained_ms ? now_ms - facts->obtained_ms : -1);
}

static void put_holder(struct json *json, const struct log_line *line)
{
	json_maybe(json, "ahead", line->holder ? line->ahead : -1);
	if (!line->holder) {
		json_text(json, "holder", NULL);
		return;
	}
	json_open(json, "holder", '{');
	json_who(json, line->holder);
	json_time(json, "kept_until", line->holder->kept_ms);
	json_maybe(json, "held_for_ms", line->age_ms);
	json_close(json, '}');
}

static void put_object(struct json *json, const struct log_line *line)
{
	char host[HOLDER_HOST_SIZE];

	holder_host(host);
	json_open(json, NULL, '{');
	json_time(json, "time", clock_wall_ms());
	json_text(json, "level", levels[line->level].word);
	json_text(json, "event", events[line->event]);
	json_text(json, "name", line->name ? line->name : lines.name);
	json_text(json, "backend", lines.place);
	json_text(json, "host", host);
	json_number(json, "pid", getpid());
	put_facts(json, line->facts);
	put_holder(json, line);
	json_text(json, "message", line->text);
	json_close(json, '}');
}

static void print_json(const struct log_line *line)
{
	char *object;
	size_t length;
	struct json json = { .stream = open_memstream(&object, &length) };

	if (!json.stream)
		memory_gone();
	put_object(&json, line);
	putc('\n', json.stream);
	if (fclose(json.stream))
		memory_gone();
	fwrite(object, 1, length, stderr);
	free(object);
}

void log_line(const struct log_line *line)
{
	const char *about = line->name ? line->name : lines.name;

	/* In one write, so that the lines of several processes do not mix in a log. */
	if (lines.json)
		print_json(line);
	else
		print_line(stderr, "dlock: %s%s%s", line->name ? line->name : "",
			    line->name ? ": " : "", line->text);
	if (lines.syslog)
		system_log(levels[line->level].priority, about, "%s", line->text);
}

void log_text(enum say level, const char *name, const char *text)
{
	log_line(&(struct log_line){
		.level = level, .event = level == SAY_ERROR ? EVENT_FAILED : EVENT_OTHER,
		.name = name, .text = text, .age_ms = -1, .ahead = -1,
	});
}

enum say log_least(int verbosity)
{
	if (verbosity < 0)
		return SAY_ERROR;
	return verbosity == 0 ? SAY_WARNING : SAY_STEP;
}
