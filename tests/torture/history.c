/* SPDX-License-Identifier: MIT */
/* Checks a history of holds for contradictions. */
#include "history.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
	struct history history;
	history_tell *tell;
	void *context;
	int findings;
	bool no_memory;
};

__attribute__((format(printf, 2, 3))) static void find(struct judge *judge, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	judge->findings++;
	if (judge->tell)
		judge->tell(judge->context, text);
}

static double to_ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static struct hold *hold_of(struct judge *judge, const char *name)
{
	struct history *history = &judge->history;
	struct hold *grown;
	size_t i, capacity;

	/* the latest first: most lines are about it */
	for (i = history->count; i-- > 0;)
		if (strcmp(history->holds[i].name, name) == 0)
			return &history->holds[i];
	if (history->count == history->capacity) {
		capacity = history->capacity ? 2 * history->capacity : 16;
		grown = realloc(history->holds, capacity * sizeof(*grown));
		if (!grown) {
			judge->no_memory = true;
			return NULL;
		}
		history->holds = grown;
		history->capacity = capacity;
	}
	grown = &history->holds[history->count++];
	memset(grown, 0, sizeof(*grown));
	snprintf(grown->name, sizeof(grown->name), "%s", name);
	return grown;
}

/* "x", "s" or a number; false: none of them. */
static bool parse_mode(const char *text, int *slots)
{
	char *end;
	long number;

	if (strcmp(text, "x") == 0 || strcmp(text, "s") == 0) {
		*slots = *text == 's' ? -1 : 0;
		return true;
	}
	number = strtol(text, &end, 10);
	*slots = (int)number;
	return end != text && !*end && number > 0 && number < 1000000;
}

static bool take_begin(struct judge *judge, struct hold *hold, int64_t ns, const char *rest)
{
	char fence[24], mode[16];
	long long pid;

	if (sscanf(rest, "%lld %23s %15s", &pid, fence, mode) != 3 ||
	    !parse_mode(mode, &hold->slots))
		return false;
	if (hold->begin_ns)
		find(judge, "hold %s began twice, at %.3f and %.3f", hold->name,
		     to_ms(hold->begin_ns), to_ms(ns));
	hold->begin_ns = ns;
	hold->pid = pid;
	hold->fence = strcmp(fence, "-") == 0 ? 0 : strtoull(fence, NULL, 10);
	if (hold->last_ns < ns)
		hold->last_ns = ns;
	return true;
}

/* One line of text, without its newline. False: it is none of a history. */
static bool take_line(struct judge *judge, const char *line)
{
	char word[8], name[64];
	struct hold *hold;
	long long whole, number;
	long part;
	int64_t ns;
	int at = 0;

	if (!*line || *line == '#')
		return true;
	if (sscanf(line, "%lld.%6ld %7s %63s %n", &whole, &part, word, name, &at) != 4 || !at)
		return false;
	ns = (int64_t)whole * 1000000 + part;
	hold = hold_of(judge, name);
	if (!hold)
		return true;
	if (strcmp(word, "begin") == 0)
		return take_begin(judge, hold, ns, line + at);
	if (sscanf(line + at, "%lld", &number) != 1)
		return false;
	if (strcmp(word, "exit") == 0) {
		hold->exit_ns = ns;
		return true;
	}
	if (strcmp(word, "end") == 0 && number == hold->pid)
		hold->end_ns = ns;
	else if (strcmp(word, "beat") != 0 && strcmp(word, "end") != 0)
		return false;
	if (hold->end_ns && ns > hold->end_ns && number == hold->pid)
		find(judge, "process %lld of hold %s lived at %.3f, after its end at %.3f", number,
		     name, to_ms(ns), to_ms(hold->end_ns));
	if (hold->last_ns < ns)
		hold->last_ns = ns;
	return true;
}

static void take_text(struct judge *judge, const char *text, size_t length)
{
	char line[256];
	const char *end;
	size_t n;

	for (; length > 0; text += n, length -= n) {
		end = memchr(text, '\n', length);
		n = end ? (size_t)(end - text) + 1 : length;
		snprintf(line, sizeof(line), "%.*s", (int)(end ? n - 1 : n), text);
		/* a line that somebody was killed in the middle of has no newline */
		if (!take_line(judge, line) && end)
			find(judge, "not a line of a history: %.100s", line);
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct hold *one = a, *other = b;

	if (one->begin_ns != other->begin_ns)
		return one->begin_ns < other->begin_ns ? -1 : 1;
	return strcmp(one->name, other->name);
}

static bool go_together(const struct hold *one, const struct hold *other)
{
	return one->slots != 0 && one->slots == other->slots;
}

/* EARLIER began before, or with, LATER. */
static void judge_pair(struct judge *judge, const struct hold *earlier, const struct hold *later)
{
	bool over = earlier->last_ns < later->begin_ns, together = go_together(earlier, later);

	if (!over && !together)
		find(judge, "overlap: hold %s (fence %llu) lived until %.3f, hold %s (fence %llu) "
			    "began at %.3f, %.3f ms before",
		     earlier->name, earlier->fence, to_ms(earlier->last_ns), later->name,
		     later->fence, to_ms(later->begin_ns),
		     to_ms(earlier->last_ns - later->begin_ns));
	if (!earlier->fence || !later->fence)
		return;
	if (earlier->fence == later->fence)
		find(judge, "holds %s and %s have the same fence, %llu", earlier->name, later->name,
		     earlier->fence);
	else if (over && !together && earlier->fence > later->fence)
		find(judge, "fence of hold %s, %llu, is below %llu of hold %s before it",
		     later->name, later->fence, earlier->fence, earlier->name);
}

/* At the begin of holds[i]: how many of as many slots are taken? */
static void judge_slots(struct judge *judge, size_t i)
{
	const struct hold *holds = judge->history.holds;
	int taken = 1;
	size_t k;

	for (k = 0; k < i; k++)
		taken += go_together(&holds[k], &holds[i]) && holds[k].last_ns >= holds[i].begin_ns;
	if (taken > holds[i].slots)
		find(judge, "hold %s began at %.3f as number %d of %d slots", holds[i].name,
		     to_ms(holds[i].begin_ns), taken, holds[i].slots);
}

static void judge_holds(struct judge *judge)
{
	struct history *history = &judge->history;
	struct hold *holds = history->holds;
	size_t i, k;

	for (i = k = 0; i < history->count; i++) {
		if (holds[i].last_ns && !holds[i].begin_ns)
			find(judge, "hold %s lived at %.3f and never began", holds[i].name,
			     to_ms(holds[i].last_ns));
		if (holds[i].begin_ns)
			holds[k++] = holds[i];
	}
	history->count = k;
	if (history->count)
		qsort(holds, history->count, sizeof(*holds), by_begin);
	for (i = 0; i < history->count; i++) {
		if (holds[i].exit_ns && holds[i].last_ns > holds[i].exit_ns)
			find(judge, "hold %s lived until %.3f, %.3f ms after its dlock had ended",
			     holds[i].name, to_ms(holds[i].last_ns),
			     to_ms(holds[i].last_ns - holds[i].exit_ns));
		for (k = 0; k < i; k++)
			judge_pair(judge, &holds[k], &holds[i]);
		if (holds[i].slots > 0)
			judge_slots(judge, i);
	}
}

int history_check(const char *text, size_t length, struct history *history, history_tell *tell,
		  void *context)
{
	struct judge judge = { .tell = tell, .context = context };

	take_text(&judge, text, length);
	if (!judge.no_memory)
		judge_holds(&judge);
	if (history)
		*history = judge.history;
	else
		history_free(&judge.history);
	return judge.no_memory ? -1 : judge.findings;
}

void history_free(struct history *history)
{
	free(history->holds);
	*history = (struct history){ 0 };
}
