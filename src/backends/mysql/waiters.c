/* SPDX-License-Identifier: MIT */
#include "waiters.h"

#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "lock/view.h"

/* So often is looked at a lock that is held. */
#define WATCH_S 2

void waiters_mark(const char *strategy, const char *name, char mark[static WAITERS_MARK_SIZE])
{
	size_t used = (size_t)snprintf(mark, WAITERS_MARK_SIZE, "%s:", strategy);

	for (; *name && used + 3 < WAITERS_MARK_SIZE; name++)
		used += (size_t)snprintf(mark + used, WAITERS_MARK_SIZE - used, "%02x",
					 (unsigned char)*name);
}

void waiters_comment(const char *mark, const struct request *request,
		     char comment[static WAITERS_COMMENT_SIZE])
{
	char holder[HOLDER_TEXT_SIZE];

	/* Percent-encoded, so that nothing in it can end a comment. */
	holder_encode(&request->self, holder);
	snprintf(comment, WAITERS_COMMENT_SIZE, "/* dlock %s %c %s */", mark,
		 request->mode == HOLD_SHARED ? 's' : 'x', holder);
}

static int add(struct lock_view *view, const char *waiting_ms, const char *info, const char *mark)
{
	const char *start = strstr(info, mark), *end = start ? strstr(start, " */") : NULL;
	struct waiter_view *waiter;

	if (!end)
		return 0;
	waiter = lock_view_add_waiter(view);
	if (!waiter)
		return -1;
	start += strlen(mark) + 1;
	waiter->mode = *start == 's' ? HOLD_SHARED : HOLD_EXCLUSIVE;
	waiter->waiting_ms = waiting_ms ? strtoll(waiting_ms, NULL, 10) : -1;
	if (end > start + 2 && holder_decode(&waiter->holder, start + 2, (size_t)(end - start - 2)))
		waiter->holder = (struct holder){ .pid = 0 };
	/* The server only knows of the statement, which may be one of many. */
	if (waiter->holder.since_ms && clock_wall_ms() - waiter->holder.since_ms >
	    waiter->waiting_ms)
		waiter->waiting_ms = clock_wall_ms() - waiter->holder.since_ms;
	return 0;
}

int waiters_view(struct mysql_backend *my, const char *mark, struct lock_view *view,
		 struct error *err)
{
	const struct sql_value values[] = { SQL_TEXT("mark", mark), SQL_LAST };
	MYSQL_RES *rows;
	MYSQL_ROW row;
	int failed = 0;

	if (mysql_run(my, sql_waiters, values, MYSQL_ONCE, &rows, err))
		return -1;
	while (!failed && rows && (row = mysql_fetch_row(rows)))
		if (row[2])
			failed = add(view, row[1], row[2], mark);
	mysql_free_result(rows);
	if (failed)
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
	return failed;
}

int mysql_run_aside(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		    MYSQL_RES **rows, struct error *err)
{
	const struct mysql_conn main = my->conn;
	const bool resent = my->resent;
	int result;

	my->conn = (struct mysql_conn){ .mysql = NULL };
	result = mysql_run(my, sql, values, MYSQL_ONCE, rows, err);
	mysql_conn_close(&my->conn);
	my->conn = main;
	my->resent = resent;
	return result;
}

int mysql_start(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		struct error *err)
{
	MYSQL_RES *rows = NULL;
	char *text;

	if (mysql_connect(my, err))
		return -1;
	text = sql_format(sql, values);
	if (!text) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	mysql_conn_send(&my->conn, text);
	if (mysql_conn_next(&my->conn, &my->address, NULL, &rows, err) == MYSQL_STEP_FAILED)
		return -1;
	mysql_free_result(rows);
	return 0;
}

int waiters_watch(struct mysql_backend *my, struct error *err)
{
	const struct sql_value values[] = { SQL_INT("pause", WATCH_S), SQL_LAST };

	return mysql_start(my, sql_waiters_watch, values, err);
}

void waiters_leave(struct mysql_backend *my)
{
	const int64_t deadline_ms = clock_boot_ms() + my->base.timeout_ms;
	const struct sql_value values[] = {
		SQL_INT("connection", (int64_t)mysql_thread_id(my->conn.mysql)), SQL_LAST
	};
	struct error ignored = { 0 };

	/* A server would only notice when the statement ends that we are gone. */
	if (!mysql_run_aside(my, sql_kill_connection, values, NULL, &ignored))
		while (!mysql_poll(my) &&
		       !net_wait(mysql_conn_fd(&my->conn), my->conn.waits, deadline_ms, -1,
				 &ignored))
			;
	mysql_conn_close(&my->conn);
}
