/* SPDX-License-Identifier: MIT */
/* Finds the processes below this one in /proc, and signals them. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

/* The most processes that are signalled at a time. Killed ones make room for the others. */
#define MOST 8192
#define PATH_SIZE 64

struct list {
	pid_t pids[MOST];
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

/* Add the children of one thread. False: they cannot be read. */
static bool add_listed(struct list *list, const char *path, const struct tree_excluded *excluded)
{
	FILE *children = fopen(path, "re");
	int pid;

	if (!children)
		return false;
	while (list->count < MOST && fscanf(children, "%d", &pid) == 1)
		if (!is_excluded(excluded, pid))
			list->pids[list->count++] = pid;
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
		added &= add_listed(list, path, excluded);
	}
	closedir(threads);
	return added;
}

/* List parents before their children. NULL: the children of this process cannot be listed. */
static const struct list *read_tree(const struct tree_excluded *excluded)
{
	static struct list list;

	list.count = 0;
	if (!tree_usable() || !add_children(&list, getpid(), excluded))
		return NULL;
	for (size_t i = 0; i < list.count; i++)
		add_children(&list, list.pids[i], excluded);
	return &list;
}

int tree_exclude_present(struct tree_excluded *excluded)
{
	static pid_t present[MOST];
	const struct list *list;
	siginfo_t info;

	*excluded = (struct tree_excluded){ .pids = NULL };
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD)
		return 0;
	list = read_tree(excluded);
	if (!list)
		return -1;
	memcpy(present, list->pids, list->count * sizeof(present[0]));
	excluded->pids = present;
	excluded->count = list->count;
	return 0;
}

void tree_remove_reaped(struct tree_excluded *excluded, pid_t pid)
{
	for (size_t i = 0; i < excluded->count; i++)
		if (excluded->pids[i] == pid)
			excluded->pids[i] = 0;
}

/* A zombie of another user is not refused: its parent reaps it. */
static bool is_refused(pid_t pid)
{
	return errno == EPERM && !process_is_dead(pid);
}

int tree_signal(const struct tree_excluded *excluded, pid_t skip_group, int sig, pid_t *refused)
{
	const struct list *list = read_tree(excluded);

	*refused = 0;
	if (!list)
		return -1;
	for (size_t i = 0; i < list->count; i++) {
		const pid_t pid = list->pids[i];
		const bool skipped = skip_group && getpgid(pid) == skip_group;

		/* Signal 0 asks only whether signals are allowed. */
		if (kill(pid, skipped ? 0 : sig) && is_refused(pid))
			*refused = pid;
		else if (sig == SIGTERM && !skipped)
			kill(pid, SIGCONT);
	}
	return (int)list->count;
}
