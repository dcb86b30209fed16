/* SPDX-License-Identifier: MIT */
/*
 * How a waiter wishes to stand in the queue of a lock, if not simply in order of arrival. Its
 * wishes (priority, newest, replace) concern only waiters: no holder is ever sent away. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

#define QUEUEING_PRIORITY_MAX 9
/*
 * A waiter of priority N stands where it would stand if it had come N times this time earlier. So a
 * waiter of priority 0 is overtaken only by those that come within 9 times this time after it, and
 * never starves. Of two waiters with the same priority, the one that came first is first.
 */
#define QUEUEING_PRIORITY_MS 600000

struct queueing {
	int priority;		/* 0 to QUEUEING_PRIORITY_MAX */
	/*
	 * Of the waiters that have this wish and the same priority, the one that came last is
	 * first. They change places only with each other: nobody else waits longer for that.
	 */
	bool newest;
	/* A waiter that comes with this wish sends away those that came with it earlier. */
	bool replace;
};

/* Bits of queue_can of struct backend: what a queue can do besides order of arrival. */
enum queue_can {
	QUEUE_PRIORITY = 1 << 0,
	QUEUE_NEWEST = 1 << 1,
	QUEUE_REPLACE = 1 << 2,
};

/* Is there any wish? */
bool queueing_wishes(const struct queueing *queueing);

/*
 * Can a queue that has queue_can do what queueing wishes? False with ERROR_USAGE, which names
 * the option and kind, "redis: with ?dialect=redisson", which is what people call the queue.
 */
bool queueing_admitted(const struct queueing *queueing, unsigned queue_can, const char *kind,
		       struct error *err);

#define QUEUEING_TEXT_SIZE 4

/*
 * Writes the priority as a digit, then "n" for newest, then "r" for replace, and a NUL: "0r", "5",
 * "3nr". Scripts on servers read this form.
 */
void queueing_encode(const struct queueing *queueing, char text[static QUEUEING_TEXT_SIZE]);
/* Reads what queueing_encode() has written. False: it is something else. */
bool queueing_decode(struct queueing *queueing, const char *text, size_t length);
