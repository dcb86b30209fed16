/* SPDX-License-Identifier: MIT */
/* What the file backend tells of its locks, and breaking them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/view.h"
#include "lock.h"
#include "ops.h"
#include "path.h"

static void add_hold(struct lock_view *view, const struct file_hold *hold)
{
	struct hold_view *row = lock_view_add_hold(view);

	row->holder = hold->holder;
	row->mode = hold->mode;
	row->slots = hold->slots;
	row->fence = hold->fence;
	row->keeper = hold->keeper;
	row->age_ms = hold->holder.since_ms ? clock_wall_ms() - hold->holder.since_ms : -1;
	row->expires_ms = hold->until_ms ? hold->until_ms - clock_wall_ms() : -1;
}

/* Nothing is known of a process that sleeps in flock() but what the kernel shows. */
static bool add_waiter(void *context, const struct holder *holder, enum hold_mode mode)
{
	*lock_view_add_waiter(context) = (struct waiter_view){ .holder = *holder, .mode = mode,
							       .waiting_ms = -1 };
	return true;
}

/* Fills view from the open file. 0 or -1. */
static int view_file(struct file_backend *file, struct lock_view *view, struct error *err)
{
	struct file_record record;
	enum file_taken taken;

	if (file_lock_look(file, &record, &taken, err))
		return -1;
	view->fence = record.fence;
	view->held = taken != FILE_FREE;
	for (size_t i = 0; i < record.count; i++)
		add_hold(view, &record.holds[i]);
	if (view->held && !record.count)
		file_lock_stranger(file, &lock_view_add_hold(view)->holder);
	file_record_finish(&record);
	if (view->held)
		file_lock_each(file, true, add_waiter, view);
	return 0;
}

int file_inspect(struct backend *backend, const char *name, bool listen,
		 struct lock_view *view, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	int failed;

	(void)listen;
	/* Looking at a lock must not make its file. */
	if (!file_path_exists(file->directory, name))
		return 0;
	if (file_lock_open(file, name, err))
		return -1;
	failed = view_file(file, view, err);
	file_lock_close(file);
	return failed;
}

int file_list(struct backend *backend, struct name_list *names, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	DIR *directory = opendir(file->directory);
	struct lock_view view = { 0 };
	const struct dirent *entry;
	char name[256];
	int failed = 0;

	if (!directory) {
		if (errno == ENOENT)
			return 0;
		return error_set(err, ERROR_REFUSED, errno, "%s", file->directory);
	}
	while (!failed && (entry = readdir(directory))) {
		if (!file_path_decode(entry->d_name, name, sizeof(name)))
			continue;
		/* A file that cannot be opened is another user's. */
		if (!file_path_exists(file->directory, name) || file_lock_open(file, name, err))
			continue;
		failed = view_file(file, &view, err);
		file_lock_close(file);
		if (!failed && view.held)
			name_list_add(names, name, strlen(name));
		lock_view_finish(&view);
	}
	closedir(directory);
	name_list_sort(names);
	return failed;
}

/*
 * A new file, which the users of the old one can open as they could open that, if this user may
 * give it away. Returns a descriptor, or -1 with errno.
 */
static int make_like(const char *path, int old)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat info;

	if (fd < 0)
		return -1;
	if (!fstat(old, &info) && !fchmod(fd, info.st_mode & 0777) &&
	    fchown(fd, info.st_uid, info.st_gid) && fchown(fd, (uid_t)-1, info.st_gid))
		return fd;	/* it is this user's, then */
	return fd;
}

/* The names of a lock file, and of the one that is to take its place. */
struct names {
	char path[4096], fresh[4200];
};

static void make_names(const struct file_backend *file, const char *name, struct names *names)
{
	char encoded[FILE_ENCODED_SIZE];
	struct timespec now;

	file_path_encode(name, encoded);
	snprintf(names->path, sizeof(names->path), "%s/%s.lock", file->directory, encoded);
	/* With the time, because a process in another container may have the same pid. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	snprintf(names->fresh, sizeof(names->fresh), "%s/.new-%d-%lld%09ld", file->directory,
		 (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
}

/*
 * Gives the name another file, with the last fence: everybody who comes now locks that one. Within
 * the section, so that whoever takes the lock either is in the old record by then, or sees that
 * the file is not the current one. 0; 1: somebody else has given the name away; -1 with *err.
 */
static int replace(struct file_backend *file, const char *name, uint64_t fence,
		   struct error *err)
{
	const struct file_record record = { .fence = fence };
	struct names names;
	int result = -1;
	bool entered;
	int fd;

	make_names(file, name, &names);
	fd = make_like(names.fresh, file->fd);
	if (fd >= 0 && !file_record_write(&record, fd)) {
		/* While somebody is stopped in the section, the lock can be broken all the same. */
		entered = !file_lock_enter(file);
		if (!file_lock_current(file, name))
			result = 1;
		else
			result = rename(names.fresh, names.path);
		if (result < 0)
			error_set(err, ERROR_REFUSED, errno, "cannot replace %s", names.path);
		if (entered)
			file_lock_leave(file);
	} else {
		error_set(err, ERROR_REFUSED, errno, "cannot replace %s", names.path);
	}
	if (fd >= 0)
		close(fd);
	if (result && fd >= 0)
		unlink(names.fresh);
	return result;
}

/* 0; 1: somebody else has given the name away meanwhile; -1 with *err. */
static int break_open(struct file_backend *file, const char *name, struct lock_view *view,
		      struct error *err)
{
	int result = view_file(file, view, err);

	if (result || !view->held)
		return result;
	result = replace(file, name, view->fence, err);
	if (result)
		return result;
	/* The holder may have ended before that, and another one have come. */
	lock_view_finish(view);
	return view_file(file, view, err);
}

/*
 * The kernel frees a lock only when its holder does. So the name gets another file. The holder
 * finds its own file replaced when it looks, and SIGURG makes it look at once. That signal does no
 * harm if the pid is that of another process in this container.
 */
int file_break(struct backend *backend, const char *name, struct lock_view *view,
	       struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	int result;

	do {
		lock_view_finish(view);
		if (!file_path_exists(file->directory, name))
			return 0;
		if (file_lock_open(file, name, err))
			return -1;
		result = break_open(file, name, view, err);
		file_lock_close(file);
	} while (result > 0);
	for (size_t i = 0; !result && i < view->hold_count; i++)
		if (view->holds[i].keeper > 0)
			kill(view->holds[i].keeper, SIGURG);
	return result;
}
