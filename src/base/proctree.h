/* SPDX-License-Identifier: MIT */
/*
 * Finds processes in /proc and signals them. When this process is a child subreaper, everything
 * that a command has started stays among its descendants, daemons too.
 *
 *	first of all:				proctree_inherit()
 *	to end what a command has left behind:	proctree_signal(), repeatedly with one memory
 *	to end it at once:			proctree_kill()
 *
 * Where /proc is missing or is that of another PID namespace, no process is signalled, because the
 * numbers in it may stand for other processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The descendants that this process had when the program began, from the program before it. */
struct proctree_inherited {
	pid_t *pids;
	size_t count;
};

/*
 * Fills *inherited, by one system call when there are none, as nearly always. From here on SIGCHLD
 * must not be ignored and nobody may reap these processes, so that nobody else gets their numbers.
 * 0, or -1 with errno when there are some and they cannot be listed.
 */
int proctree_inherit(struct proctree_inherited *inherited);
void proctree_forget(struct proctree_inherited *inherited);

/* pid, which may be one of them, was reaped: another process may get its number. */
void proctree_forget_one(struct proctree_inherited *inherited, pid_t pid);

/*
 * Which processes are meant. Without carriers: the descendants of this process. With carriers:
 * those of all processes in /proc that carry a hold, and their descendants. Carriers are
 *
 * - the members of the process group `group` in the session `session` (in another session, another
 *   group has got this number); group 0: none;
 * - the processes that were started with an environment entry that begins with `entry`
 *   ("DLOCK_TOKEN=..."), as far as this user may read their environments; NULL: none.
 *
 * Never meant are this process itself, spare and inherited ones, and the descendants of those.
 */
struct proctree_scope {
	bool carriers;
	pid_t group;
	pid_t session;
	const char *entry;
	pid_t spare[3];				/* 0: none */
	const struct proctree_inherited *inherited;	/* NULL: none */
	pid_t skip_group;	/* counted, but not signalled: the caller has; 0: none */
};

/* Which processes got which signal. Starts as { 0 }. */
struct proctree_memory {
	struct proctree_sent *sent;
	size_t count;
	size_t room;
};

void proctree_memory_finish(struct proctree_memory *memory);

struct proctree_report {
	int alive;		/* living processes, with those in skip_group */
	int refused;		/* those of them that this user may not signal */
	pid_t refused_pid;	/* one of the refused ones */
	uid_t refused_user;	/* its user; (uid_t)-1: not known */
};

/*
 * Sends sig to every living process of the scope; sig 0 only counts them. SIGTERM is followed by
 * SIGCONT, because a stopped process does not act on it. /proc is read until one reading shows
 * nothing that the reading before has not shown, so that no process escapes by forking meanwhile.
 * alive is the result of the last reading, and at least 1 while descendants come and go too fast.
 *
 * With memory (NULL: none) no process gets the same signal twice, however often this is called;
 * those in skip_group count as having got it. With carriers, the descendants of a carrier stay in
 * the scope when the carrier is dead, for as long as memory has them.
 *
 * report may be NULL. Returns alive, or -1 with errno when memory or descriptors are short or /proc
 * cannot be used: ENOTSUP when it is missing or that of another PID namespace.
 */
int proctree_signal(const struct proctree_scope *scope, int sig, struct proctree_memory *memory,
		    struct proctree_report *report);

/*
 * Kills the descendants that the kernel lists for each parent. This is quick where there are
 * thousands of other processes, which are not looked at, but may miss some, so that
 * proctree_signal() must follow. Does nothing where the kernel has no such lists
 * (CONFIG_PROC_CHILDREN), nor where proctable_usable() is false.
 */
void proctree_kill_listed(void);

/*
 * Kills all processes of the scope, and reaps those that are children of this process. Waits for
 * half a second until they have ended. 0: none is left; 1: some are left, in uninterruptible sleep,
 * or because they may not be signalled, of which *report (may be NULL) names one; -1 as
 * proctree_signal().
 */
int proctree_kill(const struct proctree_scope *scope, struct proctree_memory *memory,
		  struct proctree_report *report);
