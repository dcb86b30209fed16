/* SPDX-License-Identifier: MIT */
/*
 * A witness writes the history of its hold; torture/history.h has the lines, and the judge.
 *
 *	record_open(path, name);	once
 *	record_begin(mode);		the first line
 *	write_record("beat", "");	again and again
 *	write_record("end", "");	at its end
 *
 * Without a path, $WITNESS_HISTORIES is a directory, in which each lock has a file of its own: of
 * one name, scheme and strategy, for the servers of a test are reached by several addresses. With
 * neither nothing is written.
 */
#pragma once

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int record_fd = -1;
static char record_hold[64];

/* The time is taken before the line is written, so that a process that is stopped in between does
 * not seem to have lived longer. */
static void write_record(const char *word, const char *rest)
{
	struct timespec now;
	char line[200];
	int length;

	if (record_fd < 0)
		return;
	clock_gettime(CLOCK_BOOTTIME, &now);
	length = snprintf(line, sizeof(line), "%lld.%06ld %s %s %ld%s\n",
			  (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000,
			  now.tv_nsec % 1000000, word, record_hold, (long)getpid(), rest);
	/* one write a line: several processes share the file */
	if (write(record_fd, line, (size_t)length) != length)
		_exit(74);
}

/* mode: "x", "s" or a number of slots. */
static void record_begin(const char *mode)
{
	const char *fence = getenv("DLOCK_FENCE");
	char rest[64];

	snprintf(rest, sizeof(rest), " %s %s", fence && *fence ? fence : "-", mode);
	write_record("begin", rest);
}

/* The file of the lock that $DLOCK_NAME and $DLOCK_BACKEND tell of. 0: there is none. */
static int record_path(char *path, size_t size)
{
	const char *directory = getenv("WITNESS_HISTORIES"), *name = getenv("DLOCK_NAME");
	const char *uri, *query;
	size_t start;

	if (!directory || !*directory || !name || !*name)
		return 0;
	uri = getenv("DLOCK_BACKEND");
	query = uri ? strchr(uri, '?') : NULL;
	start = strlen(directory) + 1;
	snprintf(path, size, "%s/%s %.*s%s", directory, name, uri ? (int)strcspn(uri, ":") : 0,
		 uri ? uri : "", query ? query : "");
	for (; path[start]; start++)
		if (path[start] == '/')
			path[start] = '_';
	return 1;
}

/* name: what the hold is called; NULL: the first half of $DLOCK_TOKEN. */
static void record_open(const char *path, const char *name)
{
	const char *token = getenv("DLOCK_TOKEN");
	char own[1024];

	if (!path && !record_path(own, sizeof(own)))
		return;
	if (name)
		snprintf(record_hold, sizeof(record_hold), "%s", name);
	else if (token && *token)
		snprintf(record_hold, sizeof(record_hold), "%.*s", (int)(strlen(token) / 2), token);
	else
		snprintf(record_hold, sizeof(record_hold), "pid%ld", (long)getpid());
	record_fd = open(path ? path : own, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	/* as another user than the test's */
	if (record_fd < 0 && path)
		err(64, "%s", path);
}
