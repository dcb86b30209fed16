/* SPDX-License-Identifier: MIT */
/*
 * All processes that /proc shows, as a table.
 *
 *	struct proctable table = { 0 };
 *
 *	if (proctable_usable() && !proctable_read(&table))
 *		... table.rows[i] ...
 *	proctable_finish(&table);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum proctable_mark { PROCTABLE_NONE, PROCTABLE_CHOSEN, PROCTABLE_SPARED };

struct proctable_row {
	pid_t pid;
	pid_t parent;
	pid_t group;
	pid_t session;
	pid_t thread;			/* a living one; 0: the process is dead */
	unsigned long long start_ticks;	/* tells processes apart that had the same pid */
	enum proctable_mark mark;	/* for the caller; starts as PROCTABLE_NONE */
};

struct proctable {
	struct proctable_row *rows;	/* in the order of their pids */
	size_t count;
	size_t room;
	bool vanished;			/* a process went away while the table was read */
};

/*
 * Is there a /proc, and is it that of this process' PID namespace? In the /proc of another
 * namespace the numbers stand for other processes. False with errno: ENOTSUP, or what is short at
 * this moment (EMFILE, ENFILE, ENOMEM).
 */
bool proctable_usable(void);

/* Reads all processes into a table that is zeroed or was read before. 0, or -1 with errno. */
int proctable_read(struct proctable *table);

/* The row of pid, or NULL. */
struct proctable_row *proctable_find(const struct proctable *table, pid_t pid);

void proctable_finish(struct proctable *table);

/*
 * Does the environment that the process was started with have an entry that begins with this text?
 * False also when this user may not read it, because it is another user's.
 */
bool proctable_has_entry(const struct proctable_row *row, const char *entry);

/* The effective user of the process; (uid_t)-1: not known. */
uid_t proctable_user(pid_t pid);
