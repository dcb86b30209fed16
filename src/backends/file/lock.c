/* SPDX-License-Identifier: MIT */
/*
 * The kernel's locks tell which process holds a lock file, and which may write its record. Neither
 * a pid nor a host name nor /proc/locks can tell that to another container: a pid means something
 * else there, host names repeat, and /proc/locks hides locks whose process it cannot name.
 *
 * The locks on single bytes are fcntl()'s of open file descriptions (F_OFD_SETLK). Like
 * flock() locks, they belong to all processes that share the descriptor and end with
 * the last of them. The two kinds do not see each other on local file systems.
 */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/procstat.h"
#include "path.h"

/* The bytes that stand for holds are far behind all that a file may contain. */
_Static_assert(sizeof(off_t) >= sizeof(int64_t), "needs -D_FILE_OFFSET_BITS=64");

/* Pauses between two tries to enter the section, in which its owner does one read and write. */
#define PAUSE_FIRST_NS 50000
#define PAUSE_LAST_NS 5000000

int file_lock_open(struct file_backend *file, const char *name, struct error *err)
{
	if (file->fd < 0)
		file->fd = file_path_open(file->directory, name, 0, err);
	return file->fd < 0 ? -1 : 0;
}

void file_lock_close(struct file_backend *file)
{
	if (file->slot_fd >= 0)
		close(file->slot_fd);
	if (file->fd >= 0)
		close(file->fd);
	file->slot_fd = -1;
	file->fd = -1;
	file->own.fence = 0;
}

bool file_lock_current(const struct file_backend *file, const char *name)
{
	return file->fd >= 0 && file_path_current(file->directory, name, file->fd);
}

/* ---- the record ---- */

/* A length of 0 means all bytes from start on. */
static int set_lock(const struct file_backend *file, short type, off_t start, off_t length)
{
	struct flock range = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length
	};

	return fcntl(file->fd, F_OFD_SETLK, &range);
}

int file_lock_enter(const struct file_backend *file)
{
	struct timespec pause = { .tv_nsec = PAUSE_FIRST_NS };
	int64_t until_ms = 0;

	while (set_lock(file, F_WRLCK, FILE_SECTION_BYTE, 1)) {
		if (errno != EAGAIN && errno != EACCES)
			return -1;
		if (!until_ms)
			until_ms = clock_boot_ms() + file->base.timeout_ms;
		if (clock_boot_ms() >= until_ms) {
			errno = ETIMEDOUT;
			return -1;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < PAUSE_LAST_NS)
			pause.tv_nsec *= 2;
	}
	return 0;
}

void file_lock_leave(const struct file_backend *file)
{
	set_lock(file, F_UNLCK, FILE_SECTION_BYTE, 1);
}

void file_lock_not_entered(const struct file_backend *file, struct error *err)
{
	if (errno == ETIMEDOUT)
		error_set(err, ERROR_UNAVAILABLE, 0, "another process was stopped while it "
			  "wrote a lock file in %s", file->directory);
	else
		error_set(err, ERROR_UNAVAILABLE, errno, "the file system of %s, or a sandbox, "
			  "refuses locks of open file descriptions (F_OFD_SETLK)",
			  file->directory);
}

int file_lock_edit(const struct file_backend *file, struct file_record *record)
{
	if (file_lock_enter(file))
		return -1;
	file_record_read(record, file->fd);
	if (file->own.fence && !file_record_find(record, file->own.id)) {
		file_record_restore(record, &file->own);
		file_record_write(record, file->fd);
	}
	return 0;
}

void file_lock_done(const struct file_backend *file, struct file_record *record)
{
	file_lock_leave(file);
	file_record_finish(record);
}

int file_lock_claim(struct file_backend *file, const struct file_hold *hold)
{
	if (set_lock(file, F_WRLCK, hold->byte, 1))
		return -1;
	file->own = *hold;
	return 0;
}

void file_lock_disclaim(struct file_backend *file)
{
	set_lock(file, F_UNLCK, FILE_SECTION_BYTE, 0);
	file->own.fence = 0;
}

/*
 * Tries for locks, and so has them for some microseconds. Other processes of dlock do not take
 * this for a hold, see lock_file() in acquire.c.
 */
static enum file_taken probe(const struct file_backend *file)
{
	enum file_taken taken = FILE_FREE;

	if (flock(file->fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK ? FILE_TAKEN : FILE_FREE;
	if (flock(file->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		taken = FILE_SHARED;
	flock(file->fd, LOCK_UN);
	return taken;
}

int file_lock_look(const struct file_backend *file, struct file_record *record,
		   enum file_taken *taken, struct error *err)
{
	int failed = file_lock_enter(file);

	/* While somebody is stopped in the section, what is there can be read all the same. */
	if (failed && errno != ETIMEDOUT) {
		file_lock_not_entered(file, err);
		return -1;
	}
	file_record_read(record, file->fd);
	*taken = probe(file);
	file_record_sift(record, file->fd, *taken);
	if (!failed)
		file_lock_leave(file);
	return 0;
}

/* ---- processes that do not stand in the record ---- */

/* A line is "7: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF", with "-> " for a waiter. */
void file_lock_each(const struct file_backend *file, bool waiting, file_lock_visit *visit,
		    void *context)
{
	unsigned major_id, minor_id;
	bool go_on = true, waits;
	struct holder holder;
	unsigned long inode;
	char line[160], kind[8];
	const char *lock;
	struct stat info;
	FILE *locks;
	int pid;

	locks = fstat(file->fd, &info) ? NULL : fopen("/proc/locks", "re");
	if (!locks)
		return;
	while (go_on && fgets(line, sizeof(line), locks)) {
		lock = strstr(line, "FLOCK ");
		waits = strstr(line, "-> ") != NULL;
		if (!lock || waits != waiting ||
		    sscanf(lock, "FLOCK %*s %7s %d %x:%x:%lu", kind, &pid, &major_id, &minor_id,
			   &inode) != 5 || inode != info.st_ino)
			continue;
		/* Some file systems have another device number here than for stat(). */
		if (!waiting && makedev(major_id, minor_id) != info.st_dev)
			continue;
		holder = (struct holder){ .pid = pid };
		procstat_name(pid, holder.command, sizeof(holder.command));
		go_on = visit(context, &holder,
			      strcmp(kind, "READ") ? HOLD_EXCLUSIVE : HOLD_SHARED);
	}
	fclose(locks);
}

static bool take_first(void *context, const struct holder *holder, enum hold_mode mode)
{
	(void)mode;
	*(struct holder *)context = *holder;
	return false;
}

void file_lock_stranger(const struct file_backend *file, struct holder *holder)
{
	*holder = (struct holder){ 0 };
	file_lock_each(file, false, take_first, holder);
}
