/* SPDX-License-Identifier: MIT */
/*
 * The processes below this one, as the kernel lists the children of each process. This process is a
 * child subreaper: whatever a command has started, daemons too, is below it, and becomes its child
 * when the parent dies. So the tree is dead when this process has no child left that counts.
 *
 *	first of all:	tree_spare_present()
 *	to end a tree:	tree_signal() again and again, and waitpid(), until nothing is left
 *
 * Where /proc is missing, is that of another PID namespace, or has no lists of children (kernels
 * without CONFIG_PROC_CHILDREN), no process is signalled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What is below this process, and does not belong to the tree, nor does what is below that. */
struct tree_spared {
	pid_t *pids;		/* what was there when this program began */
	size_t count;
	pid_t helper;		/* 0: none */
};

bool tree_usable(void);

/*
 * Fills *spared, by one system call when there is nothing, as nearly always. From here on SIGCHLD
 * must not be ignored, and each child that is reaped is reported by tree_reaped(). 0, or -1 when
 * there are processes that cannot be listed.
 */
int tree_spare_present(struct tree_spared *spared);

/* Another process may get its number. */
void tree_reaped(struct tree_spared *spared, pid_t pid);

void tree_forget(struct tree_spared *spared);

/*
 * Sends sig to every process of the tree, parents first; 0 only counts them. SIGTERM is followed by
 * SIGCONT, because a stopped process does not act on it. The processes of skip_group count, and get
 * nothing, because the caller has signalled this group (0: none). *refused gets one that this user
 * may not signal, or 0. Returns how many there are, with zombies; it is exact that there are none.
 * -1: they cannot be listed, or not at this moment.
 */
int tree_signal(const struct tree_spared *spared, pid_t skip_group, int sig, pid_t *refused);
