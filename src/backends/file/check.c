/* SPDX-License-Identifier: MIT */
/* `dlock check` and `dlock setup` for a directory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/findings.h"
#include "lock.h"

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

int file_check(struct backend *backend, struct findings *findings, struct error *err)
{
	const char *directory = file_from_backend(backend)->directory;
	const char *network = network_of(directory);
	struct stat info;
	char mode[TEXT_DIGITS_SIZE];

	(void)err;
	/* The lock that is tried next fails with the reason. */
	if (stat(directory, &info))
		return 0;
	snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777U);

	const struct finding_rule rules[] = {
		{ "filesystem", network, FINDING_WARNING, network,
		  ": locks may hold on this host only, or be lost unseen", "",
		  "put the directory on a local file system, or use a server" },
		{ "filesystem", true, FINDING_OK, "local: excludes processes of this host only", "",
		  "", NULL },
		{ "permissions", (info.st_mode & 022) && !(info.st_mode & S_ISVTX), FINDING_WARNING,
		  "mode ", mode, ": others can remove lock files",
		  "chmod 700 it, or chmod +t it when it must be shared" },
		{ "permissions", true, FINDING_OK, "mode ", mode, "", NULL },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
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
