/* SPDX-License-Identifier: MIT */
/* What the file backend tells of its locks, and what operators do to them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/view.h"
#include "lock.h"
#include "path.h"

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif

/* A few kB for records; less is worth a warning. */
#define SPACE_LEAST 65536

pid_t file_lock_pid(const struct file_backend *file)
{
	unsigned major_id, minor_id;
	unsigned long inode;
	bool found = false;
	struct stat info;
	char line[160];
	FILE *locks;
	int pid = 0;

	if (fstat(file->fd, &info))
		return 0;
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return 0;
	/* "->" in front marks who waits; the pattern passes those over. */
	while (!found && fgets(line, sizeof(line), locks))
		found = sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major_id,
			       &minor_id, &inode) == 4 &&
			inode == info.st_ino && makedev(major_id, minor_id) == info.st_dev;
	fclose(locks);
	return found ? pid : 0;
}

void file_lock_stranger(pid_t pid, struct holder *holder)
{
	char path[40];
	FILE *comm;

	*holder = (struct holder){ .pid = pid };
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	comm = fopen(path, "re");
	if (!comm)
		return;
	if (fgets(holder->command, sizeof(holder->command), comm))
		holder->command[strcspn(holder->command, "\n")] = '\0';
	fclose(comm);
}

static void add_hold(struct lock_view *view, const struct file_hold *hold)
{
	struct hold_view *row = lock_view_add_hold(view);

	if (!row)
		return;
	row->holder = hold->holder;
	row->mode = hold->mode;
	row->slots = hold->slots;
	row->fence = hold->fence;
	row->count = hold->count;
	row->keeper = hold->keeper;
	row->age_ms = hold->holder.since_ms ? clock_wall_ms() - hold->holder.since_ms : -1;
	row->expires_ms = hold->until_ms ? hold->until_ms - clock_wall_ms() : -1;
}

/* Those who sleep in flock(), in the kernel's order; who they are, it does not know. */
static void add_waiters(const struct file_backend *file, struct lock_view *view)
{
	struct waiter_view *waiter;
	unsigned long inode = 0;
	struct stat info;
	char line[160];
	FILE *locks;
	int pid;

	if (fstat(file->fd, &info))
		return;
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return;
	while (fgets(line, sizeof(line), locks)) {
		if (sscanf(line, "%*d: -> FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) != 2 ||
		    inode != info.st_ino)
			continue;
		waiter = lock_view_add_waiter(view);
		if (!waiter)
			break;
		file_lock_stranger(pid, &waiter->holder);
		waiter->mode = strstr(line, " READ ") ? HOLD_SHARED : HOLD_EXCLUSIVE;
		waiter->waiting_ms = -1;
	}
	fclose(locks);
}

/* Fills view from the open file. 0 or -1. */
static int view_file(struct file_backend *file, struct lock_view *view, struct error *err)
{
	struct file_record record;
	enum file_taken taken;
	struct hold_view *row;

	if (file_lock_look(file, &record, &taken, err))
		return -1;
	view->fence = record.fence;
	view->held = taken != FILE_FREE;
	for (size_t i = 0; i < record.count; i++)
		add_hold(view, &record.holds[i]);
	if (view->held && !record.count) {
		row = lock_view_add_hold(view);
		if (row) {
			file_lock_stranger(file_lock_pid(file), &row->holder);
			row->age_ms = row->expires_ms = -1;
			row->count = 1;
		}
	}
	file_record_finish(&record);
	if (view->held)
		add_waiters(file, view);
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
		error_set(err, ERROR_REFUSED, errno, "%s", file->directory);
		return -1;
	}
	while (!failed && (entry = readdir(directory))) {
		if (!file_path_decode(entry->d_name, name, sizeof(name)))
			continue;
		/* One that cannot be opened is not ours to tell of. */
		if (!file_path_exists(file->directory, name) || file_lock_open(file, name, err))
			continue;
		failed = view_file(file, &view, err);
		file_lock_close(file);
		if (!failed && view.held)
			failed = name_list_add(names, name, strlen(name));
		lock_view_finish(&view);
	}
	closedir(directory);
	name_list_sort(names);
	return failed;
}

/*
 * The kernel gives a lock back only when its holder does. So the name gets another
 * file, with the last fence: who comes now locks that one, and the holder finds its
 * own replaced when it looks: at once when it gets SIGURG, which hurts nobody else, should
 * the pid be that of somebody else in this container.
 */
int file_break(struct backend *backend, const char *name, struct lock_view *view,
	       struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	char encoded[FILE_ENCODED_SIZE], path[4096], fresh[4200];
	struct file_record record = { 0 };
	struct timespec now;
	int fd;

	if (file_inspect(backend, name, false, view, err))
		return -1;
	if (!view->held)
		return 0;
	file_path_encode(name, encoded);
	snprintf(path, sizeof(path), "%s/%s.lock", file->directory, encoded);
	/* The time, for in another container somebody may have the same pid. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	snprintf(fresh, sizeof(fresh), "%s/.new-%d-%lld%09ld", file->directory, (int)getpid(),
		 (long long)now.tv_sec, now.tv_nsec);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	record.fence = view->fence;
	if (fd >= 0 && !file_record_write(&record, fd) && !rename(fresh, path)) {
		close(fd);
		for (size_t i = 0; i < view->hold_count; i++)
			if (view->holds[i].keeper > 0)
				kill(view->holds[i].keeper, SIGURG);
		return 0;
	}
	error_set(err, ERROR_REFUSED, errno, "cannot replace %s", path);
	if (fd >= 0) {
		close(fd);
		unlink(fresh);
	}
	return -1;
}

/* ---- check ---- */

static void check_file_system(const char *directory, struct findings *findings)
{
	struct statfs info;
	const char *network = NULL;

	if (statfs(directory, &info))
		return;
	switch ((unsigned long)info.f_type) {
	case NFS_SUPER_MAGIC:
		network = "NFS";
		break;
	case CIFS_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
		network = "SMB";
		break;
	case FUSE_SUPER_MAGIC:
		network = "FUSE";
		break;
	default:
		break;
	}
	if (network)
		findings_add(findings, FINDING_WARNING, "filesystem",
			     "put the directory on a local file system, or use a server",
			     "%s: locks may hold on this host only, or be lost unseen", network);
	else
		findings_add(findings, FINDING_OK, "filesystem", NULL,
			     "local: excludes processes of this host only");
}

static void check_directory(const char *directory, struct findings *findings)
{
	struct statvfs space;
	struct stat info;

	if (stat(directory, &info))
		return;
	if ((info.st_mode & 022) && !(info.st_mode & S_ISVTX))
		findings_add(findings, FINDING_WARNING, "permissions",
			     "chmod 700 it, or chmod +t it when it must be shared",
			     "mode %04o: others can remove lock files", info.st_mode & 07777U);
	else
		findings_add(findings, FINDING_OK, "permissions", NULL,
			     "owner uid %u, mode %04o", (unsigned)info.st_uid,
			     info.st_mode & 07777U);
	if (statvfs(directory, &space))
		return;
	if (space.f_bavail * space.f_frsize < SPACE_LEAST || (space.f_files && !space.f_favail))
		findings_add(findings, FINDING_ERROR, "space", "free some space",
			     "the file system is full: no lock can be taken");
	else
		findings_add(findings, FINDING_OK, "space", NULL, "%llu MB free",
			     (unsigned long long)(space.f_bavail * space.f_frsize >> 20));
}

int file_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	struct stat info;

	if (stat(file->directory, &info) || !S_ISDIR(info.st_mode)) {
		error_set(err, ERROR_UNAVAILABLE, errno ? errno : ENOTDIR, "%s",
			  file->directory);
		return -1;
	}
	findings_add(findings, FINDING_OK, "directory", NULL, "%s", file->directory);
	check_file_system(file->directory, findings);
	check_directory(file->directory, findings);
	return 0;
}

int file_setup(struct backend *backend, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	struct stat info;

	if (!mkdir(file->directory, 0700))
		return 0;
	if (errno == EEXIST && !stat(file->directory, &info)) {
		if (S_ISDIR(info.st_mode))
			return 0;
		errno = ENOTDIR;
	}
	error_set(err, ERROR_REFUSED, errno, "cannot create directory %s", file->directory);
	return -1;
}

/* The directory in quotes of the shell, an apostrophe in it as '\''. */
int file_plan(struct backend *backend, char **text, struct error *err)
{
	const char *directory = file_from_backend(backend)->directory;
	char *end;

	*text = malloc(4 * strlen(directory) + 32);
	if (!*text) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	end = stpcpy(*text, "mkdir -p -m 0700 '");
	for (; *directory; directory++) {
		if (*directory == '\'')
			end = stpcpy(end, "'\\'");
		*end++ = *directory;
	}
	strcpy(end, "'\n");
	return 0;
}
