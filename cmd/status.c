/* SPDX-License-Identifier: MIT */
/* The command status shows holders and waiters, as a table, as JSON or as metrics. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/text.h"
#include "lock/hold.h"
#include "json.h"
#include "metrics.h"
#include "session.h"

#define WATCH_SECONDS 2

static const char *const modes[] = {
	[HOLD_EXCLUSIVE] = "exclusive", [HOLD_SHARED] = "shared", [HOLD_SLOT] = "slot",
};

/* ---- for people ---- */

/* number: of a holder's slot; 0: a waiter has none. */
static const char *mode_text(const struct row *row, size_t number, char buf[static 48])
{
	snprintf(buf, 48, "slot %zu of %d", number, row->slots);
	return row->mode == HOLD_SLOT && number && row->slots > 0 ? buf : modes[row->mode];
}

static const char *time_text(int64_t ms, char buf[static DURATION_TEXT_SIZE])
{
	return ms < 0 ? "-" : duration_format(ms, buf, DURATION_TEXT_SIZE);
}

/* "web2 pid 4312 (root) /usr/local/bin/backup: deploying 4.2" */
static const char *who_text(const struct holder *holder, char *buf, size_t size)
{
	char process[HOLDER_PROCESS_SIZE], work[HOLDER_DESCRIPTION_SIZE];

	holder_describe_process(holder, process);
	holder_describe_work(holder, work, sizeof(work));
	snprintf(buf, size, "%s%s%s", process, *process && *work ? " " : "", work);
	return *buf ? buf : "another client";
}

/* Print a line, on a terminal without the fence and cut, and in red what is overdue. */
static void print_columns(int width, const char *name, const char *mode, const char *held,
			  const char *expires, const char *fence, const char *who, bool overdue)
{
	const int screen = print_width(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR");
	char line[PRINT_NAME_SIZE + HOLDER_PROCESS_SIZE + HOLDER_DESCRIPTION_SIZE + 64];

	overdue = overdue && print_is_screen(STDOUT_FILENO) && !(no_color && *no_color);
	snprintf(line, sizeof(line), "%s%*s  %-16s  %-8s  %-8s  %-*s%s", name,
		 width - (int)text_characters(name), "", mode, held, expires,
		 screen ? 0 : 19, screen ? "" : fence, who);
	text_clean(line, strlen(line), line, screen ? (size_t)screen + 1 : sizeof(line));
	printf(overdue ? "\033[31m%s\033[m\n" : "%s\n", line);
}

/* Write a name; of one with more than width characters, leave out the middle. */
static const char *short_name(const char *name, int width, char buf[static PRINT_NAME_SIZE])
{
	const int head = (width - 2) / 2;
	const char *end = name + strlen(name) - (width - 3 - head);

	if ((int)text_characters(print_name(name, buf)) <= width)
		return buf;
	while ((*end & 0xc0) == 0x80)
		end++;
	text_clean(buf, strlen(buf), buf, (size_t)head + 1);
	return strcat(strcat(buf, "..."), end);
}

static void print_lock(const char *name, const struct rows *view, int width)
{
	char held[DURATION_TEXT_SIZE], expires[DURATION_TEXT_SIZE], mode[48];
	char shown[PRINT_NAME_SIZE], fence[24], position[64];
	char who[HOLDER_PROCESS_SIZE + HOLDER_DESCRIPTION_SIZE];

	short_name(name, width, shown);
	if (!view->hold_count)
		print_columns(width, shown, "free", "-", "-", "-", "-", false);
	for (size_t i = 0; i < view->hold_count; i++) {
		const struct row *hold = &view->holds[i];

		snprintf(fence, sizeof(fence), "%" PRIu64, hold->fence);
		/* A holder renews each third of the TTL. */
		print_columns(width, i ? "" : shown, mode_text(hold, i + 1, mode),
			      time_text(hold->age_ms, held), time_text(hold->left_ms, expires),
			      hold->fence ? fence : "-", who_text(&hold->holder, who, sizeof(who)),
			      hold->left_ms >= 0 && !hold->holder.kept_ms &&
			      hold->left_ms <= hold->holder.ttl_ms / 3);
	}
	for (size_t i = 0; i < view->waiter_count; i++) {
		const struct row *waiter = &view->waiters[i];

		snprintf(position, sizeof(position), "waiter %zu%s%s", i + 1,
			 waiter->mode == HOLD_EXCLUSIVE ? "" : ", ",
			 waiter->mode == HOLD_EXCLUSIVE ? "" : mode_text(waiter, 0, mode));
		print_columns(width, "", position, time_text(waiter->age_ms, held), "-", "-",
			      who_text(&waiter->holder, who, sizeof(who)), false);
	}
	for (size_t i = 0; i < view->ignored.count; i++)
		print_columns(width, "", "ignored", "-", "-", "-", view->ignored.names[i], false);
}

/* ---- for programs ---- */

static void json_mode(struct json *json, enum hold_mode mode, int slots)
{
	json_text(json, "mode", modes[mode]);
	json_number(json, "slots", mode == HOLD_SLOT ? slots : -1);
}

static void json_lock(const char *name, const char *location, const struct rows *view)
{
	struct json json = { .stream = stdout };
	int64_t now = clock_wall_ms();

	json_open(&json, NULL, '{');
	json_text(&json, "name", name);
	json_text(&json, "backend", location);
	json_bool(&json, "held", view->hold_count > 0);
	json_number(&json, "fence", view->fence ? (int64_t)view->fence : -1);
	json_open(&json, "holders", '[');
	for (size_t i = 0; i < view->hold_count; i++) {
		const struct row *hold = &view->holds[i];

		json_open(&json, NULL, '{');
		json_who(&json, &hold->holder);
		json_mode(&json, hold->mode, hold->slots);
		json_number(&json, "fence", hold->fence ? (int64_t)hold->fence : -1);
		json_time(&json, "acquired_at", hold->age_ms < 0 ? 0 : now - hold->age_ms);
		json_number(&json, "held_for_ms", hold->age_ms);
		json_lease(&json, hold->left_ms);
		json_time(&json, "kept_until", hold->holder.kept_ms);
		json_time(&json, "done_at", hold->holder.done_ms);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_open(&json, "waiters", '[');
	for (size_t i = 0; i < view->waiter_count; i++) {
		const struct row *waiter = &view->waiters[i];

		json_open(&json, NULL, '{');
		json_number(&json, "position", (int64_t)i + 1);
		json_who(&json, &waiter->holder);
		json_mode(&json, waiter->mode, waiter->slots);
		json_time(&json, "queued_at",
			  waiter->age_ms < 0 ? 0 : now - waiter->age_ms);
		json_number(&json, "waiting_ms", waiter->age_ms);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_open(&json, "ignored", '[');
	for (size_t i = 0; i < view->ignored.count; i++)
		json_text(&json, NULL, view->ignored.names[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* ---- */

/* List the locks that were named, or all. */
static int list_locks(struct session *session, struct error *err)
{
	struct locks *locks = &session->locks;

	/* Those of the last pass of --watch. */
	for (size_t i = 0; locks->views && i < locks->names.count; i++)
		rows_finish(&locks->views[i]);
	free(locks->views);
	name_list_finish(&locks->names);
	*locks = (struct locks){ 0 };
	if (session->options.operand_count)
		return session_names(session, err);
	return session_connect(session, err) ||
	       hold_names(session->backend, &locks->names, err) ? -1 : 0;
}

static void show_locks(const struct session *session)
{
	const struct options *options = &session->options;
	const struct locks *locks = &session->locks;
	const char *location = session->settings.location;
	/* Half of what the other columns leave, and enough to know the lock by it. */
	const int half = (print_width(STDOUT_FILENO) - 40) / 2, most = half > 12 ? half : 12;
	char name[PRINT_NAME_SIZE];
	int width = 4, length;
	bool header = false;

	if (options->prometheus)
		metrics_print_locks(location, locks);
	for (size_t i = 0; i < locks->names.count; i++) {
		length = (int)text_characters(print_name(locks->names.names[i], name));
		width = length > width ? length : width;
	}
	width = print_width(STDOUT_FILENO) && width > most ? most : width;
	for (size_t i = 0; i < locks->names.count && !options->prometheus; i++) {
		const struct rows *view = &locks->views[i];

		/* A lock may have been freed since it was listed. */
		if (!options->operand_count && !view->hold_count && !view->waiter_count)
			continue;
		if (options->json) {
			json_lock(locks->names.names[i], location, view);
			continue;
		}
		if (!header)
			print_columns(width, "NAME", "MODE", "HELD FOR", "EXPIRES", "FENCE",
				      "HOLDER", false);
		header = true;
		print_lock(locks->names.names[i], view, width);
	}
}

/*
 * Show the locks. Returns 1: one of the locks that were named is held; 0: none is; the exit status
 * for a lock that cannot be read; or -1 with *err.
 */
static int show_once(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	const bool for_people = !options->json && !options->prometheus && !options->names;
	const struct name_list *all = &session->locks.names;
	const char *location = session->settings.location;
	/* There is none, which only a screen shows again and again. */
	static bool reported;
	int unread;

	/* Not in a table that a program reads. */
	if (isatty(STDOUT_FILENO) && options->least < LEVEL_ERROR && for_people)
		print_line(stdout, "on %s", location);
	if (list_locks(session, err))
		return -1;
	/* The list needs no request for each lock. */
	if (options->names) {
		for (size_t i = 0; i < all->count && options->least < LEVEL_ERROR; i++)
			print_line(stdout, "%s", all->names[i]);
		return 0;
	}
	if (!all->count && !options->prometheus && (!reported || print_is_screen(STDOUT_FILENO)))
		log_print(LEVEL_WARNING, "no locks are held on %s", location);
	reported = !all->count;
	unread = session_view(session);
	session_choose(session, NULL);
	if (options->least < LEVEL_ERROR)
		show_locks(session);
	return unread ? unread : options->operand_count && session->locks.held;
}

int command_status(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	const bool screen = options->watch && !options->json && print_is_screen(STDOUT_FILENO);
	int state;

	if (options->names && (options->operand_count || options->json || options->watch))
		return error_set(err, ERROR_USAGE, 0, "--names shows all locks, and cannot be "
				 "combined with a NAME, --json or --watch");
	if (options->prometheus && (options->names || options->json || options->watch))
		return error_set(err, ERROR_USAGE, 0, "--prometheus cannot be combined with "
				 "--json, --names or --watch");
	do {
		/* Home, and clear the screen. */
		if (screen)
			fputs("\033[H\033[2J", stdout);
		state = log_flush(show_once(session, err));
	} while (options->watch && (state == 0 || state == 1) && !sleep(WATCH_SECONDS));
	return state;
}
