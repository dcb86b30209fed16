/* SPDX-License-Identifier: MIT */
/* `dlock check` and `dlock setup` for a directory. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/findings.h"
#include "lock.h"

/* In bytes. Records need a few kB. */
#define SPACE_LEAST 65536

/* Returns the kind of a network file system, or NULL. */
static const char *network_of(const char *directory)
{
	struct statfs info;

	if (statfs(directory, &info))
		return NULL;
	switch ((unsigned long)info.f_type) {
	case NFS_SUPER_MAGIC:
		return "NFS";
	case SMB_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case 0xFF534D42:	/* CIFS_SUPER_MAGIC, which older headers do not have */
		return "SMB";
	case FUSE_SUPER_MAGIC:
		return "FUSE";
	default:
		return NULL;
	}
}

static void check_file_system(const char *directory, struct findings *findings)
{
	const char *network = network_of(directory);

	findings_add(findings, network ? FINDING_WARNING : FINDING_OK, "filesystem",
		     network ? "put the directory on a local file system, or use a server" : NULL,
		     "%s: %s", network ? network : "local",
		     network ? "locks may hold on this host only, or be lost unseen"
			     : "excludes processes of this host only");
}

static void check_mode(const struct stat *info, struct findings *findings)
{
	const bool open = (info->st_mode & 022) && !(info->st_mode & S_ISVTX);

	findings_add(findings, open ? FINDING_WARNING : FINDING_OK, "permissions",
		     open ? "chmod 700 it, or chmod +t it when it must be shared" : NULL,
		     "owner uid %u, mode %04o%s", (unsigned)info->st_uid, info->st_mode & 07777U,
		     open ? ": others can remove lock files" : "");
}

static void check_space(const char *directory, struct findings *findings)
{
	struct statvfs space;
	unsigned long long bytes;
	bool full;

	if (statvfs(directory, &space))
		return;
	bytes = (unsigned long long)space.f_bavail * space.f_frsize;
	full = bytes < SPACE_LEAST || (space.f_files && !space.f_favail);
	findings_add(findings, full ? FINDING_ERROR : FINDING_OK, "space",
		     full ? "free some space" : NULL, "%llu MB free%s", bytes >> 20,
		     full ? ": the file system is full, so that no lock can be taken" : "");
}

int file_check(struct backend *backend, struct findings *findings, struct error *err)
{
	const char *directory = file_from_backend(backend)->directory;
	struct stat info;
	const int failed = stat(directory, &info);

	if (failed && errno == ENOENT)
		return file_lock_missing(directory, err);
	if (failed || !S_ISDIR(info.st_mode))
		return error_set(err, ERROR_UNAVAILABLE, failed ? errno : ENOTDIR, "%s", directory);
	findings_add(findings, FINDING_OK, "directory", NULL, "%s", directory);
	check_file_system(directory, findings);
	check_mode(&info, findings);
	check_space(directory, findings);
	return 0;
}

/* Write the command, with the directory in quotes of the shell and an apostrophe as '\''. */
static char *write_plan(const char *directory)
{
	/* Each byte may become four; the rest is the command. */
	char *text = memory_new(4 * strlen(directory) + sizeof("mkdir -p -m 0700 ''\n"), 1);
	char *end = stpcpy(text, "mkdir -p -m 0700 '");

	for (; *directory; directory++) {
		if (*directory == '\'')
			end = stpcpy(end, "'\\'");
		*end++ = *directory;
	}
	strcpy(end, "'\n");
	return text;
}

int file_setup(struct backend *backend, char **plan, struct error *err)
{
	const char *directory = file_from_backend(backend)->directory;
	struct stat info;

	if (plan) {
		*plan = write_plan(directory);
		return 0;
	}
	if (!mkdir(directory, 0700) ||
	    (errno == EEXIST && !stat(directory, &info) && S_ISDIR(info.st_mode)))
		return 0;
	return error_set(err, ERROR_REFUSED, errno == EEXIST ? ENOTDIR : errno,
			 "cannot create directory %s", directory);
}
