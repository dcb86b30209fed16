/* SPDX-License-Identifier: MIT */
#include "proctable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "procstat.h"
#include "textfile.h"

#define PATH_SIZE 64
/* /proc/PID/status has about 1500 bytes, and the lines that are read stand in the first half. */
#define STATUS_SIZE 4096

/* Reads /proc/PID/status, NUL-terminated. pid: digits, or "self". */
static bool read_status(const char *pid, char status[static STATUS_SIZE])
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	return textfile_start(path, status, STATUS_SIZE);
}

/* Could a file of /proc not be opened for want of descriptors or memory, though it is there? */
static bool is_short(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM;
}

bool proctable_usable(void)
{
	char status[STATUS_SIZE];
	const char *line;
	char *next;

	errno = 0;
	if (!read_status("self", status)) {
		if (!is_short(errno))
			errno = ENOTSUP;
		return false;
	}
	errno = ENOTSUP;
	line = strstr(status, "\nPid:");
	if (!line || strtol(line + strlen("\nPid:"), NULL, 10) != getpid())
		return false;
	/*
	 * A process has a pid in its own namespace and in each one above. The line lists the pids
	 * from the namespace of this /proc on: with a second number this is a namespace above.
	 */
	line = strstr(status, "\nNSpid:");
	if (!line)
		return true;
	strtol(line + strlen("\nNSpid:"), &next, 10);
	return next[strspn(next, " \t")] == '\n';
}

static bool add_row(struct proctable *table, const struct proctable_row *row)
{
	if (table->count == table->room) {
		size_t room = table->room ? table->room * 2 : 256;
		struct proctable_row *rows = realloc(table->rows, room * sizeof(*rows));

		if (!rows)
			return false;
		table->rows = rows;
		table->room = room;
	}
	table->rows[table->count++] = *row;
	return true;
}

static bool read_row(pid_t pid, struct proctable_row *row)
{
	struct procstat stat;

	if (!procstat_read(pid, &stat))
		return false;
	*row = (struct proctable_row){
		.pid = pid, .parent = stat.parent, .group = stat.group, .session = stat.session,
		.thread = procstat_live_thread(pid, &stat), .start_ticks = stat.start_ticks,
	};
	return true;
}

static int compare_pids(const void *a, const void *b)
{
	const struct proctable_row *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int proctable_read(struct proctable *table)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct proctable_row row;
	int errnum = 0;

	table->count = 0;
	table->vanished = false;
	if (!proc)
		return -1;
	while (!errnum && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		errno = 0;
		if (!read_row((pid_t)strtol(entry->d_name, NULL, 10), &row)) {
			errnum = is_short(errno) ? errno : 0;
			table->vanished = true;
		} else if (!add_row(table, &row)) {
			errnum = ENOMEM;
		}
	}
	closedir(proc);
	if (errnum) {
		errno = errnum;
		return -1;
	}
	qsort(table->rows, table->count, sizeof(*table->rows), compare_pids);
	return 0;
}

struct proctable_row *proctable_find(const struct proctable *table, pid_t pid)
{
	const struct proctable_row key = { .pid = pid };

	if (!table->count)
		return NULL;
	return bsearch(&key, table->rows, table->count, sizeof(key), compare_pids);
}

void proctable_finish(struct proctable *table)
{
	free(table->rows);
	*table = (struct proctable){ .rows = NULL };
}

/* Looks for a string that begins with entry, among strings that are read in pieces. */
struct search {
	const char *entry;
	size_t length;
	size_t matched;		/* so many bytes of the current string are those of entry */
	bool differs;		/* the current string is another one */
};

static bool search_piece(struct search *search, const char *piece, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!piece[i]) {
			search->matched = 0;
			search->differs = false;
		} else if (!search->differs && piece[i] == search->entry[search->matched]) {
			if (++search->matched == search->length)
				return true;
		} else {
			search->differs = true;
		}
	}
	return false;
}

bool proctable_has_entry(const struct proctable_row *row, const char *entry)
{
	struct search search = { .entry = entry, .length = strlen(entry) };
	char path[PATH_SIZE], piece[4096];
	bool found = false;
	ssize_t size;
	int fd;

	/* A main thread that has ended has no environment any more; other threads have. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/environ", (int)row->pid, (int)row->thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (!found && (size = read(fd, piece, sizeof(piece))) > 0)
		found = search_piece(&search, piece, (size_t)size);
	close(fd);
	return found;
}

uid_t proctable_user(pid_t pid)
{
	char status[STATUS_SIZE], digits[16];
	const char *line;
	unsigned int effective;

	snprintf(digits, sizeof(digits), "%d", (int)pid);
	if (!read_status(digits, status))
		return (uid_t)-1;
	line = strstr(status, "\nUid:");
	if (!line || sscanf(line, " Uid: %*u %u", &effective) != 1)
		return (uid_t)-1;
	return effective;
}
