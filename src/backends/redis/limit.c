/* SPDX-License-Identifier: MIT */
/* Counting the input by the protocol of Redis (RESP2): limit.h. */
#include "limit.h"

#include <stdlib.h>
#include <string.h>

static const char too_large[] = "sends a reply that is too large";

/* Take a whole line, which begins a string or an array, or is a value. */
static const char *begin_element(struct redis_limit *limit)
{
	const char type = limit->line[0];
	long long number;

	if (!strchr("+-:$*", type) || !type)
		return "does not speak the Redis protocol";
	if (limit->due)
		limit->due--;
	if (type != '$' && type != '*')
		return NULL;
	if (limit->length >= sizeof(limit->line))
		return "does not speak the Redis protocol";
	limit->line[limit->length] = '\0';
	number = strtoll(limit->line + 1, NULL, 10);
	if (number < 0)
		return NULL;
	if (number > (type == '*' ? REDIS_MOST_ELEMENTS : REDIS_MOST_BYTES))
		return too_large;
	if (type == '$') {
		limit->skip = (size_t)number + strlen("\r\n");
		return NULL;
	}
	limit->due += (size_t)number;
	limit->elements += (size_t)number;
	return limit->elements > REDIS_MOST_ELEMENTS ? too_large : NULL;
}

/* Take the next byte of a line. */
static const char *pass_byte(struct redis_limit *limit, char byte)
{
	const char *wrong = NULL;
	const char last = limit->last;

	if (!limit->length && !limit->due)
		limit->bytes = limit->elements = 0;
	limit->last = byte;
	limit->bytes++;
	if (limit->length < sizeof(limit->line))
		limit->line[limit->length] = byte;
	if (++limit->length > REDIS_MOST_LINE || limit->bytes > REDIS_MOST_BYTES)
		return too_large;
	if (byte == '\n' && last == '\r') {
		wrong = begin_element(limit);
		limit->length = 0;
		limit->last = '\0';
	}
	return wrong;
}

const char *redis_limit_pass(struct redis_limit *limit, const char *data, size_t length)
{
	const char *wrong = NULL, *end = data + length;
	size_t part;

	while (data < end && !wrong) {
		if (!limit->skip) {
			wrong = pass_byte(limit, *data++);
			continue;
		}
		part = (size_t)(end - data) < limit->skip ? (size_t)(end - data) : limit->skip;
		limit->skip -= part;
		limit->bytes += part;
		data += part;
		if (limit->bytes > REDIS_MOST_BYTES)
			wrong = too_large;
	}
	return wrong;
}
