/* SPDX-License-Identifier: MIT */
/*
 * The dialect shedlock: a lock is a row of ShedLock's table (sql/shedlock.sql), whose column
 * locked_by begins with the digest of the token, before the holder record. Waiters poll.
 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lock/holder.h"
#include "lock/uri.h"
#include "lock/findings.h"

/* Characters that the column locked_by has room for. */
#define LOCKED_BY_CHARACTERS 255
/* "dlock-" and 32 hex digits of the token's digest. */
#define BY_LENGTH 38

/* Write the holder record, cut to the room of the column behind the digest. */
static void cut_record(const char *text, char record[static HOLDER_TEXT_SIZE])
{
	struct holder self = { 0 };
	char *const parts[] = { self.note, self.command, self.user, self.host };
	size_t room;

	holder_decode(&self, text, strlen(text));
	/* Percent-encoded names in another script may be too long. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (room = strlen(parts[i]); holder_encode(&self, record) + BY_LENGTH + 1 >
		     LOCKED_BY_CHARACTERS && room > 0; )
			parts[i][--room] = '\0';
}

void shedlock_set_values(struct call *call)
{
	call_set(call, SQL_PART("zone", call->my->zone));
	if (!call->request->text)
		return;
	cut_record(call->request->text, call->owner);
	call_set(call, SQL_TEXT("owner", call->owner));
}

/* ---- opening and checking ---- */

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789+-:/_";
	char *to = mysql_from_backend(backend)->zone;
	const char *zone = uri_param(uri, "time-zone");

	if (!zone) {
		strcpy(to, "DEFAULT");
		return 0;
	}
	if (!zone[0] || strlen(zone) > 64 || strspn(zone, plain) != strlen(zone))
		return error_set(err, ERROR_USAGE, 0, "parameter 'time-zone' for %.32s must "
				 "be a time zone of MySQL, such as +02:00 or Europe/Berlin",
				 uri->scheme);
	snprintf(to, MYSQL_ZONE_SIZE, "'%s'", zone);
	return 0;
}

int shedlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const struct sql_value values[] = { SQL_PART("zone", my->zone), SQL_LAST };
	int64_t offsets_s[2];	/* see shedlock_check */
	MYSQL_RES *rows;
	int failed = mysql_run(&my->conn, sql_shedlock_check, values, &rows, err);

	mysql_numbers(rows, offsets_s, 2);
	if (failed)
		return -1;
	if (offsets_s[0])
		findings_add(findings, FINDING_WARNING, "time-zone",
			     "have ShedLock use the database's time (usingDbTime), and no other "
			     "time zone in its sessions; or name theirs with ?time-zone=",
			     "sessions here are %+" PRId64 " min off UTC, in which ShedLock writes",
			     offsets_s[0] / 60);
	else
		findings_add(findings, FINDING_OK, "time-zone", NULL, "sessions here are in UTC");
	if (offsets_s[1])
		findings_add(findings, FINDING_WARNING, "daylight-saving",
			     "have all sessions use a fixed time zone, named with ?time-zone=",
			     "no lock can be taken or extended in the hour that the sessions' time "
			     "zone skips in spring");
	return 0;
}
