/* SPDX-License-Identifier: MIT */
/*
 * Locks in a directory of this host: flock(2) on DIR/NAME.lock, so that flock(1) on the same file
 * and dlock exclude each other. The lock lives with the open file description, which dlock's
 * processes share. A release keeps the file with the last fence, because two processes could lock
 * two files of one name if it did not.
 *
 * A shared hold and a slot have a shared lock on the file, which keeps exclusive holds out. Their
 * records, and the bytes that belong to these, keep them apart (lock.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "lock.h"

static struct backend *file_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { URI_COMMON_PARAMS, NULL };
	const char *directory = uri->path;
	struct file_backend *file;

	if (uri_check_params(uri, known, err))
		return NULL;
	if (uri->host_count || uri->user || uri->password) {
		error_set(err, ERROR_USAGE, 0,
			  "file: takes a directory and no host: file:///path/to/dir");
		return NULL;
	}
	if (strlen(uri->path) > FILE_DIRECTORY_MAX) {
		error_set(err, ERROR_USAGE, ENAMETOOLONG, "%.300s", uri->path);
		return NULL;
	}
	/* backend_find() could not use the default directory. */
	if (!directory[0])
		directory = file_path_default(false, err);
	if (!directory[0])
		return NULL;
	file = memory_new(1, sizeof(*file));
	file->base.session = true;
	file->base.can = BACKEND_SHARED | BACKEND_SLOTS;
	file->directory = memory_copy(directory);
	file->lock = (struct file_lock){ .file = file, .fd = -1 };
	return &file->base;
}

static void file_close(struct backend *backend)
{
	struct file_backend *file = file_from_backend(backend);

	file_lock_close(&file->lock);
	free(file->directory);
	free(file);
}

static enum outcome report_replaced(const struct file_backend *file, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "its file in %s was removed or replaced",
		  file->directory);
	return OUTCOME_LOST;
}

/*
 * Check the file: the kernel takes no lock away from an open descriptor, but `dlock break` replaces
 * the file.
 */
static enum outcome file_renew(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file->own.fence)
		return OUTCOME_LOST;
	grant->sent_ms = clock_boot_ms();
	if (!file_lock_current(&file->lock))
		return report_replaced(file, err);
	file_store(file, request->text);
	return OUTCOME_HELD;
}

static enum outcome file_release(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	bool current;

	(void)request;
	if (!file->own.fence)
		return OUTCOME_LOST;
	current = file_lock_current(&file->lock);
	file_lock_free(&file->lock, file->own.mode);
	file_lock_close(&file->lock);
	file->own.fence = 0;
	return current ? OUTCOME_HELD : report_replaced(file, err);
}

/* ---- breaking ---- */

/* Give the new file the owner and mode of the old one, if this user may. */
static void make_like(int fd, int old)
{
	struct stat info;

	if (!fstat(old, &info) && !fchmod(fd, info.st_mode & 0777) &&
	    fchown(fd, info.st_uid, info.st_gid) && fchown(fd, (uid_t)-1, info.st_gid))
		return;		/* it stays this user's */
}

/* Give the name to a new file with the last fence, which all others lock from now on. */
static enum outcome replace_file(const struct file_lock *lock, uint64_t fence, struct error *err)
{
	const struct file_record record = { .fence = fence };
	char *fresh = memory_format("%s/.new-XXXXXX", lock->file->directory);
	const int fd = mkostemp(fresh, O_CLOEXEC);
	int failed;

	if (fd >= 0)
		make_like(fd, lock->fd);
	failed = fd < 0 || file_record_write(&record, fd, 0) || rename(fresh, lock->path);
	if (failed)
		error_set(err, ERROR_REFUSED, errno, "cannot replace %s", lock->path);
	if (failed && fd >= 0)
		unlink(fresh);
	if (fd >= 0)
		close(fd);
	free(fresh);
	return failed ? OUTCOME_ERROR : OUTCOME_HELD;
}

/* Does the hold of this row exist? A process without a record has a row without an id. */
static bool shows_row(const struct file_state *state, const struct row *row)
{
	return file_state_find(state, row->id) ||
	       (!row->id[0] && !state->count && state->taken != FILE_FREE);
}

/*
 * The kernel frees a lock only when its holder does, so the name gets another file. A holder finds
 * its file replaced when it renews, and SIGURG makes it renew at once. The signal does no harm to
 * another process that has this pid in this container. Stay in the section, so that a process that
 * acquires the lock is in the old file before, or finds that this file is not the current one. All
 * other holders of the file lose the lock, too.
 */
static enum outcome file_break(struct backend *backend, const char *name, const struct row *row,
			       struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;
	struct file_state state;
	struct file_lock lock;

	if (file_inspect(file_from_backend(backend), name, &lock, &state, err))
		return OUTCOME_ERROR;
	if (shows_row(&state, row) && file_lock_current(&lock))
		outcome = replace_file(&lock, state.fence, err);
	for (int i = 0; outcome == OUTCOME_HELD && i < state.count; i++)
		if (state.holds[i].pid > 0)
			kill(state.holds[i].pid, SIGURG);
	file_state_finish(&state);
	file_lock_close(&lock);
	return outcome;
}

const struct backend_ops file_ops = {
	.open = file_open,
	.close = file_close,
	.acquire = file_acquire,
	.renew = file_renew,
	.release = file_release,
	.show = file_show,
	.setup = file_setup,
	.check = file_check,
	.break_hold = file_break,
};
