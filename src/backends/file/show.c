/* SPDX-License-Identifier: MIT */
/* Showing the locks of a directory. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "lock/token.h"
#include "lock/uri.h"
#include "lock.h"

/* ---- processes that have no record ---- */

static void add_process(struct rows *rows, int pid, bool holds, enum hold_mode mode)
{
	struct row *row = rows_add(rows, holds, "", 0);
	char command[16];

	row->mode = mode;
	row->holder.pid = pid;
	process_name(pid, command, sizeof(command));
	text_clean(command, strlen(command), row->holder.command, sizeof(row->holder.command));
}

/*
 * Add a row for each process that holds a flock(), or waits for it, in the order of the kernel. A
 * line is "7: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF", with "-> " for a waiter.
 */
static void add_processes(struct rows *rows, const struct stat *file, bool holds)
{
	unsigned major_id, minor_id;
	char line[160], kind[8];
	FILE *locks = fopen("/proc/locks", "re");
	unsigned long inode;
	int pid;

	if (!locks)
		return;
	while (fgets(line, sizeof(line), locks)) {
		if (sscanf(line, holds ? "%*s FLOCK %*s %7s %d %x:%x:%lu"
				       : "%*s -> FLOCK %*s %7s %d %x:%x:%lu",
			   kind, &pid, &major_id, &minor_id, &inode) != 5 || inode != file->st_ino)
			continue;
		/* Some file systems have another device number here than for stat(). */
		if (holds && makedev(major_id, minor_id) != file->st_dev)
			continue;
		add_process(rows, pid, holds, strcmp(kind, "READ") ? HOLD_EXCLUSIVE : HOLD_SHARED);
	}
	fclose(locks);
}

/* ---- one lock ---- */

static void add_hold(struct rows *rows, const struct file_record *hold, const char *id)
{
	struct row *row = rows_add(rows, true, hold->text, strlen(hold->text));
	/* The clock may have been set back since. */
	const int64_t age_ms = clock_wall_ms() - (int64_t)(hold->fence / 1000);

	memcpy(row->id, hold->id, sizeof(hold->id));
	row->mine = !strcmp(hold->id, id);
	row->mode = hold->mode;
	row->slots = hold->slots;
	row->fence = hold->fence;
	row->age_ms = age_ms < 0 ? 0 : age_ms;
}

static void add_state(struct rows *rows, const struct stat *file,
		      const struct file_state *state, const char *id)
{
	rows->fence = state->fence;
	if (state->taken == FILE_FREE)
		return;
	for (int i = 0; i < state->count; i++)
		if (state->holds[i].id[0])
			add_hold(rows, &state->holds[i], id);
	if (!rows->hold_count)
		add_processes(rows, file, true);
	/* The kernel does not show a process of another container. */
	if (!rows->hold_count)
		add_process(rows, 0, true,
			    state->taken == FILE_SHARED ? HOLD_SHARED : HOLD_EXCLUSIVE);
	add_processes(rows, file, false);
}

/* ---- all locks ---- */

/* Add the name of an entry of the directory, if it is a lock that is held. */
static int add_name(const struct file_backend *file, const char *entry, struct name_list *names,
		    struct error *err)
{
	struct file_state state;
	struct file_lock lock;
	char name[256];

	if (!file_path_decode(entry, name, sizeof(name)))
		return 0;
	/* A file that cannot be opened is another user's. */
	if (file_inspect(file, name, &lock, &state, err))
		return err->kind == ERROR_REFUSED ? 0 : -1;
	file_lock_close(&lock);
	if (state.taken != FILE_FREE)
		name_list_add(names, name, strlen(name));
	file_state_finish(&state);
	return 0;
}

static int show_names(const struct file_backend *file, struct name_list *names, struct error *err)
{
	DIR *directory = opendir(file->directory);
	const struct dirent *entry;
	int failed = 0;

	if (!directory) {
		if (errno == ENOENT)
			return 0;
		return error_set(err, ERROR_REFUSED, errno, "%s", file->directory);
	}
	while (!failed && (entry = readdir(directory)))
		failed = add_name(file, entry->d_name, names, err);
	closedir(directory);
	return failed;
}

/* ---- the default directories of users ---- */

/*
 * The token has no hold here. Returns -1 and sets *err if the hold is in the default directory of
 * another user, as below su or sudo in a run.
 */
static int check_users(const struct file_backend *file, const struct request *request,
		       struct error *err)
{
	char path[FILE_DEFAULT_SIZE];
	struct error ignored;
	struct uri uri = { .scheme = "file", .path = path };

	if (strcmp(file->directory, file_path_default(false, &ignored)) != 0 ||
	    !process_proc_usable())
		return 0;
	for (pid_t pid = getppid(); pid; pid = process_parent(pid)) {
		const uid_t user = process_user(pid);

		for (int i = 0; file_path_of_user(user, i, path); i++) {
			if (!strcmp(path, file->directory) ||
			    token_scope(request->token, request->name, uri_identity(&uri)) !=
			    TOKEN_OF_LOCK)
				continue;
			return error_set(err, ERROR_REFUSED, 0, "the hold of this token is in %s, "
					 "the default directory of user %u, and not in %s, the "
					 "default here; name one directory for both: -b "
					 "file:///PATH", path, (unsigned)user, file->directory);
		}
	}
	return 0;
}

int file_show(struct backend *backend, const struct request *request, struct rows *rows,
	      struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	char id[ROW_ID_SIZE];
	struct file_state state;
	struct file_lock lock;
	struct stat info;
	bool mine;

	if (!request->name)
		return show_names(file, &rows->names, err);
	if (file->own.fence && file_lock_current(&file->lock))
		file_store(file, NULL);
	if (file_inspect(file, request->name, &lock, &state, err))
		return -1;
	/* Without a file this fails, and nobody reads info: the lock is free. */
	fstat(lock.fd, &info);
	file_lock_close(&lock);
	row_id(request->token, id);
	add_state(rows, &info, &state, id);
	mine = file_state_find(&state, id) != NULL;
	file_state_finish(&state);
	return mine || !request->token[0] ? 0 : check_users(file, request, err);
}
