/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"
#include "process.h"

/* So many are signalled at a time. What is killed makes room for the others. */
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

static bool is_spared(const struct tree_spared *spared, pid_t pid)
{
	if (pid == spared->helper)
		return true;
	for (size_t i = 0; i < spared->count; i++)
		if (pid == spared->pids[i])
			return true;
	return false;
}

/* Adds the children of one thread. False: they cannot be read. */
static bool add_listed(struct list *list, const char *path, const struct tree_spared *spared)
{
	FILE *children = fopen(path, "re");
	int pid;

	if (!children)
		return false;
	while (list->count < MOST && fscanf(children, "%d", &pid) == 1)
		if (!is_spared(spared, pid))
			list->pids[list->count++] = pid;
	fclose(children);
	return true;
}

/* Each thread has a list of the children that it has forked. */
static bool add_children(struct list *list, pid_t parent, const struct tree_spared *spared)
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
		added &= add_listed(list, path, spared);
	}
	closedir(threads);
	return added;
}

/* Parents stand before their children. NULL: this process's own children cannot be listed. */
static const struct list *read_tree(const struct tree_spared *spared)
{
	static struct list list;

	list.count = 0;
	if (!tree_usable() || !add_children(&list, getpid(), spared))
		return NULL;
	for (size_t i = 0; i < list.count; i++)
		add_children(&list, list.pids[i], spared);
	return &list;
}

int tree_spare_present(struct tree_spared *spared)
{
	const struct list *list;
	siginfo_t info;

	*spared = (struct tree_spared){ .pids = NULL };
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD)
		return 0;
	list = read_tree(spared);
	if (!list)
		return -1;
	spared->pids = memory_new(list->count + 1, sizeof(*spared->pids));
	memcpy(spared->pids, list->pids, list->count * sizeof(*spared->pids));
	spared->count = list->count;
	return 0;
}

void tree_reaped(struct tree_spared *spared, pid_t pid)
{
	for (size_t i = 0; i < spared->count; i++)
		if (spared->pids[i] == pid)
			spared->pids[i] = 0;
}

void tree_forget(struct tree_spared *spared)
{
	free(spared->pids);
	*spared = (struct tree_spared){ .pids = NULL };
}

/* A zombie of another user is only to be reaped by its parent. */
static bool is_refused(pid_t pid)
{
	return errno == EPERM && !process_is_dead(pid);
}

int tree_signal(const struct tree_spared *spared, pid_t skip_group, int sig, pid_t *refused)
{
	const struct list *list = read_tree(spared);

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
