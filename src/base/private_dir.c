/* SPDX-License-Identifier: MIT */
#include "private_dir.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

int private_dir_make(const char *path, struct error *err)
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
			  "%s is not a directory; somebody else may have made it: remove it",
			  path);
		return -1;
	}
	if (info.st_uid != geteuid() || (info.st_mode & 077)) {
		error_set(err, ERROR_REFUSED, 0,
			  "%s is not private: want owner uid %u and mode 0700", path,
			  (unsigned)geteuid());
		return -1;
	}
	return 0;
}

bool private_dir_impossible(const struct error *err)
{
	if (err->kind != ERROR_UNAVAILABLE)
		return false;
	return err->errnum == ENOENT || err->errnum == ENOTDIR || err->errnum == EROFS ||
	       err->errnum == EACCES || err->errnum == EPERM;
}
