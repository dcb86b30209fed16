/* SPDX-License-Identifier: MIT */
/* How fit a directory is to hold locks, and making it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "lock.h"
#include "ops.h"
#include "path.h"

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif

/* Bytes. Records need a few kB; where there is less, no lock can be taken. */
#define SPACE_LEAST 65536

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

	errno = 0;
	if (stat(file->directory, &info) && errno == ENOENT)
		return file_path_missing(file->directory, err);
	if (errno || !S_ISDIR(info.st_mode))
		return error_set(err, ERROR_UNAVAILABLE, errno ? errno : ENOTDIR, "%s",
				 file->directory);
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
	return error_set(err, ERROR_REFUSED, errno, "cannot create directory %s", file->directory);
}

/* The directory in quotes of the shell, an apostrophe in it as '\''. */
int file_plan(struct backend *backend, char **text, struct error *err)
{
	const char *directory = file_from_backend(backend)->directory;
	char *end;

	(void)err;
	/* Each byte may become four; the rest is the command. */
	*text = memory_new(4 * strlen(directory) + sizeof("mkdir -p -m 0700 ''\n"), 1);
	end = stpcpy(*text, "mkdir -p -m 0700 '");
	for (; *directory; directory++) {
		if (*directory == '\'')
			end = stpcpy(end, "'\\'");
		*end++ = *directory;
	}
	strcpy(end, "'\n");
	return 0;
}
