/* SPDX-License-Identifier: MIT */
/*
 * Locks in a directory of this host: flock(2) on DIR/NAME.lock, so that flock(1)
 * on the same file excludes dlock and the other way round. The descriptor is
 * opened before any fork and shared by dlock's processes, so that the lock
 * ends with the last of them. The file stays there with the last fence, because to remove it
 * on release would let two processes lock two files of one name.
 *
 * Shared holds are shared locks. Slots: every holder has a shared lock on the file
 * itself, which keeps exclusive ones out, and an exclusive one on a file of its
 * slot, DIR/NAME.lock.1 and so on.
 *
 * Each hold also locks a byte of its own, by which others see that the hold is alive: see
 * lock.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/linger.h"
#include "base/memory.h"
#include "base/procstat.h"
#include "base/proctable.h"
#include "lock/hold_mode.h"
#include "lock/token.h"
#include "lock/uri.h"
#include "lock.h"
#include "ops.h"
#include "path.h"

static struct backend *file_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { URI_COMMON_PARAMS, NULL };
	struct file_backend *file;
	char *directory;

	if (uri_check_params(uri, known, err))
		return NULL;
	if (uri->host_count || uri->user || uri->password) {
		error_set(err, ERROR_USAGE, 0,
			  "file: takes a directory and no host: file:///path/to/dir");
		return NULL;
	}
	directory = uri->path[0] ? memory_copy(uri->path) : file_path_default(err);
	if (!directory)
		return NULL;
	file = memory_new(1, sizeof(*file));
	file->base.session = true;
	file->place = memory_format("file:%s", directory);
	file->directory = file->place + strlen("file:");
	file->by_default = !uri->path[0];
	free(directory);
	file->fd = -1;
	file->slot_fd = -1;
	return &file->base;
}

static void file_close(struct backend *backend)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file)
		return;
	file_lock_close(file);
	free(file->place);
	free(file);
}

static const char *file_place(const struct backend *backend)
{
	return ((const struct file_backend *)backend)->place;
}

static int file_event_fd(struct backend *backend)
{
	(void)backend;
	return -1;
}

static int64_t file_event(struct backend *backend)
{
	(void)backend;
	return CLOCK_NEVER;
}

/*
 * The token does not hold in this directory. LOST, or ERROR if this is the default directory of one
 * user and the token is of a hold in that of another, as below su or sudo in a run.
 */
static enum outcome not_held(const struct file_backend *file, const struct request *request,
			     struct error *err)
{
	char path[FILE_DEFAULT_SIZE];
	struct uri uri = { .scheme = "file", .path = path };
	struct procstat stat;

	if (!file->by_default || !proctable_usable())
		return OUTCOME_LOST;
	for (pid_t pid = getppid(); procstat_read(pid, &stat); pid = stat.parent) {
		const uid_t user = proctable_user(pid);

		for (int i = 0; file_path_of_user(user, i, path); i++) {
			if (!strcmp(path, file->directory) ||
			    token_scope(request->token, request->name, uri_identity(&uri)) !=
			    TOKEN_OF_LOCK)
				continue;
			error_set(err, ERROR_REFUSED, 0, "the hold of this token is in %s, the "
				  "default directory of user %u, and not in %s, the default here; "
				  "name one directory for both: -b file:///PATH", path,
				  (unsigned)user, file->directory);
			return OUTCOME_ERROR;
		}
	}
	return OUTCOME_LOST;
}

/*
 * Looks for the hold of the token. This object's own one is alive as long as its process is. HELD
 * with *hold; LOST: there is none, or one that is only kept after its release; ERROR with *err.
 */
static enum outcome find_hold(struct file_backend *file, const struct request *request,
			      struct file_hold *hold, struct error *err)
{
	enum outcome outcome = OUTCOME_HELD;
	const struct file_hold *found;
	struct file_record record;
	enum file_taken taken;

	/* Looking at a lock must not make its file. */
	if (file->fd < 0 && !file_path_exists(file->directory, request->name))
		return not_held(file, request, err);
	if (file_lock_open(file, request->name, err))
		return OUTCOME_ERROR;
	if (!file_lock_current(file, request->name))
		return OUTCOME_LOST;
	*hold = file->own;
	if (file->own.fence)
		return OUTCOME_HELD;
	if (file_lock_look(file, &record, &taken, err))
		return OUTCOME_ERROR;
	found = file_record_find(&record, request->token);
	if (found && !found->holder.kept_ms)
		*hold = *found;
	else
		outcome = not_held(file, request, err);
	file_record_finish(&record);
	return outcome;
}

static enum outcome file_verify(struct backend *backend, const struct request *request,
				struct error *err)
{
	struct file_hold hold;
	enum outcome outcome = find_hold(file_from_backend(backend), request, &hold, err);

	return outcome == OUTCOME_HELD ? hold_mode_covers(hold.mode, hold.slots, request, err)
				       : outcome;
}

/* Writes into the record, to show, that this process holds from now on. */
static void adopt(const struct file_backend *file, const struct request *request)
{
	struct file_record record;

	if (file_lock_edit(file, &record))
		return;
	if (file_record_adopt(&record, request))
		file_record_write(&record, file->fd);
	file_lock_done(file, &record);
}

/* For an object that holds nothing. ERROR: another process holds, and only that one can do this. */
static enum outcome held_elsewhere(struct file_backend *file, const struct request *request,
				   struct error *err)
{
	struct file_hold hold;
	enum outcome outcome = find_hold(file, request, &hold, err);

	if (outcome != OUTCOME_HELD)
		return outcome;
	/* When the keeper was killed, its watchdog keeps the file open for a moment. */
	if (kill(hold.keeper, 0) && errno != EPERM)
		return OUTCOME_LOST;
	error_set(err, ERROR_REFUSED, 0, "process %d holds it and could not be asked: use the "
		  "--backend and the user of 'dlock acquire'", (int)hold.keeper);
	return OUTCOME_ERROR;
}

static enum outcome replaced(const struct file_backend *file, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "its file in %s was removed or replaced",
		  file->directory);
	return OUTCOME_LOST;
}

/*
 * The kernel takes no lock away from an open descriptor, but `dlock break` puts another file in
 * the place of the lock file.
 */
static enum outcome file_renew(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file->own.fence)
		return held_elsewhere(file, request, err);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	if (file_lock_current(file, request->name)) {
		adopt(file, request);
		return OUTCOME_HELD;
	}
	return replaced(file, err);
}

/*
 * If the record cannot be written, it goes on naming this hold. But nobody has its byte locked
 * then, so the hold counts as dead.
 */
static void unlock(struct file_backend *file, const struct request *request)
{
	struct file_record record;

	/*
	 * Waiters for an exclusive hold sleep in flock() and do not read the record. The others
	 * are woken when the record changes, so the slot is freed before that.
	 */
	if (request->mode == HOLD_EXCLUSIVE)
		flock(file->fd, LOCK_UN);
	if (file->slot_fd >= 0)
		flock(file->slot_fd, LOCK_UN);
	if (!file_lock_edit(file, &record)) {
		if (file_record_remove(&record, request->token))
			file_record_write(&record, file->fd);
		file_lock_done(file, &record);
	}
	file_lock_disclaim(file);
	flock(file->fd, LOCK_UN);
}

struct kept {
	struct file_backend *file;
	struct request request;
};

/* In the process that keeps the lock while dlock itself returns. */
static void keep(void *context, int64_t until_ms)
{
	const struct kept *kept = context;

	adopt(kept->file, &kept->request);
	/* `dlock break` sends SIGURG. When the lock file is replaced, nothing is left to keep. */
	while (file_lock_current(kept->file, kept->request.name) &&
	       linger_until(until_ms, SIGURG) == SIGURG)
		;
	unlock(kept->file, &kept->request);
}

/* Frees the lock in keep_ms, while dlock itself returns. 0, or -1 with *err. */
static int free_later(struct file_backend *file, const struct request *request, int64_t keep_ms,
		      struct error *err)
{
	struct kept kept = { file, *request };

	kept.request.until_ms = clock_wall_ms() + keep_ms;
	kept.request.self.kept_ms = kept.request.until_ms;
	kept.request.self.min_ms = request->min_hold_ms;
	/* Before this returns: from then on the token holds nothing. */
	adopt(file, &kept.request);
	return linger_start(keep_ms, (const int[]){ file->fd, file->slot_fd }, 2, keep, &kept, err);
}

static enum outcome file_release(struct backend *backend, const struct request *request,
				 int64_t keep_ms, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file->own.fence)
		return held_elsewhere(file, request, err);
	if (!file_lock_current(file, request->name)) {
		file_lock_close(file);
		return replaced(file, err);
	}
	if (request->forget)
		file_path_remove(file->directory, request->name);
	if (keep_ms <= 0)
		unlock(file, request);
	else if (free_later(file, request, keep_ms, err))
		return OUTCOME_ERROR;
	file_lock_close(file);
	return OUTCOME_HELD;
}

const struct backend_ops file_ops = {
	.open = file_open,
	.place = file_place,
	.close = file_close,
	.acquire = file_acquire,
	.event_fd = file_event_fd,
	.event = file_event,
	.renew = file_renew,
	.verify = file_verify,
	.release = file_release,
	.inspect = file_inspect,
	.list = file_list,
	.break_hold = file_break,
	.setup = file_setup,
	.plan = file_plan,
	.check = file_check,
};
