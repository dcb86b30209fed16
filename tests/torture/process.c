/* SPDX-License-Identifier: MIT */
/* Finds the processes of a contender in /proc. */
#include "process.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	struct process *list;
	size_t count, capacity;
} known;

/* What the marks of our processes begin with. */
static char key[100];

void process_word(const char *word)
{
	snprintf(key, sizeof(key), "TORTURE_MARK=%s.", word);
}

void process_mark(char *mark, size_t size, unsigned round, int contender)
{
	snprintf(mark, size, "%s%u.%d", key, round, contender);
}

/* Up to SIZE - 1 bytes of the file NAME of a process, terminated; -1: cannot be read. */
static ssize_t read_of(pid_t pid, const char *name, char *buffer, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buffer, size - 1);
	close(fd);
	buffer[n < 0 ? 0 : n] = '\0';
	return n;
}

/* A process has the mark of its parent until it runs a program with another one: this one has
 * none, a contender is there from its exec on, and nothing of a contender ever changes it. */
static void look_for_mark(struct process *process, int64_t now_ns)
{
	char environment[4096];
	const char *found;
	ssize_t n;

	n = read_of(process->pid, "environ", environment, sizeof(environment));
	found = n > 0 ? memmem(environment, (size_t)n, key, strlen(key)) : NULL;
	if (found && sscanf(found + strlen(key), "%u.%d", &process->round,
			    &process->contender) == 2)
		process->sure = true;
	else
		process->sure = now_ns - process->first_ns > 2000000000;
}

static void append_process(struct process *list, size_t *count, pid_t pid, size_t *at,
			   int64_t now_ns)
{
	struct process *process = &list[(*count)++];

	/* /proc lists pids in their order, and so does what is known */
	while (*at < known.count && known.list[*at].pid < pid)
		(*at)++;
	if (*at < known.count && known.list[*at].pid == pid)
		*process = known.list[*at];
	else
		*process = (struct process){ .pid = pid, .first_ns = now_ns };
	if (!process->sure)
		look_for_mark(process, now_ns);
}

void process_look(int64_t now_ns)
{
	static DIR *proc;
	struct process *list = NULL, *grown;
	size_t count = 0, capacity = 0, at = 0;
	struct dirent *entry;

	if (!proc)
		proc = opendir("/proc");
	if (!proc)
		err(71, "/proc");
	rewinddir(proc);
	while ((entry = readdir(proc))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : 1024;
			grown = realloc(list, capacity * sizeof(*list));
			if (!grown)
				err(71, "realloc");
			list = grown;
		}
		append_process(list, &count, (pid_t)atoi(entry->d_name), &at, now_ns);
	}
	free(known.list);
	known.list = list;
	known.count = count;
}

const struct process *process_next(unsigned round, int contender, size_t *at)
{
	const struct process *process;

	while (*at < known.count) {
		process = &known.list[(*at)++];
		if (process->round == round && (contender < 0 || process->contender == contender))
			return process;
	}
	return NULL;
}

/* A process is dead as a zombie without other threads: the first thread may have ended alone. */
static bool is_dead(const char *fields)
{
	int threads = 0;

	if (*fields != 'Z' && *fields != 'X')
		return false;
	sscanf(fields, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
	       &threads);
	return threads <= 1;
}

const char *process_name(pid_t pid)
{
	static char name[64];
	char stat[512], *open, *close;

	name[0] = '\0';
	if (read_of(pid, "stat", stat, sizeof(stat)) <= 0)
		return name;
	open = strchr(stat, '(');
	close = strrchr(stat, ')');
	if (open && close && close[1] == ' ' && !is_dead(close + 2))
		snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
	return name;
}
