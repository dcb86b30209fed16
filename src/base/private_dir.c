/* SPDX-License-Identifier: MIT */
/* Makes private directories, and refuses those of other users. */
#include "private_dir.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

int private_dir_make(const char *path, struct error *err)
{
	struct stat info;

	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(err, ERROR_UNAVAILABLE, errno, "cannot create directory %s", path);
	if (lstat(path, &info))
		return error_set(err, ERROR_UNAVAILABLE, errno, "%s", path);
	if (!S_ISDIR(info.st_mode))
		return error_set(err, ERROR_REFUSED, 0,
				 "%s is not a directory; somebody else may have made it: remove it",
				 path);
	if (info.st_uid != geteuid() || (info.st_mode & 077))
		return error_set(err, ERROR_REFUSED, 0,
				 "%s is not private: want owner uid %u and mode 0700", path,
				 (unsigned)geteuid());
	return 0;
}

bool private_dir_impossible(const struct error *err)
{
	if (err->kind != ERROR_UNAVAILABLE)
		return false;
	return err->errnum == ENOENT || err->errnum == ENOTDIR || err->errnum == EROFS ||
	       err->errnum == EACCES || err->errnum == EPERM;
}
