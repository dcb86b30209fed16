/* SPDX-License-Identifier: MIT */
/* Encoding, decoding and describing holder records: holder.h. */
#include "holder.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/text.h"
#include "uri.h"

/*
 * Use the login name of the environment. getpwuid() would load shared objects, which takes 0.3 to 1
 * ms, and might wait for a directory server that is down. "root" for another uid is from before a
 * change of the user.
 */
static void read_user(char *buf, size_t size)
{
	const char *login = getenv("LOGNAME");
	const uid_t uid = geteuid();

	if (!uid)
		login = "root";
	else if (login && !strcmp(login, "root"))
		login = NULL;
	if (login && *login)
		text_clean(login, strlen(login), buf, size);
	else
		snprintf(buf, size, "%ju", (uintmax_t)uid);
}

void holder_host(char host[static HOLDER_HOST_SIZE])
{
	char name[HOLDER_HOST_SIZE];

	host[0] = '\0';
	if (gethostname(name, sizeof(name)) == 0)
		text_clean(name, strnlen(name, sizeof(name)), host, HOLDER_HOST_SIZE);
}

void holder_self(struct holder *holder, const char *command)
{
	memset(holder, 0, sizeof(*holder));
	holder_host(holder->host);
	read_user(holder->user, sizeof(holder->user));
	if (command)
		text_clean(command, strlen(command), holder->command,
			   sizeof(holder->command));
	holder->pid = getpid();
	holder->since_ms = clock_wall_ms();
}

/* The fields of a record, as they are written: a short column has room for the first ones. */
static const struct field {
	const char *key;
	size_t at, size;	/* in struct holder; size 0: an int64_t, and else a text */
} fields[] = {
	{ "ttl", offsetof(struct holder, ttl_ms), 0 },
	{ "pid", offsetof(struct holder, pid), 0 },
	{ "since", offsetof(struct holder, since_ms), 0 },
	{ "kept", offsetof(struct holder, kept_ms), 0 },
	{ "done", offsetof(struct holder, done_ms), 0 },
	{ "min", offsetof(struct holder, min_ms), 0 },
	{ "until", offsetof(struct holder, until_ms), 0 },
	{ "host", offsetof(struct holder, host), sizeof(((struct holder *)0)->host) },
	{ "user", offsetof(struct holder, user), sizeof(((struct holder *)0)->user) },
	{ "cmd", offsetof(struct holder, command), sizeof(((struct holder *)0)->command) },
	{ "note", offsetof(struct holder, note), sizeof(((struct holder *)0)->note) },
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* The most bytes of the names in a text, which are percent-encoded. */
#define NAMES_SIZE (3 * (sizeof(((struct holder *)0)->host) + \
			 sizeof(((struct holder *)0)->user) + \
			 sizeof(((struct holder *)0)->command) - 3))

/* The longest text about a process and its times fits into a table's column without a note. */
_Static_assert(NAMES_SIZE +
	       sizeof("ttl=123456789012&pid=2147483647&since=1234567890123&kept=1234567890123"
		      "&done=1234567890123&host=&user=&cmd=") <= HOLDER_COLUMN_SIZE,
	       "HOLDER_COLUMN_SIZE");
/* There is room for all fields but the note, also with the longest numbers: kept excludes until. */
_Static_assert(NAMES_SIZE + 6 * (sizeof("9223372036854775807") - 1) +
	       sizeof("ttl=&pid=&since=&done=&min=&until=&host=&user=&cmd=") <=
	       HOLDER_TEXT_SIZE, "HOLDER_TEXT_SIZE");

size_t holder_encode(const struct holder *holder, char buf[static HOLDER_TEXT_SIZE])
{
	size_t used = 0, most = HOLDER_TEXT_SIZE;

	buf[0] = '\0';
	for (const struct field *field = fields; field < fields + FIELD_COUNT; field++) {
		const char *value = (const char *)holder + field->at;
		const int64_t *number = (const void *)value;
		char digits[TEXT_DIGITS_SIZE] = "";

		/* A retained lock has no process that ends it. */
		if (holder->kept_ms && number == &holder->until_ms)
			continue;
		if (!field->size)
			value = digits;
		if (!field->size && *number > 0)
			text_digits(digits, (uint64_t)*number);
		/* The note, which comes last, is cut. */
		if (value == holder->note)
			most = HOLDER_COLUMN_SIZE;
		/* Only a note may have no room. */
		if (!*value || used + strlen(field->key) + sizeof("&=") >= most)
			continue;
		if (used)
			buf[used++] = '&';
		used = (size_t)(stpcpy(stpcpy(buf + used, field->key), "=") - buf);
		uri_encode(value, strlen(value), buf + used, most - used);
		used += strlen(buf + used);
	}
	return used;
}

/* False: the value is empty or has a bad percent-encoding. */
static bool get_text(const char *value, size_t length, char *buf, size_t size)
{
	char text[3 * sizeof(((struct holder *)0)->note) + 16];
	ptrdiff_t decoded;

	/* Cut to more than any field. An escape may be cut, here or by a short column. */
	if (length > sizeof(text))
		length = sizeof(text);
	if (length > 0 && value[length - 1] == '%')
		length -= 1;
	else if (length > 1 && value[length - 2] == '%')
		length -= 2;
	memcpy(text, value, length);
	decoded = uri_decode(text, length);
	if (decoded <= 0)
		return false;
	text_clean(text, (size_t)decoded, buf, size);
	return true;
}

/* Read KEY=VALUE. False: it is none, or the value is bad. */
static bool get_pair(struct holder *holder, const char *key, size_t length)
{
	const char *equals = memchr(key, '=', length), *value;
	size_t key_length;
	int64_t number;

	if (!equals)
		return false;
	value = equals + 1;
	key_length = (size_t)(equals - key);
	length -= key_length + 1;
	for (const struct field *field = fields; field < fields + FIELD_COUNT; field++) {
		char *to = (char *)holder + field->at;

		if (strlen(field->key) != key_length || memcmp(key, field->key, key_length) != 0)
			continue;
		if (field->size)
			return get_text(value, length, to, field->size);
		if (!text_number(value, length, &number) || !number)
			return false;
		memcpy(to, &number, sizeof(number));
		return true;
	}
	return false;
}

int holder_decode(struct holder *holder, const char *text, size_t length)
{
	const char *const end = text + length, *next;
	bool any = false;

	memset(holder, 0, sizeof(*holder));
	for (const char *pair = text; pair < end; pair = next + (next < end)) {
		next = memchr(pair, '&', (size_t)(end - pair));
		next = next ? next : end;
		any |= get_pair(holder, pair, (size_t)(next - pair));
	}
	return any ? 0 : -1;
}

/* Write "kept until 03:10:00 (nightly-backup has ended)". */
static void describe_kept(const struct holder *holder, char *buf, size_t size)
{
	const bool done = holder->done_ms > 0;
	char until[TIME_OF_DAY_SIZE];

	time_of_day_show(holder->kept_ms, clock_wall_ms(), until);
	if (holder->min_ms)
		snprintf(buf, size, "kept until %s (released)", until);
	else
		snprintf(buf, size, "%s until %s (%s has %s)", done ? "done" : "kept", until,
			 *holder->command ? holder->command : "its command",
			 done ? "succeeded" : "ended");
}

const char *holder_describe_done(const struct holder *holder, char *buf, size_t size)
{
	char at[TIME_OF_DAY_SIZE];

	time_of_day_show(holder->done_ms, clock_wall_ms(), at);
	snprintf(buf, size, "done%s%s at %s", *holder->host ? " by " : "", holder->host, at);
	return buf;
}

const char *holder_describe_work(const struct holder *holder, char *buf, size_t size)
{
	char kept[sizeof(holder->command) + TIME_OF_DAY_SIZE + 32];
	const char *work = holder->command;

	if (holder->kept_ms > 0) {
		describe_kept(holder, kept, sizeof(kept));
		work = kept;
	}
	snprintf(buf, size, "%s%s%s", work, *work && *holder->note ? ": " : "", holder->note);
	return buf;
}

const char *holder_describe_process(const struct holder *holder,
				    char buf[static HOLDER_PROCESS_SIZE])
{
	int used = snprintf(buf, HOLDER_PROCESS_SIZE, "%s", holder->host);

	if (holder->pid > 0)
		used += snprintf(buf + used, HOLDER_PROCESS_SIZE - (size_t)used, "%spid %" PRId64,
				 used ? " " : "", holder->pid);
	if (*holder->user)
		snprintf(buf + used, HOLDER_PROCESS_SIZE - (size_t)used, used ? " (%s)" : "user %s",
			 holder->user);
	return buf;
}

const char *holder_describe(const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size)
{
	char process[HOLDER_PROCESS_SIZE], age[DURATION_TEXT_SIZE + 8] = "", text[700];
	char duration[DURATION_TEXT_SIZE], work[400];
	const bool only_note = *holder->note && !*holder->command && !holder->kept_ms && age_ms < 0;

	holder_describe_process(holder, process);
	if (!*process)
		strcpy(process, only_note ? "nobody known" : "another client");
	if (age_ms >= 0)
		snprintf(age, sizeof(age), " for %s",
			 duration_format(age_ms, duration, sizeof(duration)));
	holder_describe_work(holder, work, sizeof(work));
	snprintf(text, sizeof(text), "held by %s%s%s%s", process, age,
		 !*work ? "" : holder->kept_ms > 0 ? ", " : ": ", work);
	/* Cut at the end of a character. */
	text_clean(text, strlen(text), buf, size);
	return buf;
}
