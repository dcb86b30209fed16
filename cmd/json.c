/* SPDX-License-Identifier: MIT */
/* Writes JSON: punctuation, escapes, times and holders. */
#include "json.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "lock/holder.h"

void json_string(FILE *to, const char *text)
{
	bool control;
	size_t length;

	putc('"', to);
	for (; *text; text += length ? length : 1) {
		length = text_char(text, strlen(text), &control);
		if (!length) {
			fputs("\\ufffd", to);
		} else if (control) {
			/* The last byte of a C1 character in UTF-8 is also its number. */
			fprintf(to, "\\u%04x", (unsigned)(unsigned char)text[length - 1]);
		} else {
			if (*text == '"' || *text == '\\')
				putc('\\', to);
			fwrite(text, 1, length, to);
		}
	}
	putc('"', to);
}

static void put_name(struct json *json, const char *name)
{
	if (json->comma)
		putc(',', json->stream);
	json->comma = true;
	if (!name)
		return;
	json_string(json->stream, name);
	putc(':', json->stream);
}

void json_open(struct json *json, const char *name, char bracket)
{
	put_name(json, name);
	putc(bracket, json->stream);
	json->comma = false;
}

void json_close(struct json *json, char bracket)
{
	putc(bracket, json->stream);
	json->comma = true;
}

void json_text(struct json *json, const char *name, const char *text)
{
	put_name(json, name);
	if (text && text[0])
		json_string(json->stream, text);
	else
		fputs("null", json->stream);
}

void json_number(struct json *json, const char *name, int64_t number)
{
	if (number < 0) {
		json_text(json, name, NULL);
		return;
	}
	put_name(json, name);
	fprintf(json->stream, "%" PRId64, number);
}

void json_bool(struct json *json, const char *name, bool value)
{
	put_name(json, name);
	fputs(value ? "true" : "false", json->stream);
}

void json_time(struct json *json, const char *name, int64_t wall_ms)
{
	time_t seconds = clock_seconds(wall_ms);
	char date[32], text[48];
	struct tm parts;

	if (wall_ms <= 0 || !gmtime_r(&seconds, &parts)) {
		json_text(json, name, NULL);
		return;
	}
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text, sizeof(text), "%s.%03dZ", date, (int)(wall_ms % 1000));
	json_text(json, name, text);
}

void json_lease(struct json *json, int64_t lease_ms)
{
	json_number(json, "expires_in_ms", lease_ms);
	json_time(json, "expires_at", lease_ms < 0 ? 0 : clock_wall_ms() + lease_ms);
}

void json_who(struct json *json, const struct holder *holder)
{
	json_text(json, "host", holder->host);
	json_number(json, "pid", holder->pid ? holder->pid : -1);
	json_text(json, "user", holder->user);
	json_text(json, "command", holder->command);
	json_text(json, "note", holder->note);
}
