/* SPDX-License-Identifier: MIT */
/* What differs between ShedLock's table and ours: locked_by, and the time zone. */
#include "simple.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "lock/uri.h"
#include "lock/view.h"

/* Characters that the column locked_by has room for. */
#define LOCKED_BY_CHARACTERS 255
/* Digits of DURATION_MAX_MS. */
#define TTL_DIGITS 12

/* Writes "dlock-DIGEST min=MS&ttl=MS&host=...&user=...", cut to what the column has room for. */
void shedlock_encode(const struct request *request, struct words *words)
{
	struct holder self = request->self;
	char *const parts[] = { self.user, self.host };
	char holder[HOLDER_TEXT_SIZE], digits[TEXT_DIGITS_SIZE];
	size_t head, length, room = strlen(self.command), noted, most = LOCKED_BY_CHARACTERS;

	self.ttl_ms = request->ttl_ms;
	head = (size_t)snprintf(words->owner, HOLDER_TEXT_SIZE, "%s ", words->by);
	if (request->min_hold_ms > 0)
		head += (size_t)snprintf(words->owner + head, HOLDER_TEXT_SIZE - head,
					 "min=%" PRId64 "&", request->min_hold_ms);
	/* A renewal may write a TTL with more digits in its place. */
	most -= TTL_DIGITS - (size_t)(text_digits(digits, (uint64_t)self.ttl_ms) - digits);
	noted = strlen(self.note);
	while ((length = holder_encode(&self, holder)) + head > most && noted > 0)
		self.note[--noted] = '\0';
	while ((length = holder_encode(&self, holder)) + head > most && room > 0)
		self.command[--room] = '\0';
	/* Percent-encoded names of a user and a host in another script may still be too long. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && length + head > most; i++) {
		parts[i][0] = '\0';
		length = holder_encode(&self, holder);
	}
	memcpy(words->owner + head, holder, length + 1);
}

/* Java's ShedLock writes the name of the host there, and nothing else. */
void shedlock_decode(struct holder *holder, const char *text, size_t length)
{
	char host[3 * LOCKED_BY_CHARACTERS + 8] = "host=";

	if (length > SIMPLE_BY_SIZE && !strncmp(text, "dlock-", 6) &&
	    text[SIMPLE_BY_SIZE - 1] == ' ' &&
	    !holder_decode(holder, text + SIMPLE_BY_SIZE, length - SIMPLE_BY_SIZE))
		return;
	uri_encode(text, length < LOCKED_BY_CHARACTERS ? length : LOCKED_BY_CHARACTERS, host + 5,
		   sizeof(host) - 5);
	mysql_read_holder(holder, host, strlen(host));
}

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789+-:/_";
	struct simple *simple = (struct simple *)backend;
	const char *zone = uri_param(uri, "time-zone");

	if (!zone) {
		strcpy(simple->zone, "DEFAULT");
		return 0;
	}
	if (!zone[0] || strlen(zone) > 64 || strspn(zone, plain) != strlen(zone))
		return error_set(err, ERROR_USAGE, 0, "parameter 'time-zone' for %.32s must "
				 "be a time zone of MySQL, such as +02:00 or Europe/Berlin",
				 uri->scheme);
	snprintf(simple->zone, sizeof(simple->zone), "'%s'", zone);
	return 0;
}

int shedlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct simple *simple = (struct simple *)backend;
	const struct sql_value values[] = { SQL_PART("zone", simple->zone), SQL_LAST };
	int64_t offsets_s[2];	/* see shedlock_check */
	MYSQL_RES *rows;

	if (mysql_run(&simple->my, sql_shedlock_check, values, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, offsets_s, 2);
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
