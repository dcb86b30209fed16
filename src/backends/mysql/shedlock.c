/* SPDX-License-Identifier: MIT */
/*
 * The table of Java's ShedLock, so that a cron job and a method with @SchedulerLock
 * exclude each other. Its columns are all there is: the token's digest stands in
 * locked_by, and the fence is locked_at, see shedlock_state.sql.
 */
#include "simple.h"

#include "api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "lock/uri.h"
#include "lock/view.h"

extern const struct mysql_strategy mysql_shedlock;

/* Characters that the columns name and locked_by have room for. */
#define NAME_CHARACTERS 64
#define LOCKED_BY_CHARACTERS 255
/* Digits of DURATION_MAX_MS. */
#define TTL_DIGITS 12

static int admit(const char *name, struct error *err)
{
	size_t characters = 0;

	for (const char *c = name; *c; c++)
		characters += ((unsigned char)*c & 0xc0) != 0x80;
	if (characters <= NAME_CHARACTERS)
		return 0;
	error_set(err, ERROR_USAGE, 0, "ShedLock's names have at most %d characters, this one has "
		  "%zu; ?strategy=lease takes longer ones", NAME_CHARACTERS, characters);
	return -1;
}

/*
 * "dlock-DIGEST min=MS&ttl=MS&host=...&user=...", the command's name cut to what there is room
 * for.
 */
static size_t encode(const struct request *request, const char *by,
		     char text[static HOLDER_TEXT_SIZE])
{
	struct holder self = request->self;
	char holder[HOLDER_TEXT_SIZE];
	size_t head, length, room = strlen(self.command), most = LOCKED_BY_CHARACTERS;
	char digits[TEXT_DIGITS_SIZE];

	head = (size_t)snprintf(text, HOLDER_TEXT_SIZE, "%s ", by);
	if (request->min_hold_ms > 0)
		head += (size_t)snprintf(text + head, HOLDER_TEXT_SIZE - head, "min=%" PRId64 "&",
					 request->min_hold_ms);
	/* A renewal may write a TTL with more digits in its place. */
	most -= TTL_DIGITS - (size_t)(text_digits(digits, (uint64_t)self.ttl_ms) - digits);
	while ((length = holder_encode(&self, holder)) + head > most && room > 0)
		self.command[--room] = '\0';
	/* A host's or user's name in another script, each byte three: nobody else needs it. */
	if (length + head > most) {
		self.user[0] = '\0';
		length = holder_encode(&self, holder);
	}
	if (length + head > most) {
		self.host[0] = '\0';
		length = holder_encode(&self, holder);
	}
	memcpy(text + head, holder, length + 1);
	return head + length;
}

/* Java puts the host's name there. */
static void decode(struct holder *holder, const char *text, size_t length)
{
	char host[3 * LOCKED_BY_CHARACTERS + 8] = "host=";

	if (length > SIMPLE_BY_SIZE && !strncmp(text, "dlock-", 6) &&
	    text[SIMPLE_BY_SIZE - 1] == ' ' &&
	    !holder_decode(holder, text + SIMPLE_BY_SIZE, length - SIMPLE_BY_SIZE))
		return;
	uri_encode(text, length < LOCKED_BY_CHARACTERS ? length : LOCKED_BY_CHARACTERS, host + 5,
		   sizeof(host) - 5);
	if (holder_decode(holder, host, strlen(host)))
		*holder = (struct holder){ .pid = 0 };
}

static int shedlock_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789+-:/_";
	static const struct simple_kind kind = {
		.name = "?dialect=shedlock",
		.mark = "shedlock",
		.take = sql_shedlock_take,
		.look = sql_shedlock_look,
		.renew = sql_shedlock_renew,
		.release = sql_shedlock_release,
		.list = sql_shedlock_list,
		.break_hold = sql_shedlock_break,
		.forget = sql_shedlock_forget,
		.exists = sql_shedlock_exists,
		.admit = admit,
		.encode = encode,
		.decode = decode,
	};
	const char *zone = uri_param(uri, "time-zone");

	if (simple_open(my, &kind, err))
		return -1;
	if (!zone) {
		strcpy(simple_of(my)->zone, "DEFAULT");
		return 0;
	}
	if (!zone[0] || strlen(zone) > 64 || strspn(zone, plain) != strlen(zone)) {
		error_set(err, ERROR_USAGE, 0, "parameter \"time-zone\" for %.32s: wants what "
			  "MySQL "
			  "calls one, such as +02:00 or Europe/Berlin", uri->scheme);
		return -1;
	}
	snprintf(simple_of(my)->zone, sizeof(simple_of(my)->zone), "'%s'", zone);
	return 0;
}

static int shedlock_check(struct mysql_backend *my, struct findings *findings, struct error *err)
{
	const struct sql_value values[] = { SQL_PART("zone", simple_of(my)->zone), SQL_LAST };
	int64_t offset_s = 0;
	MYSQL_RES *rows;

	if (mysql_run(my, sql_shedlock_check, values, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, &offset_s, 1);
	mysql_free_result(rows);
	if (offset_s)
		findings_add(findings, FINDING_WARNING, "time-zone",
			     "have ShedLock use the database's time (usingDbTime), and no "
			     "other time "
			     "zone in its sessions; or name theirs with ?time-zone=",
			     "sessions here are %+" PRId64 " min off UTC, in which ShedLock writes",
			     offset_s / 60);
	else
		findings_add(findings, FINDING_OK, "time-zone", NULL, "sessions here are in UTC");
	return 0;
}

const struct mysql_strategy mysql_shedlock = {
	.name = "shedlock",
	.dialect = true,
	.params = (const char *const[]){ "time-zone", NULL },
	.tables = sql_shedlock_tables,
	.grants = sql_shedlock_grants,
	.open = shedlock_open,
	.check = shedlock_check,
	SIMPLE_SLOTS
};
