/* SPDX-License-Identifier: MIT */
#include "holder.h"

#include <inttypes.h>
#include <pwd.h>
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
 * Looks up the name of uid in /etc/passwd, and whether guess is the name of any user in the file.
 * fgetpwent_r() reads the file, in 10 to 20 us, and asks no name service.
 */
static bool passwd_name(uid_t uid, char *buf, size_t size, const char *guess,
			bool *guess_is_local)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd entry, *found;
	bool ok = false;
	char line[1024];

	*guess_is_local = false;
	if (!file)
		return false;
	while (!ok && fgetpwent_r(file, &entry, line, sizeof(line), &found) == 0) {
		ok = entry.pw_uid == uid && *entry.pw_name;
		if (ok)
			text_clean(entry.pw_name, strlen(entry.pw_name), buf, size);
		else if (guess && strcmp(entry.pw_name, guess) == 0)
			*guess_is_local = true;
	}
	fclose(file);
	return ok;
}

/*
 * For a user who is not in /etc/passwd, getpwuid() would load shared objects, which takes 0.3 to 1
 * ms, and might wait for a directory server that is down, all for a word that only people read. For
 * such a user this takes the login name from the environment, unless it is the name of a local
 * user: then the environment is from before a change of uid.
 */
static void user_name(char *buf, size_t size)
{
	const char *login = getenv("LOGNAME");
	uid_t uid = geteuid();
	bool login_is_local;

	if (uid == 0)
		text_clean("root", strlen("root"), buf, size);
	else if (passwd_name(uid, buf, size, login, &login_is_local))
		return;
	else if (login && *login && !login_is_local)
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
	user_name(holder->user, sizeof(holder->user));
	if (command)
		text_clean(command, strlen(command), holder->command,
			   sizeof(holder->command));
	holder->pid = getpid();
	holder->since_ms = clock_wall_ms();
}

/* Appends "&key=", or "key=" to an empty text. */
static size_t put_key(char *buf, size_t used, const char *key)
{
	char *end = buf + used;

	if (used)
		*end++ = '&';
	end = stpcpy(end, key);
	*end++ = '=';
	return (size_t)(end - buf);
}

static size_t put_text(char *buf, size_t used, const char *key, const char *value)
{
	if (!*value)
		return used;
	used = put_key(buf, used, key);
	return used + uri_encode(value, strlen(value), buf + used,
				 HOLDER_TEXT_SIZE - used);
}

/* Leaves out a number without room, as a record that somebody has forged may have. */
static size_t put_number(char *buf, size_t used, const char *key, int64_t value)
{
	if (value <= 0 || used + strlen(key) + sizeof("&=") + TEXT_DIGITS_SIZE > HOLDER_TEXT_SIZE)
		return used;
	used = put_key(buf, used, key);
	return (size_t)(text_digits(buf + used, (uint64_t)value) - buf);
}

/* The note, as much of it as fits into a table's column. */
static size_t put_note(char *buf, size_t used, const char *note)
{
	const size_t most = HOLDER_COLUMN_SIZE;

	if (!*note || used + sizeof("&note=") >= most)
		return used;
	used = put_key(buf, used, "note");
	uri_encode(note, strlen(note), buf + used, most - used);
	return used + strlen(buf + used);
}

/* The most bytes of the names in a text, which are percent-encoded. */
#define NAMES_SIZE (3 * (sizeof(((struct holder *)0)->host) + \
			 sizeof(((struct holder *)0)->user) + \
			 sizeof(((struct holder *)0)->command) - 3))

/* The longest text about a process and its times fits into a table's column without a note. */
_Static_assert(NAMES_SIZE +
	       sizeof("ttl=123456789012&host=&user=&cmd=&pid=2147483647&since=1234567890123"
		      "&min=123456789012&until=1234567890123&replaces=1") <= HOLDER_COLUMN_SIZE,
	       "HOLDER_COLUMN_SIZE");

size_t holder_encode(const struct holder *holder, char buf[static HOLDER_TEXT_SIZE])
{
	size_t used = 0;

	buf[0] = '\0';
	used = put_number(buf, used, "ttl", holder->ttl_ms);
	used = put_text(buf, used, "host", holder->host);
	used = put_text(buf, used, "user", holder->user);
	used = put_text(buf, used, "cmd", holder->command);
	used = put_number(buf, used, "pid", holder->pid);
	used = put_number(buf, used, "since", holder->since_ms);
	used = put_number(buf, used, "kept", holder->kept_ms);
	used = put_number(buf, used, "min", holder->min_ms);
	/* Nobody ends earlier what is kept. */
	used = put_number(buf, used, "until", holder->kept_ms ? 0 : holder->until_ms);
	used = put_number(buf, used, "replaces", holder->replaces);
	return put_note(buf, used, holder->note);
}

/* False: the value is empty or has a bad percent-encoding. */
static bool get_text(const char *value, size_t length, char *buf, size_t size)
{
	char text[3 * sizeof(((struct holder *)0)->note) + 16];
	ptrdiff_t decoded;

	if (length > sizeof(text)) {
		/* Still longer than each field; cut, but not within an escape. */
		length = sizeof(text);
		if (value[length - 1] == '%')
			length -= 1;
		else if (value[length - 2] == '%')
			length -= 2;
	}
	memcpy(text, value, length);
	decoded = uri_decode(text, length);
	if (decoded <= 0)
		return false;
	text_clean(text, (size_t)decoded, buf, size);
	return true;
}

static bool get_number(const char *text, size_t length, int64_t *number)
{
	int64_t read;

	if (!text_number(text, length, &read) || !read)
		return false;
	*number = read;
	return true;
}

static bool get_pair(struct holder *holder, const struct text_pair *pair)
{
	const struct {
		const char *key;
		char *text;		/* NULL: a number */
		size_t size;
		int64_t *number;
	} fields[] = {
		{ "host", holder->host, sizeof(holder->host), NULL },
		{ "user", holder->user, sizeof(holder->user), NULL },
		{ "cmd", holder->command, sizeof(holder->command), NULL },
		{ "note", holder->note, sizeof(holder->note), NULL },
		{ "pid", NULL, 0, &holder->pid },
		{ "ttl", NULL, 0, &holder->ttl_ms },
		{ "since", NULL, 0, &holder->since_ms },
		{ "kept", NULL, 0, &holder->kept_ms },
		{ "min", NULL, 0, &holder->min_ms },
		{ "until", NULL, 0, &holder->until_ms },
		{ "replaces", NULL, 0, &holder->replaces },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strlen(fields[i].key) == pair->key_length &&
		    !memcmp(pair->key, fields[i].key, pair->key_length))
			return fields[i].text ? get_text(pair->value, pair->length,
							 fields[i].text, fields[i].size)
					      : get_number(pair->value, pair->length,
							   fields[i].number);
	return false;
}

int holder_decode(struct holder *holder, const char *text, size_t length)
{
	const char *rest = text;
	struct text_pair pair;
	bool any = false;

	memset(holder, 0, sizeof(*holder));
	while (text_next_pair(&rest, text + length, &pair))
		any |= get_pair(holder, &pair);
	return any ? 0 : -1;
}

/* "kept until 03:10:00 (nightly-backup has ended)" */
static void describe_kept(const struct holder *holder, char *buf, size_t size)
{
	char until[TIME_OF_DAY_SIZE];

	time_of_day_show(holder->kept_ms, clock_wall_ms(), until);
	if (holder->min_ms)
		snprintf(buf, size, "kept until %s (released)", until);
	else
		snprintf(buf, size, "kept until %s (%s has ended)", until,
			 *holder->command ? holder->command : "its command");
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

/* Stands for the host, user and process of a holder of which none of these is known. */
static const char *describe_unknown(const struct holder *holder, int64_t age_ms)
{
	const bool only_note = *holder->note && !*holder->command && !holder->kept_ms && age_ms < 0;

	return only_note ? "nobody known" : "another client";
}

/* what: "held by" or the like. */
static const char *describe(const char *what, const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size)
{
	char process[HOLDER_PROCESS_SIZE], age[DURATION_TEXT_SIZE + 8] = "", text[700];
	char duration[DURATION_TEXT_SIZE], work[400];

	holder_describe_process(holder, process);
	if (age_ms >= 0)
		snprintf(age, sizeof(age), " for %s",
			 duration_format(age_ms, duration, sizeof(duration)));
	holder_describe_work(holder, work, sizeof(work));
	snprintf(text, sizeof(text), "%s %s%s%s%s", what,
		 *process ? process : describe_unknown(holder, age_ms), age,
		 !*work ? "" : holder->kept_ms > 0 ? ", " : ": ", work);
	/* Cut at the end of a character. */
	text_clean(text, strlen(text), buf, size);
	return buf;
}

const char *holder_describe(const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size)
{
	return describe("held by", holder, age_ms, buf, size);
}

const char *holder_describe_newer(const struct holder *newer, char *buf, size_t size)
{
	return describe("replaced by", newer, -1, buf, size);
}
