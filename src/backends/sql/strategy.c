/* SPDX-License-Identifier: MIT */
/* Choosing a strategy, and reading rows: strategy.h. */
#include "strategy.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/uri.h"

const struct sql_strategy *sql_find_strategy(const struct sql_strategy strategies[],
					     const struct uri *uri, struct error *err)
{
	const bool dialect = uri_param(uri, "dialect");
	const char *param = dialect ? "dialect" : "strategy", *wanted = uri_param(uri, param);
	char known[160] = "";
	size_t used = 0;

	if (dialect && uri_param(uri, "strategy")) {
		error_set(err, ERROR_USAGE, 0, "%s: ?strategy= and ?dialect= exclude each other",
			  uri->scheme);
		return NULL;
	}
	for (const struct sql_strategy *s = strategies; s->name; s++) {
		if (!wanted || (s->dialect == dialect && !strcmp(s->name, wanted)))
			return s;
		if (s->dialect == dialect)
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", s->name);
	}
	error_set(err, ERROR_USAGE, 0, "%s: unknown %s '%.60s': known are %s", uri->scheme, param,
		  wanted, known);
	return NULL;
}

int sql_check_name(const struct sql_strategy *strategy, const char *name, struct error *err)
{
	const size_t most = strategy->name_characters;

	if (most && text_characters(name) > most)
		return error_set(err, ERROR_USAGE, 0, "with %s a name has at most %zu characters, "
				 "this one has %zu; ?strategy=lease takes longer ones",
				 strategy->name, most, text_characters(name));
	return 0;
}

char *sql_make_plan(const struct sql_strategy *strategy, const struct sql_dialect *dialect,
		    const char *head, const char *database, const char *user)
{
	const struct sql_value values[] = {
		SQL_PART("head", head), SQL_PART("tables", strategy->tables),
		SQL_PART("grants", strategy->grants), SQL_NAME("database", database),
		SQL_NAME("user", user ? user : "dlock"), SQL_LAST
	};
	char *plan = sql_format(dialect, "{head}{tables}-- For the account that holds locks, "
				"wherever it comes from:\n{grants}", values);

	assert(plan);
	return plan;
}

bool sql_can_show(struct backend *backend)
{
	struct error ignored;
	struct rows rows;

	if (hold_show(backend, "dlock-check", "", &rows, &ignored))
		return false;
	rows_finish(&rows);
	return true;
}

int64_t sql_mode(const struct request *request)
{
	return request->mode == HOLD_SHARED ? -1 : request->mode == HOLD_SLOT ? request->slots : 0;
}

int64_t sql_number(const char *column)
{
	return column ? strtoll(column, NULL, 10) : 0;
}

void sql_show_row(const struct sql_strategy *strategy, const char *const columns[static SHOWN],
		  struct rows *rows)
{
	const int64_t fence = sql_number(columns[SHOWN_FENCE]);
	const int64_t mode = sql_number(columns[SHOWN_MODE]);
	const bool there = !strategy->door || sql_number(columns[SHOWN_THERE]);
	struct row *row;

	rows->fence = (uint64_t)sql_number(columns[SHOWN_LAST]);
	if (!columns[SHOWN_ID] || !columns[SHOWN_OWNER])
		return;
	row = rows_add(rows, fence != 0, columns[SHOWN_OWNER],
		       strlen(columns[SHOWN_OWNER]));
	snprintf(row->id, sizeof(row->id), "%s", columns[SHOWN_ID]);
	row->fence = fence > 0 ? (uint64_t)fence : 0;
	row->mine = sql_number(columns[SHOWN_MINE]) && there;
	row->mode = mode > 0 ? HOLD_SLOT : mode < 0 ? HOLD_SHARED : HOLD_EXCLUSIVE;
	row->slots = mode > 0 ? (int)mode : 0;
	row->age_ms = sql_number(columns[SHOWN_AGE]);
	if (fence && !(strategy->door && there))
		row->left_ms = sql_number(columns[SHOWN_LEFT]);
}

enum outcome sql_lost(const char *label, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  label);
	return OUTCOME_LOST;
}

void sql_warn_taken(const char *label, int64_t left_ms, struct error *err)
{
	char text[DURATION_TEXT_SIZE];

	error_set(err, ERROR_REFUSED, 0, "%s: the server's clock was set back during the hold, so "
		  "the lock stays taken for %s", label,
		  duration_format(left_ms, text, sizeof(text)));
}
