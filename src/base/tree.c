/* SPDX-License-Identifier: MIT */
/* Finds the processes below this one in /proc, and signals them. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "process.h"

/* The most processes that are signalled at a time. Killed ones make room for the others. */
#define MOST 8192
#define PATH_SIZE 64

struct entry {
	pid_t pid;
	pid_t parent;		/* when it was listed */
};

struct list {
	struct entry entries[MOST];
	size_t count;
};

bool tree_usable(void)
{
	return process_proc_usable() && !access("/proc/thread-self/children", R_OK);
}

static bool is_excluded(const struct tree_excluded *excluded, pid_t pid)
{
	if (pid == excluded->helper)
		return true;
	for (size_t i = 0; i < excluded->count; i++)
		if (pid == excluded->pids[i])
			return true;
	return false;
}

/* Add the children of one thread of parent. False: they cannot be read. */
static bool add_listed(struct list *list, const char *path, pid_t parent,
		       const struct tree_excluded *excluded)
{
	FILE *children = fopen(path, "re");
	int pid;

	if (!children)
		return false;
	while (list->count < MOST && fscanf(children, "%d", &pid) == 1)
		if (!is_excluded(excluded, pid))
			list->entries[list->count++] = (struct entry){ pid, parent };
	fclose(children);
	return true;
}

/* Add the children of all threads: each has a list of those that it has forked. */
static bool add_children(struct list *list, pid_t parent, const struct tree_excluded *excluded)
{
	const struct dirent *entry;
	char path[PATH_SIZE];
	bool added = true;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	threads = opendir(path);
	if (!threads)
		return false;
	while ((entry = readdir(threads))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent,
			 entry->d_name);
		added &= add_listed(list, path, parent, excluded);
	}
	closedir(threads);
	return added;
}

/* List the children of this process. NULL: they cannot be listed. */
static struct list *list_children(const struct tree_excluded *excluded)
{
	static struct list list;

	list.count = 0;
	return tree_usable() && add_children(&list, getpid(), excluded) ? &list : NULL;
}

int tree_exclude_present(struct tree_excluded *excluded)
{
	static pid_t present[MOST];
	struct list *list;

	*excluded = (struct tree_excluded){ .pids = NULL };
	if (!process_has_child(0))
		return 0;
	list = list_children(excluded);
	if (!list)
		return -1;
	for (size_t i = 0; i < list->count; i++) {
		add_children(list, list->entries[i].pid, excluded);
		present[i] = list->entries[i].pid;
	}
	excluded->pids = present;
	excluded->count = list->count;
	return 0;
}

void tree_remove_reaped(struct tree_excluded *excluded, pid_t pid)
{
	if (excluded->helper == pid)
		excluded->helper = 0;
	for (size_t i = 0; i < excluded->count; i++)
		if (excluded->pids[i] == pid)
			excluded->pids[i] = 0;
}

/*
 * Send as kill(2), but never to a later process with this number. A child keeps its number until
 * this process reaps it. The number of another process may be used again while the tree is listed,
 * so its parent is read again; when its parent has died, it is a child of this process.
 */
static int signal_entry(const struct entry *entry, int sig)
{
	struct pidfd process;
	int failed = -1;
	pid_t parent;

	if (entry->parent == getpid())
		return kill(entry->pid, sig);
	process.fd = pidfd_open_once(entry->pid);
	parent = process_parent(entry->pid);
	if (parent != entry->parent && parent != getpid())
		errno = ESRCH;
	else
		failed = process.fd < 0 ? kill(entry->pid, sig) : pidfd_signal(&process, sig);
	/* This does not fail, and leaves errno alone. */
	if (process.fd >= 0)
		close(process.fd);
	return failed;
}

/* A zombie of another user is not refused: its parent reaps it. */
static bool is_refused(pid_t pid)
{
	return errno == EPERM && !process_is_dead(pid);
}

int tree_signal(const struct tree_excluded *excluded, pid_t skip_group, int sig, int64_t until_ms,
		pid_t *refused)
{
	struct list *list = list_children(excluded);
	size_t children;

	*refused = 0;
	if (!list)
		return -1;
	children = list->count;
	for (size_t i = 0; i < list->count; i++) {
		const struct entry entry = list->entries[i];
		const bool skipped = skip_group && getpgid(entry.pid) == skip_group;

		if (clock_boot_ms() < until_ms)
			add_children(list, entry.pid, excluded);
		else if (sig != SIGKILL || i >= children)
			break;
		/* Signal 0 asks only whether signals are allowed. */
		if (signal_entry(&entry, skipped ? 0 : sig) && is_refused(entry.pid))
			*refused = entry.pid;
		else if (sig == SIGTERM && !skipped)
			signal_entry(&entry, SIGCONT);
	}
	return (int)list->count;
}
