/* SPDX-License-Identifier: MIT */
#include "waiters.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "lock/view.h"
#include "request.h"

/* Seconds between two looks at a lock that is held. */
#define WATCH_S 2

static void add(struct lock_view *view, const char *waiting_ms, const char *info, const char *mark)
{
	const char *start = strstr(info, mark), *end = start ? strstr(start, " */") : NULL;
	struct waiter_view *waiter;

	if (!end)
		return;
	waiter = lock_view_add_waiter(view);
	start += strlen(mark) + 1;
	waiter->mode = *start == 's' ? HOLD_SHARED : HOLD_EXCLUSIVE;
	waiter->waiting_ms = waiting_ms ? strtoll(waiting_ms, NULL, 10) : -1;
	if (end > start + 2)
		mysql_read_holder(&waiter->holder, start + 2, (size_t)(end - start - 2));
	/* The server knows the age of this statement, which may be one of many. */
	if (waiter->holder.since_ms && clock_wall_ms() - waiter->holder.since_ms >
	    waiter->waiting_ms)
		waiter->waiting_ms = clock_wall_ms() - waiter->holder.since_ms;
}

int waiters_view(struct mysql_backend *my, const char *name, struct lock_view *view,
		 struct error *err)
{
	char mark[WAITERS_MARK_SIZE];
	MYSQL_RES *rows;
	MYSQL_ROW row;

	waiters_mark(my->strategy, name, mark);

	const struct sql_value values[] = { SQL_TEXT("mark", mark), SQL_LAST };

	if (mysql_run(my, sql_waiters, values, MYSQL_ONCE, &rows, err))
		return -1;
	while (rows && (row = mysql_fetch_row(rows)))
		if (row[2])
			add(view, row[1], row[2], mark);
	mysql_free_result(rows);
	return 0;
}

int waiters_watch(struct mysql_backend *my, struct error *err)
{
	const struct sql_value values[] = { SQL_INT("pause", WATCH_S), SQL_LAST };

	return mysql_start(my, sql_waiters_watch, values, err);
}

void waiters_leave(struct mysql_backend *my, const struct request *request)
{
	const int64_t deadline_ms = clock_boot_ms() + my->base.timeout_ms;
	struct error ignored = { 0 };
	struct words words;

	words_begin(&words, request, 0);
	words_add_waiter(&words, my->strategy, request);
	words_add(&words, (const struct sql_value[]){
		SQL_INT("connection", (int64_t)mysql_thread_id(my->conn.mysql)),
		SQL_TEXT("comment", words.waiter),
		SQL_LAST
	});
	/* The server would notice only at the end of the statement that this client is gone. */
	if (!mysql_run_over(my, NULL, sql_kill_waiter, words.values, NULL, &ignored))
		while (!mysql_poll(my) &&
		       !net_wait(mysql_conn_fd(&my->conn), my->conn.waits, deadline_ms, -1,
				 &ignored))
			;
	mysql_conn_close(&my->conn);
}
