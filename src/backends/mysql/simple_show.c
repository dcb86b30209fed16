/* SPDX-License-Identifier: MIT */
/* Locks that are a row with an end: showing and breaking them; see simple.h. */
#include "simple.h"

#include "api.h"

#include "base/error.h"
#include "lock/view.h"

int simple_inspect(struct mysql_backend *my, const char *name, bool listen,
		   struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name };
	const struct simple *simple = simple_of(my);
	char mark[WAITERS_MARK_SIZE];
	struct hold_view *hold;
	struct simple_state state;
	int there;

	if (simple->kind->admit(name, err))
		return -1;
	there = simple_exists(my, err);
	if (there <= 0)
		return there;
	if (simple_ask(my, simple->kind->look, &request, &state, err))
		return -1;
	waiters_mark(simple->kind->mark, name, mark);
	if (waiters_view(my, mark, view, err))
		return -1;
	view->held = state.held;
	if (!state.held)
		return 0;
	hold = lock_view_add_hold(view);
	if (hold) {
		hold->holder = state.holder;
		hold->mode = HOLD_EXCLUSIVE;
		hold->fence = view->fence = state.fence;
		hold->age_ms = state.age_us / 1000;
		hold->expires_ms = state.rest_us / 1000;
		hold->count = (int)state.holds;
	}
	return listen ? waiters_watch(my, err) : 0;
}

int simple_list(struct mysql_backend *my, struct name_list *names, struct error *err)
{
	const struct request request = { .name = "" };
	struct simple_words words;
	const unsigned long *lengths;
	MYSQL_RES *rows;
	MYSQL_ROW row;
	int failed = 0, there = simple_exists(my, err);

	if (there <= 0)
		return there;
	simple_make_words(my, &request, &simple_no_extra, &words);
	if (mysql_run(my, simple_of(my)->kind->list, words.values, MYSQL_REPEAT, &rows, err))
		return -1;
	while (!failed && rows && (row = mysql_fetch_row(rows))) {
		lengths = mysql_fetch_lengths(rows);
		failed = name_list_add(names, row[0], lengths[0]);
	}
	mysql_free_result(rows);
	if (failed)
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
	return failed;
}

int simple_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		 struct error *err)
{
	const struct request request = { .name = name };
	struct simple_words words;

	if (simple_inspect(my, name, false, view, err))
		return -1;
	if (!view->held)
		return 0;
	simple_make_words(my, &request, &simple_no_extra, &words);
	return mysql_run(my, simple_of(my)->kind->break_hold, words.values, MYSQL_REPEAT, NULL,
			 err);
}
