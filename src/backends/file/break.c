/* SPDX-License-Identifier: MIT */
/*
 * Breaking a lock. The kernel frees a lock only when its holder does, so the name gets another
 * file. A holder finds its file replaced when it renews, and SIGURG makes it renew at once. The
 * signal does no harm to another process that has this pid in this container.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lock.h"

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
	char fresh[FILE_PATH_SIZE];
	int fd, failed;

	snprintf(fresh, sizeof(fresh), "%.*s/.new-XXXXXX", FILE_DIRECTORY_MAX, lock->directory);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd >= 0)
		make_like(fd, lock->fd);
	failed = fd < 0 || file_record_write(&record, fd, 0) || rename(fresh, lock->path);
	if (failed)
		error_set(err, ERROR_REFUSED, errno, "cannot replace %s", lock->path);
	if (failed && fd >= 0)
		unlink(fresh);
	if (fd >= 0)
		close(fd);
	return failed ? OUTCOME_ERROR : OUTCOME_HELD;
}

/* Does the hold of this row exist? A process without a record has a row without an id. */
static bool shows_row(const struct file_state *state, const struct row *row)
{
	return file_state_find(state, row->id) ||
	       (!row->id[0] && !state->count && state->taken != FILE_FREE);
}

/*
 * Stay in the section, so that a process that acquires the lock is in the old file before, or finds
 * that this file is not the current one. All other holders of the file lose the lock, too.
 */
static enum outcome break_row(const struct file_lock *lock, const struct row *row,
			      struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;
	struct file_state state;

	if (file_lock_inspect(lock, &state, err))
		return OUTCOME_ERROR;
	if (shows_row(&state, row) && file_lock_current(lock))
		outcome = replace_file(lock, state.fence, err);
	for (int i = 0; outcome == OUTCOME_HELD && i < state.count; i++)
		if (state.holds[i].pid > 0)
			kill(state.holds[i].pid, SIGURG);
	file_state_finish(&state);
	return outcome;
}

enum outcome file_break(struct backend *backend, const char *name, const struct row *row,
			struct error *err)
{
	enum outcome outcome;
	struct file_lock lock;
	int missing;

	file_lock_init(&lock, file_from_backend(backend), name);
	missing = file_lock_open(&lock, false, err);
	if (missing)
		return missing > 0 ? OUTCOME_LOST : OUTCOME_ERROR;
	outcome = break_row(&lock, row, err);
	file_lock_close(&lock);
	return outcome;
}
