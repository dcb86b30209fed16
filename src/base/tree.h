/* SPDX-License-Identifier: MIT */
/*
 * The tree of processes below this one, from the kernel's lists of children. This process is a
 * child subreaper: all processes of a command, daemons too, are below it, and become its children
 * when their parents die. So the tree is dead when this process has no child of the tree left.
 *
 *	first of all:	tree_exclude_present()
 *	to end a tree:	tree_signal() again and again, and waitpid(), until nothing is left
 *
 * Where /proc is missing, is that of another PID namespace, or has no lists of children (kernels
 * without CONFIG_PROC_CHILDREN), no process is signalled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Processes below this one that do not belong to the tree, with their descendants. */
struct tree_excluded {
	pid_t *pids;		/* children from before this program */
	size_t count;
	pid_t helper;		/* 0: none */
};

bool tree_usable(void);

/*
 * Fill *excluded, once in a process: nearly always one system call, because there are none. From
 * here on do not ignore SIGCHLD, and call tree_remove_reaped() for each child that is reaped.
 * Returns 0, or -1 when there are processes that cannot be listed.
 */
int tree_exclude_present(struct tree_excluded *excluded);

/* Remove a pid, because a new process may get the number. */
void tree_remove_reaped(struct tree_excluded *excluded, pid_t pid);

/*
 * Send sig to every process of the tree, parents first, each as soon as its children are listed; 0
 * only counts them. This stops at until_ms (CLOCK_BOOTTIME), but a SIGKILL gets to all children of
 * this process: what they leave are its children in the next call. SIGTERM is followed by SIGCONT,
 * because a stopped process does not handle it. The processes of skip_group (0: none) are counted,
 * but not signalled: the caller has done it. *refused becomes one that this user may not signal, or
 * 0. Returns the number of processes, with zombies; only 0 is exact. -1: they cannot be listed, or
 * not at this moment.
 */
int tree_signal(const struct tree_excluded *excluded, pid_t skip_group, int sig, int64_t until_ms,
		pid_t *refused);
