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
#ifndef DLOCK_PROCTABLE_H
#define DLOCK_PROCTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum proctable_mark { PROCTABLE_NONE, PROCTABLE_CHOSEN, PROCTABLE_SPARED };

struct proctable_row {
	pid_t pid;
	pid_t parent;
	pid_t group;
	pid_t session;
	pid_t thread;			/* one that lives; 0: the process is dead */
	unsigned long long start_ticks;	/* with pid: who it is, even when the pid is used again */
	enum proctable_mark mark;	/* the caller's; starts as PROCTABLE_NONE */
};

struct proctable {
	struct proctable_row *rows;	/* in the order of their pids */
	size_t count;
	size_t room;
	bool vanished;			/* a process went away while the table was read */
};

/*
 * Is there a /proc, and are its numbers those of this process' PID namespace? The numbers of
 * another namespace stand for other processes here.
 */
bool proctable_usable(void);

/* Fills an empty table, or one that was filled before. 0, or -1 with errno. */
int proctable_read(struct proctable *table);

/* NULL when there is no such process in it. */
struct proctable_row *proctable_find(const struct proctable *table, pid_t pid);

void proctable_finish(struct proctable *table);

/*
 * Does the environment that this process was started with hold this entry, "NAME=value"? False
 * also when it may not be read: it is that of another user then.
 */
bool proctable_has_entry(const struct proctable_row *row, const char *entry);

/* The user that the process runs as; (uid_t)-1 when there is no telling. */
uid_t proctable_user(pid_t pid);

#endif
