/* SPDX-License-Identifier: MIT */
#include "proctree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "procstat.h"

struct process {
	pid_t pid;
	pid_t parent;
	pid_t group;
	bool zombie;
	bool ours;		/* a descendant */
};

struct table {
	struct process *rows;
	size_t count;
	size_t room;
};

static bool read_process(const char *pid, struct process *row)
{
	struct procstat stat;

	if (!procstat_read(pid, &stat))
		return false;
	*row = (struct process){
		.pid = (pid_t)strtol(pid, NULL, 10), .parent = stat.parent,
		.group = stat.group, .zombie = stat.state == 'Z' || stat.state == 'X',
	};
	return true;
}

static bool add_process(struct table *table, const struct process *row)
{
	if (table->count == table->room) {
		size_t room = table->room ? table->room * 2 : 256;
		struct process *rows = realloc(table->rows, room * sizeof(*rows));

		if (!rows)
			return false;
		table->rows = rows;
		table->room = room;
	}
	table->rows[table->count++] = *row;
	return true;
}

static int read_table(struct table *table)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct process row;
	bool complete = true;

	if (!proc)
		return -1;
	while (complete && (entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    read_process(entry->d_name, &row))
			complete = add_process(table, &row);
	closedir(proc);
	if (!complete)
		errno = ENOMEM;
	return complete ? 0 : -1;
}

static bool is_ours(const struct table *table, pid_t pid)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->rows[i].pid == pid)
			return table->rows[i].ours;
	return false;
}

/* PIDs wrap, so that a child may stand before its parent: repeat until stable. */
static void mark_descendants(struct table *table, pid_t root, pid_t spare)
{
	bool found = true;

	while (found) {
		found = false;
		for (size_t i = 0; i < table->count; i++) {
			struct process *row = &table->rows[i];

			if (row->ours || row->pid == spare)
				continue;
			if (row->parent == root || is_ours(table, row->parent)) {
				row->ours = true;
				found = true;
			}
		}
	}
}

int proctree_signal(int sig, pid_t spare, pid_t skip_group)
{
	struct table table = { 0 };
	int count = -1, errnum;

	if (read_table(&table))
		goto out;
	mark_descendants(&table, getpid(), spare);
	count = 0;
	for (size_t i = 0; i < table.count; i++) {
		const struct process *row = &table.rows[i];

		if (!row->ours || row->zombie)
			continue;
		count++;
		if (sig && (!skip_group || row->group != skip_group))
			kill(row->pid, sig);
	}
out:
	errnum = errno;
	free(table.rows);
	errno = errnum;
	return count;
}

/* Reaps what is dead; false when nothing that lives is left but spare. */
static bool reap(pid_t spare)
{
	pid_t pid;

	do {
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0)
			return false;
	} while (pid > 0);
	/* Without a spare one, a child is left, if only on its way to die. */
	return !spare || proctree_signal(0, spare, 0) > 0;
}

void proctree_kill(pid_t spare)
{
	static const struct timespec pause = { .tv_nsec = 2000000 };

	while (proctree_signal(SIGKILL, spare, 0), reap(spare))
		nanosleep(&pause, NULL);
}
