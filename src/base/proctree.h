/* SPDX-License-Identifier: MIT */
/*
 * Finds processes in /proc, and signals them. With this process a child subreaper, whatever a
 * command started stays among its descendants, daemons too.
 *
 *	inherited at the very start:	proctree_inherit()
 *	to end what a command left:	proctree_signal(), again and again, one memory for all
 *	to end it at once:		proctree_kill()
 *
 * Where /proc is missing, or is that of another PID namespace, no process is signalled: its
 * numbers would hit strangers.
 */
#ifndef DLOCK_PROCTREE_H
#define DLOCK_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Is /proc there, and that of this process' PID namespace? */
bool proctree_available(void);

/* The descendants that this process had when the program began: those of whoever it was before. */
struct proctree_inherited {
	pid_t *pids;
	size_t count;
};

/*
 * Fills *inherited, which costs one system call when there are none, as nearly always. From here
 * on SIGCHLD must not be ignored, and nobody may reap these: else their numbers are used again.
 * 0; -1 with errno when there are some and they cannot be listed.
 */
int proctree_inherit(struct proctree_inherited *inherited);
void proctree_forget(struct proctree_inherited *inherited);

/* One of them, if it is one, was reaped: its number may become somebody else's. */
void proctree_forget_one(struct proctree_inherited *inherited, pid_t pid);

/*
 * Which processes. Without carriers, those that descend from this process. With carriers, those
 * of all that /proc shows which carry a hold, and what descends from them:
 *
 * - members of the process group `group` whose session is `session` (another session: the number
 *   of the group is used again); group 0: none;
 * - those that were started with the environment entry `entry` ("DLOCK_TOKEN=..."), as far as
 *   environments may be read, which is for this user's processes; NULL: none.
 *
 * Never this process itself, nor spare and inherited ones and those below them.
 */
struct proctree_scope {
	bool carriers;
	pid_t group;
	pid_t session;
	const char *entry;
	pid_t spare[3];				/* 0: none */
	const struct proctree_inherited *inherited;	/* NULL: none */
	pid_t skip_group;	/* counts, but is not signalled: its group was; 0: none */
};

/* Who got which signal. Starts out as { 0 }; a second signal is sent to nobody in it. */
struct proctree_memory {
	struct proctree_sent *sent;
	size_t count;
	size_t room;
};

void proctree_memory_finish(struct proctree_memory *memory);

struct proctree_report {
	int alive;		/* living processes, those in skip_group included */
	int refused;		/* of them, those that this user may not signal */
	pid_t refused_pid;	/* one of these */
	uid_t refused_user;	/* and its user; (uid_t)-1: not known */
};

/*
 * Sends sig to every living process of the scope, with SIGTERM also SIGCONT, for what is stopped
 * could not act on it; 0 only counts them. Looks until a look shows
 * nothing that the one before has not shown, so that a process cannot get away by forking while
 * the table is read. alive is what the last look showed, and at least 1 while descendants come
 * and go too fast for that.
 *
 * With memory (NULL: none) nobody gets the same signal twice, however often this is called; who
 * is in skip_group is noted as having got it. With carriers, what a carrier has started belongs
 * to the scope for as long as memory knows it, though the carrier be dead.
 *
 * report: may be NULL. Returns alive, or -1 with errno when /proc cannot be used or memory is
 * short: ENOTSUP when /proc is missing or of another PID namespace.
 */
int proctree_signal(const struct proctree_scope *scope, int sig, struct proctree_memory *memory,
		    struct proctree_report *report);

/*
 * Kills at once the descendants that the kernel lists by their parents, which takes no look at any
 * other process: quick where there are thousands. It may miss some, so that a proctree_signal()
 * must follow. Does nothing where the kernel has no such lists (CONFIG_PROC_CHILDREN), nor where
 * proctree_available() says no.
 */
void proctree_kill_listed(void);

/*
 * Kills all of the scope, and reaps those that are children of this process. 0 when none is left;
 * 1 when only such are left that may not be signalled, and *report (may be NULL) names one: try
 * again later; -1 as above. Processes in uninterruptible sleep are waited for.
 */
int proctree_kill(const struct proctree_scope *scope, struct proctree_memory *memory,
		  struct proctree_report *report);

#endif
