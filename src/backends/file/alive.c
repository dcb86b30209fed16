/* SPDX-License-Identifier: MIT */
/*
 * Who holds a lock file, and who may write its record: as the kernel answers to lock
 * operations. Neither a pid nor a host name nor /proc/locks can tell that to another
 * container: a pid means something else there, host names repeat, and /proc/locks hides
 * locks whose process it cannot name.
 *
 * The locks on single bytes are fcntl()'s of open file descriptions (F_OFD_SETLK). As
 * flock() locks do, they belong to all processes that share the descriptor and end with
 * the last of them; the two kinds do not see each other on local file systems.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* Pauses between two tries to enter the section, in which its owner does one read and write. */
#define PAUSE_FIRST_NS 50000
#define PAUSE_LAST_NS 5000000

/* length 0: up to the end of all bytes. */
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

	/*
	 * Not F_OFD_SETLKW: a process that was stopped in the section must not hold up
	 * those that have deadlines to enforce.
	 */
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

int file_lock_claim(struct file_backend *file, int64_t byte)
{
	if (set_lock(file, F_WRLCK, byte, 1))
		return -1;
	file->byte = byte;
	return 0;
}

void file_lock_disclaim(struct file_backend *file)
{
	set_lock(file, F_UNLCK, FILE_SECTION_BYTE, 0);
	file->byte = 0;
}

/*
 * The locks that are tried for are in the way of others for some microseconds. Other
 * processes of dlock do not take them for holders, see lock_file() in acquire.c.
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

	/* With somebody stopped in the section, what is there can be read all the same. */
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
