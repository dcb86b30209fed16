/* SPDX-License-Identifier: MIT */
/*
 * Locks in a directory of this host: flock(2) on DIR/NAME.lock, so that flock(1)
 * on the same file excludes dlock and the other way round. The descriptor is
 * opened before any fork and shared by dlock's processes, so that the lock
 * ends with the last of them. The file stays: its content is the last fence and,
 * while held, the holder. Removing it on release would let two processes lock two
 * files of one name.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "clock.h"
#include "error.h"
#include "uri.h"

extern const struct backend_ops file_ops;

/* "fence " 20 digits " id " 16 hex digits, then the holder, then a newline. */
#define RECORD_SIZE (HOLDER_TEXT_SIZE + 64)
#define RECORD_FORMAT "fence %020" PRIu64 " id %.16s %s\n"
#define RECORD_IDLE_FORMAT "fence %020" PRIu64 "\n"

#define ENCODED_MAX 250		/* NAME_MAX less ".lock" */

struct file_backend {
	struct backend base;
	char *directory;
	int fd;			/* of the lock file; -1 until acquire() */
};

struct record {
	uint64_t fence;
	char id[17];		/* first half of the token: names the hold, proves nothing */
	struct holder holder;
};

static struct file_backend *file_from_backend(struct backend *backend)
{
	return (struct file_backend *)backend;
}

/* ---- the directory ---- */

/*
 * A directory of our own, made when missing: what is found in a place where
 * others can write must be ours, closed to them, and no symbolic link.
 */
static int check_private_directory(const char *path, struct error *err)
{
	struct stat info;

	if (mkdir(path, 0700) && errno != EEXIST) {
		error_set(err, ERROR_UNAVAILABLE, errno, "cannot create directory %s", path);
		return -1;
	}
	if (lstat(path, &info)) {
		error_set(err, ERROR_UNAVAILABLE, errno, "%s", path);
		return -1;
	}
	if (!S_ISDIR(info.st_mode)) {
		error_set(err, ERROR_REFUSED, 0,
			  "%s is not a directory: somebody else made it; remove it, or name "
			  "another one with -b file:///DIR", path);
		return -1;
	}
	if (info.st_uid != geteuid() || (info.st_mode & 077)) {
		error_set(err, ERROR_REFUSED, 0,
			  "%s is not private (want owner uid %u and mode 0700): remove it, or "
			  "name another one with -b file:///DIR", path, (unsigned)geteuid());
		return -1;
	}
	return 0;
}

static char *default_directory(struct error *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char path[512];

	if (geteuid() == 0)
		snprintf(path, sizeof(path), "/run/lock/dlock");
	else if (runtime && runtime[0] == '/' && strlen(runtime) < sizeof(path) - 8)
		snprintf(path, sizeof(path), "%s/dlock", runtime);
	else
		snprintf(path, sizeof(path), "/tmp/dlock-%u", (unsigned)geteuid());
	return check_private_directory(path, err) ? NULL : strdup(path);
}

static struct backend *file_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { "timeout", "connect-timeout", NULL };
	struct file_backend *file;
	char *directory;

	if (uri_check_params(uri, known, err))
		return NULL;
	if (uri->host_count || uri->user || uri->password) {
		error_set(err, ERROR_USAGE, 0,
			  "file: takes a directory and no host: file:///path/to/dir");
		return NULL;
	}
	directory = uri->path[0] ? strdup(uri->path) : default_directory(err);
	if (!directory)
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		free(directory);
		return NULL;
	}
	file->directory = directory;
	file->fd = -1;
	return &file->base;
}

static void file_close(struct backend *backend)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->directory);
	free(file);
}

/* ---- the file ---- */

/*
 * The file's name. '%', '/' and a leading '.' become %XX. Should that be too long
 * for a file name, control bytes, which no name holds, stand for them instead: a
 * leading \001 says so, \002 is a slash.
 */
static void encode_name(const char *name, char encoded[static ENCODED_MAX + 1])
{
	size_t used = 0;

	for (const char *c = name; *c && used <= ENCODED_MAX - 3; c++) {
		if (*c == '%' || *c == '/' || (*c == '.' && c == name))
			used += (size_t)sprintf(encoded + used, "%%%02X", (unsigned)*c);
		else
			encoded[used++] = *c;
	}
	encoded[used] = '\0';
	if (used <= ENCODED_MAX - 3)
		return;
	encoded[0] = '\001';
	strcpy(encoded + 1, name);
	for (char *c = encoded; *c; c++)
		if (*c == '/')
			*c = '\002';
}

/* Something that stands in for a lock file is refused, before it is locked. */
static int check_file(const struct file_backend *file, const char *path, struct error *err)
{
	struct stat info;

	if (fstat(file->fd, &info)) {
		error_set(err, ERROR_UNAVAILABLE, errno, "%s", path);
		return -1;
	}
	if (!S_ISREG(info.st_mode)) {
		error_set(err, ERROR_REFUSED, 0, "%s is not a regular file", path);
		return -1;
	}
	if (info.st_nlink > 1) {
		error_set(err, ERROR_REFUSED, 0,
			  "%s has another name (hard link); remove both", path);
		return -1;
	}
	return 0;
}

static int open_file(struct file_backend *file, const char *name, struct error *err)
{
	/* O_NONBLOCK: a FIFO in its place must not hold us up. */
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	char encoded[ENCODED_MAX + 1], path[4096];

	encode_name(name, encoded);
	if (snprintf(path, sizeof(path), "%s/%s.lock", file->directory, encoded) >=
	    (int)sizeof(path)) {
		error_set(err, ERROR_USAGE, ENAMETOOLONG, "%s", file->directory);
		return -1;
	}
	/*
	 * Never O_CREAT on a file that is there: the kernel forbids that in sticky
	 * directories for other people's files (fs.protected_regular).
	 */
	do {
		file->fd = open(path, flags);
		if (file->fd < 0 && errno == ENOENT)
			file->fd = open(path, flags | O_CREAT | O_EXCL, 0666);
	} while (file->fd < 0 && errno == EEXIST);
	if (file->fd < 0) {
		if (errno == ELOOP)
			error_set(err, ERROR_REFUSED, 0, "%s is a symbolic link", path);
		else
			error_set(err, errno == EACCES || errno == EPERM || errno == EROFS
				  ? ERROR_REFUSED : ERROR_UNAVAILABLE, errno,
				  "cannot open %s", path);
		return -1;
	}
	if (check_file(file, path, err)) {
		close(file->fd);
		file->fd = -1;
		return -1;
	}
	return 0;
}

/* What the file says; fence 0 when it says nothing that can be used. */
static void read_record(const struct file_backend *file, struct record *record)
{
	char text[RECORD_SIZE + 1];
	ssize_t length = pread(file->fd, text, RECORD_SIZE, 0);
	int skip = 0;

	*record = (struct record){ 0 };
	if (length <= 0)
		return;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (sscanf(text, "fence %20" SCNu64 " id %16[0-9a-f] %n",
		   &record->fence, record->id, &skip) == 2 && skip)
		holder_decode(&record->holder, text + skip, strlen(text + skip));
	/* No clock says that: damaged, and it would leave nothing to grow to. */
	if (record->fence > INT64_MAX)
		record->fence = 0;
}

/* Is the hold in the record that of token? */
static bool record_is(const struct record *record, const char *token)
{
	return strlen(record->id) == 16 && !strncmp(record->id, token, 16);
}

static int write_record(const struct file_backend *file, const char *text, struct error *err)
{
	size_t length = strlen(text);
	ssize_t written;

	/* Cut afterwards: a crash in between leaves a whole record, if a long one. */
	written = pwrite(file->fd, text, length, 0);
	if (written == (ssize_t)length && !ftruncate(file->fd, (off_t)length))
		return 0;
	error_set(err, ERROR_UNAVAILABLE, written < 0 ? errno : ENOSPC,
		  "cannot write the lock file in %s", file->directory);
	return -1;
}

/* The hybrid clock: grows even when the file was lost, unless the clock went back. */
static uint64_t next_fence(uint64_t last)
{
	struct timespec now;
	uint64_t clock;

	clock_gettime(CLOCK_REALTIME, &now);
	clock = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	return clock > last ? clock : last + 1;
}

/* ---- operations ---- */

/*
 * The holder is not dlock if the file says that nobody holds it, or names a
 * process that is gone: the kernel then knows the process that took the lock.
 */
static void find_foreign_holder(const struct file_backend *file, struct holder *holder)
{
	unsigned major_id, minor_id;
	unsigned long inode;
	struct stat info;
	char line[160];
	FILE *locks;
	int pid;

	*holder = (struct holder){ 0 };
	if (fstat(file->fd, &info))
		return;
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return;
	while (fgets(line, sizeof(line), locks)) {
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major_id,
			   &minor_id, &inode) != 4 ||
		    inode != info.st_ino || makedev(major_id, minor_id) != info.st_dev)
			continue;
		holder->pid = pid;
		snprintf(line, sizeof(line), "/proc/%d/comm", pid);
		fclose(locks);
		locks = fopen(line, "re");
		if (locks && fgets(holder->command, sizeof(holder->command), locks))
			holder->command[strcspn(holder->command, "\n")] = '\0';
		break;
	}
	if (locks)
		fclose(locks);
}

static enum outcome busy(const struct file_backend *file, const struct holder *self,
			 struct grant *grant)
{
	struct record record;
	bool gone;

	read_record(file, &record);
	grant->holder = record.holder;
	gone = !strcmp(record.holder.host, self->host) &&
	       kill((pid_t)record.holder.pid, 0) && errno == ESRCH;
	if (!record.holder.pid || gone)
		find_foreign_holder(file, &grant->holder);
	grant->age_ms = grant->holder.since_ms ? clock_wall_ms() - grant->holder.since_ms : -1;
	grant->ahead = -1;
	return OUTCOME_BUSY;
}

static enum outcome file_acquire(struct backend *backend, const struct request *request,
				 struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	char holder[HOLDER_TEXT_SIZE], text[RECORD_SIZE];
	struct holder self = request->self;
	struct record last;
	uint64_t fence;

	if (file->fd < 0 && open_file(file, request->name, err))
		return OUTCOME_ERROR;
	if (flock(file->fd, LOCK_EX | (request->queue ? 0 : LOCK_NB))) {
		if (errno == EWOULDBLOCK || errno == EINTR)
			return busy(file, &request->self, grant);
		error_set(err, ERROR_UNAVAILABLE, errno, "cannot lock in %s", file->directory);
		return OUTCOME_ERROR;
	}
	self.since_ms = clock_wall_ms();
	holder_encode(&self, holder);
	read_record(file, &last);
	fence = next_fence(last.fence);
	snprintf(text, sizeof(text), RECORD_FORMAT, fence, request->token, holder);
	if (write_record(file, text, err)) {
		flock(file->fd, LOCK_UN);
		return OUTCOME_ERROR;
	}
	grant->fence = fence;
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return OUTCOME_HELD;
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

/* For another process than the holder: it is taken, and the record has token's id. */
static enum outcome file_verify(struct backend *backend, const struct request *request,
				struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	struct record record;

	if (file->fd < 0 && open_file(file, request->name, err))
		return OUTCOME_ERROR;
	if (!flock(file->fd, LOCK_SH | LOCK_NB)) {
		flock(file->fd, LOCK_UN);
		return OUTCOME_LOST;
	}
	read_record(file, &record);
	return record_is(&record, request->token) ? OUTCOME_HELD : OUTCOME_LOST;
}

/* The kernel takes no lock away from an open descriptor. */
static enum outcome file_renew(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	struct record record;

	(void)err;
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	read_record(file, &record);
	return record_is(&record, request->token) ? OUTCOME_HELD : OUTCOME_LOST;
}

static void unlock(const struct file_backend *file, uint64_t fence)
{
	char text[RECORD_SIZE];
	struct error ignored;

	/* Should the write fail, the record is stale; the next holder writes anew. */
	snprintf(text, sizeof(text), RECORD_IDLE_FORMAT, fence);
	write_record(file, text, &ignored);
	flock(file->fd, LOCK_UN);
}

/* A process of its own keeps the lock while dlock itself returns. */
static int linger(struct file_backend *file, uint64_t fence, int64_t keep_ms,
		  struct error *err)
{
	const struct timespec rest = { keep_ms / 1000, keep_ms % 1000 * 1000000 };
	pid_t pid = fork();
	int null;

	if (pid < 0) {
		error_set(err, ERROR_INTERNAL, errno, "fork");
		return -1;
	}
	if (pid > 0)
		return 0;
	prctl(PR_SET_NAME, "dlock-min-hold");
	prctl(PR_SET_PDEATHSIG, 0);
	setsid();
	/* Everything but the lock goes: pipes of the caller above all. */
	if (dup2(file->fd, 3) == 3) {
		close_range(4, ~0U, 0);
		file->fd = 3;
	}
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (chdir("/") == 0)
		nanosleep(&rest, NULL);
	unlock(file, fence);
	_exit(0);
}

static enum outcome file_release(struct backend *backend, const struct request *request,
				 int64_t keep_ms, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	struct record record;

	if (file->fd < 0)
		return OUTCOME_LOST;
	read_record(file, &record);
	if (!record_is(&record, request->token))
		return OUTCOME_LOST;
	if (keep_ms > 0) {
		if (linger(file, record.fence, keep_ms, err))
			return OUTCOME_ERROR;
	} else {
		unlock(file, record.fence);
	}
	close(file->fd);
	file->fd = -1;
	return OUTCOME_HELD;
}

const struct backend_ops file_ops = {
	.open = file_open,
	.close = file_close,
	.acquire = file_acquire,
	.event_fd = file_event_fd,
	.event = file_event,
	.renew = file_renew,
	.verify = file_verify,
	.release = file_release,
};
