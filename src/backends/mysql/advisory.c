/* SPDX-License-Identifier: MIT */
/*
 * A lock that has only a name, by GET_LOCK(). The server knows names of at most 64
 * characters, for all its databases together; see make_key() for which name it gets.
 */
#include "session.h"

extern const struct mysql_strategy mysql_advisory;

static int admit(const char *name, struct error *err)
{
	(void)name;
	(void)err;
	return 0;
}

static int advisory_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	static const struct session_kind kind = {
		.name = "advisory",
		.try_sql = sql_advisory_try,
		.wait_sql = sql_advisory_wait,
		.confirm_sql = sql_advisory_confirm,
		.prove_sql = sql_advisory_prove,
		.release_sql = sql_advisory_release,
		.renew_sql = sql_advisory_renew,
		.owner_sql = sql_advisory_owner,
		.exclusive = "",
		.own_registry = true,
		.admit = admit,
	};

	return session_open(my, &kind, uri, err);
}

const struct mysql_strategy mysql_advisory = {
	.name = "advisory",
	.tables = sql_session_tables,
	.grants = sql_session_grants,
	.open = advisory_open,
	SESSION_SLOTS
};
