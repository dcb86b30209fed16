/* SPDX-License-Identifier: MIT */
/*
 * Open the lock file, lock it, and find its holders. Only the kernel's locks show other containers
 * which hold is alive: a pid has another meaning there, host names repeat, and /proc/locks hides
 * locks of processes that it cannot name.
 *
 * Single bytes are locked with F_OFD_SETLK. Like flock(), this locks for all processes that share
 * the open file description. The two kinds do not see each other on local file systems.
 */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

/* The bytes are far behind the largest file. */
_Static_assert(sizeof(off_t) >= sizeof(int64_t), "needs -D_FILE_OFFSET_BITS=64");
#define RECORD_BYTE(number) (FILE_SECTION_BYTE + 1 + (number))

/* O_NONBLOCK: a FIFO must not block us. */
#define OPEN_FLAGS (O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

/* Pauses between two tries to enter the section, whose owner does some reads and a write. */
#define PAUSE_FIRST_US 50
#define PAUSE_LAST_US 5000

/* Refuse a file that is no lock file, before it is locked. */
static int check_file(const struct file_lock *lock, struct error *err)
{
	struct stat info;

	if (fstat(lock->fd, &info))
		return error_set(err, ERROR_UNAVAILABLE, errno, "%s", lock->path);
	if (!S_ISREG(info.st_mode))
		return error_set(err, ERROR_REFUSED, 0, "%s is not a regular file", lock->path);
	if (info.st_nlink > 1)
		return error_set(err, ERROR_REFUSED, 0,
				 "%s has another name (hard link); remove both", lock->path);
	return 0;
}

int file_lock_missing(const char *directory, struct error *err)
{
	return error_set(err, ERROR_UNAVAILABLE, 0, "directory %.300s does not exist; 'dlock "
			 "setup' with the same --backend makes it", directory);
}

static int cannot_open(const struct file_lock *lock, struct error *err)
{
	const bool refused = errno == EACCES || errno == EPERM || errno == EROFS ||
			     errno == EISDIR || errno == ENXIO;

	if (errno == ENOENT)
		return file_lock_missing(lock->file->directory, err);
	if (errno == ELOOP)
		return error_set(err, ERROR_REFUSED, 0, "%s is a symbolic link", lock->path);
	return error_set(err, refused ? ERROR_REFUSED : ERROR_UNAVAILABLE, errno,
			 errno == EACCES ? "cannot open %s; see SEVERAL USERS in dlock-file(7)"
					 : "cannot open %s", lock->path);
}

/*
 * Make the file, and a missing default directory. In a directory with the setgid bit, the group may
 * do with the file what it may do there, whatever the umask is. Root's file gets the directory's
 * owner. Returns its descriptor, or -1 with errno, and with *err if the directory cannot be made.
 */
static int make_file(const struct file_lock *lock, struct error *err)
{
	const char *directory = lock->file->directory;
	struct error ignored;
	struct stat info;
	int fd;

	if (stat(directory, &info) && (strcmp(directory, file_path_default(false, &ignored)) != 0 ||
				       !*file_path_default(true, err) || stat(directory, &info))) {
		errno = ENOENT;
		return -1;
	}
	fd = open(lock->path, OPEN_FLAGS | O_CREAT | O_EXCL, 0666);
	if (fd >= 0 && (((info.st_mode & S_ISGID) && fchmod(fd, info.st_mode & 0666)) ||
			(!geteuid() && fchown(fd, info.st_uid, (gid_t)-1))))
		return fd;	/* it stays as it is */
	return fd;
}

int file_lock_open(struct file_lock *lock, const char *name, bool make, struct error *err)
{
	int failed;

	*err = (struct error){ 0 };
	lock->path = file_path_make(lock->file->directory, name);
	/*
	 * Never O_CREAT on an existing file: in sticky directories the kernel forbids this for
	 * files of other users (fs.protected_regular).
	 */
	do {
		lock->fd = open(lock->path, OPEN_FLAGS);
		if (lock->fd < 0 && errno == ENOENT && make)
			lock->fd = make_file(lock, err);
	} while (lock->fd < 0 && errno == EEXIST);
	if (lock->fd < 0 && errno == ENOENT && !make)
		return 1;
	if (lock->fd < 0)
		failed = err->kind ? -1 : cannot_open(lock, err);
	else
		failed = check_file(lock, err);
	if (failed)
		file_lock_close(lock);
	return failed;
}

void file_lock_close(struct file_lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
	free(lock->path);
	lock->path = NULL;
}

bool file_lock_current(const struct file_lock *lock)
{
	struct stat ours, theirs;

	return !fstat(lock->fd, &ours) && !lstat(lock->path, &theirs) &&
	       ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

/* ---- bytes ---- */

/* Lock or unlock bytes. A length of 0 means all from start on. */
static int set_lock(int fd, short type, off_t start, off_t length)
{
	struct flock range = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length
	};

	return fcntl(fd, F_OFD_SETLK, &range);
}

static int report_refused(const struct file_lock *lock, struct error *err)
{
	return error_set(err, ERROR_UNAVAILABLE, errno, "the file system of %s, or a sandbox, "
			 "refuses locks of open file descriptions (F_OFD_SETLK)", lock->path);
}

int file_lock_enter(const struct file_lock *lock, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + lock->file->base.timeout_ms;
	useconds_t pause_us = PAUSE_FIRST_US;

	while (set_lock(lock->fd, F_WRLCK, FILE_SECTION_BYTE, 1)) {
		if (errno != EAGAIN && errno != EACCES)
			return report_refused(lock, err);
		if (clock_boot_ms() >= until_ms)
			return 1;
		usleep(pause_us);
		if (pause_us < PAUSE_LAST_US)
			pause_us *= 2;
	}
	return 0;
}

void file_lock_leave(const struct file_lock *lock)
{
	set_lock(lock->fd, F_UNLCK, FILE_SECTION_BYTE, 1);
}

/*
 * Lock the byte of record 0 for reading, because two holds may have it for a moment: the guard of a
 * run frees only flock(), and its supervisor frees the byte later.
 */
int file_lock_claim(const struct file_lock *lock, int number, struct error *err)
{
	if (!set_lock(lock->fd, number ? F_WRLCK : F_RDLCK, RECORD_BYTE(number), 1))
		return 0;
	return report_refused(lock, err);
}

/* Has a process locked one of these bytes? True also after an error. */
static bool is_locked(const struct file_lock *lock, off_t start, off_t length)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length
	};

	return fcntl(lock->fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}

void file_lock_free(const struct file_lock *lock, enum hold_mode mode)
{
	set_lock(lock->fd, F_UNLCK, FILE_SECTION_BYTE, 0);
	/* Unlock, because a guard that was forked during the hold has a copy of the descriptor. */
	flock(lock->fd, LOCK_UN);
	/* Waiters that cannot sleep in flock() watch the file: watch_file() in acquire.c. */
	if (mode != HOLD_EXCLUSIVE)
		futimens(lock->fd, NULL);
}

/* ---- holders ---- */

/*
 * Find out how the file is locked by locking it for some microseconds. Other processes of dlock do
 * not mistake this for a hold, because they try within the section, too. The change from shared to
 * exclusive is one step in the kernel: it fails only because of another shared lock, since no
 * exclusive lock can have come in between.
 */
static enum file_taken probe_flock(const struct file_lock *lock)
{
	bool shared;

	if (flock(lock->fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK ? FILE_TAKEN : FILE_FREE;
	shared = flock(lock->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	flock(lock->fd, LOCK_UN);
	return shared ? FILE_SHARED : FILE_FREE;
}

static void add_hold(struct file_state *state, const struct file_record *record)
{
	state->holds = memory_resize(state->holds, (size_t)state->count + 1, sizeof(*state->holds));
	state->holds[state->count++] = *record;
}

/* Read a record. Its hold counts only if its mode fits the lock on the file. */
static void scan_record(const struct file_lock *lock, struct file_state *state, int number,
			const struct file_record *record)
{
	if (record->fence > state->fence)
		state->fence = record->fence;
	if (state->taken != (number ? FILE_SHARED : FILE_TAKEN))
		return;
	if (is_locked(lock, RECORD_BYTE(number), 1))
		add_hold(state, record);
	else if (number && !state->free_number)
		state->free_number = number;
}

void file_lock_scan(const struct file_lock *lock, struct file_state *state)
{
	struct file_record record;
	int number = 0;

	for (; number < FILE_RECORDS && file_record_read(&record, lock->fd, number); number++)
		scan_record(lock, state, number, &record);
	if (!number)
		number = 1;
	if (!state->free_number)
		state->free_number = number;
	/* A shell may have emptied the file. Each holder writes its record when it renews. */
	if (state->taken == FILE_SHARED && is_locked(lock, RECORD_BYTE(number), FILE_RECORDS))
		add_hold(state, &record);
}

int file_inspect(const struct file_backend *file, const char *name, struct file_lock *lock,
		 struct file_state *state, struct error *err)
{
	int failed;

	*state = (struct file_state){ .taken = FILE_FREE };
	*lock = (struct file_lock){ .file = file, .fd = -1 };
	failed = file_lock_open(lock, name, false, err);
	if (failed)
		return failed < 0 ? -1 : 0;
	/* If a process is stopped in the section, read without it. */
	if (file_lock_enter(lock, err) < 0) {
		file_lock_close(lock);
		return -1;
	}
	state->taken = probe_flock(lock);
	file_lock_scan(lock, state);
	return 0;
}

void file_state_finish(struct file_state *state)
{
	free(state->holds);
	*state = (struct file_state){ 0 };
}

const struct file_record *file_state_find(const struct file_state *state, const char *id)
{
	for (int i = 0; i < state->count; i++)
		if (!strcmp(state->holds[i].id, id))
			return &state->holds[i];
	return NULL;
}

void file_store(struct file_backend *file, const char *text)
{
	const bool changed = text || file->own.pid != getpid();
	struct file_record last;
	struct error ignored;

	if (text)
		snprintf(file->own.text, sizeof(file->own.text), "%s", text);
	file->own.pid = getpid();
	if (file_lock_enter(&file->lock, &ignored))
		return;
	file_record_read(&last, file->lock.fd, file->number);
	if (last.fence < file->own.fence || (changed && last.fence == file->own.fence))
		file_record_write(&file->own, file->lock.fd, file->number);
	file_lock_leave(&file->lock);
}
