/* SPDX-License-Identifier: MIT */
/* A row under a unique key, which is there as long as the lock is held. */
#include "simple.h"

#include "lock/view.h"

extern const struct mysql_strategy mysql_insert;

static int admit(const char *name, struct error *err)
{
	(void)name;
	(void)err;
	return 0;
}

static size_t encode(const struct request *request, const char *by,
		     char text[static HOLDER_TEXT_SIZE])
{
	(void)by;
	return holder_encode(&request->self, text);
}

static void decode(struct holder *holder, const char *text, size_t length)
{
	if (holder_decode(holder, text, length))
		*holder = (struct holder){ .pid = 0 };
}

static int insert_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	static const struct simple_kind kind = {
		.name = "?strategy=insert",
		.mark = "insert",
		.take = sql_insert_take,
		.look = sql_insert_look,
		.renew = sql_insert_renew,
		.release = sql_insert_release,
		.count = sql_insert_count,
		.list = sql_insert_list,
		.break_hold = sql_insert_break,
		.forget = sql_insert_forget,
		.purge = sql_insert_purge,
		.exists = sql_insert_exists,
		.admit = admit,
		.encode = encode,
		.decode = decode,
	};

	(void)uri;
	return simple_open(my, &kind, err);
}

static int insert_check(struct mysql_backend *my, struct findings *findings, struct error *err)
{
	(void)my;
	(void)err;
	findings_add(findings, FINDING_OK, "waiting", NULL,
		     "waiters look every 50 ms at first, every 5 s later; ?strategy=lease "
		     "wakes them");
	return 0;
}

const struct mysql_strategy mysql_insert = {
	.name = "insert",
	.params = (const char *const[]){ NULL },
	.tables = sql_insert_tables,
	.grants = sql_insert_grants,
	.open = insert_open,
	.check = insert_check,
	SIMPLE_SLOTS
};
