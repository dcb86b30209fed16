/* SPDX-License-Identifier: MIT */
#include "queueing.h"

#include "base/error.h"

bool queueing_wishes(const struct queueing *queueing)
{
	return queueing->priority || queueing->newest || queueing->replace;
}

bool queueing_admitted(const struct queueing *queueing, unsigned queue_can, const char *kind,
		       struct error *err)
{
	const struct {
		bool wished;
		unsigned bit;
		const char *option;
		const char *who;	/* which backends have it */
	} wishes[] = {
		{ queueing->priority > 0, QUEUE_PRIORITY, "--priority",
		  "redis: and mysql: have it by default" },
		{ queueing->newest, QUEUE_NEWEST, "--queue newest",
		  "redis: and mysql: have it by default" },
		{ queueing->replace, QUEUE_REPLACE, "--replace-waiters",
		  "redis:, mysql: and zookeeper: have it by default" },
	};

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		if (!wishes[i].wished || (queue_can & wishes[i].bit))
			continue;
		error_set(err, ERROR_USAGE, 0, "%s has no %s; %s", kind, wishes[i].option,
			  wishes[i].who);
		return false;
	}
	return true;
}

void queueing_encode(const struct queueing *queueing, char text[static QUEUEING_TEXT_SIZE])
{
	*text++ = (char)('0' + queueing->priority);
	if (queueing->newest)
		*text++ = 'n';
	if (queueing->replace)
		*text++ = 'r';
	*text = '\0';
}

bool queueing_decode(struct queueing *queueing, const char *text, size_t length)
{
	const char *const end = text + length;
	struct queueing read = { 0 };

	if (text == end || *text < '0' || *text > '0' + QUEUEING_PRIORITY_MAX)
		return false;
	read.priority = *text++ - '0';
	read.newest = text < end && *text == 'n';
	text += read.newest;
	read.replace = text < end && *text == 'r';
	text += read.replace;
	if (text != end)
		return false;
	*queueing = read;
	return true;
}
