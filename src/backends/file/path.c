/* SPDX-License-Identifier: MIT */
/* The default directories, and the names of lock files. */
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"

#define SUFFIX ".lock"
/* A file name has at most 255 bytes. */
#define ENCODED_MAX (255 - (ptrdiff_t)strlen(SUFFIX))

/* May every user make a directory in /run/lock that no other user can remove? */
static bool run_lock_is_shared(void)
{
	struct stat info;

	return !stat("/run/lock", &info) && S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) &&
	       (info.st_mode & S_IWOTH);
}

/*
 * Depends only on the user and the host, because shells, cron jobs and services must agree on the
 * directory.
 */
bool file_path_of_user(uid_t user, int number, char path[static FILE_DEFAULT_SIZE])
{
	if (number == 0 && user == 0)
		strcpy(path, "/run/dlock");
	else
		snprintf(path, FILE_DEFAULT_SIZE, "%s/dlock-%u", number ? "/tmp" : "/run/lock",
			 (unsigned)user);
	return number < 2;
}

/* Could this user make the directory? Sets errno if not. */
static bool is_makeable(const char *path)
{
	char parent[FILE_DEFAULT_SIZE];

	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
	return !faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS);
}

/*
 * Check a directory; if it is missing, make it with mode 0700, or without make find out whether it
 * can be made. Refuses a path that is not a directory, such as a symbolic link, that belongs to
 * another user, or that other users can enter. 0, or -1 with *err.
 */
static int check_private(const char *path, bool make, struct error *err)
{
	struct stat info;
	const bool missing = lstat(path, &info) && errno == ENOENT;

	if (missing && !make && is_makeable(path))
		return 0;
	if (missing && (!make || (mkdir(path, 0700) && errno != EEXIST)))
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

/*
 * After check_private() has failed: would it fail in every other process, so that all of them use
 * another directory? Not if it has refused the path, or if there was no space, because the next
 * process may find some.
 */
static bool is_impossible(const struct error *err)
{
	if (err->kind != ERROR_UNAVAILABLE)
		return false;
	return err->errnum == ENOENT || err->errnum == ENOTDIR || err->errnum == EROFS ||
	       err->errnum == EACCES || err->errnum == EPERM;
}

char *file_path_default(bool make, struct error *err)
{
	static char path[FILE_DEFAULT_SIZE];
	int number = geteuid() == 0 || run_lock_is_shared() ? 0 : 1;
	struct error why;

	do {
		file_path_of_user(geteuid(), number, path);
		if (!check_private(path, make, &why))
			return path;
	} while (!number++ && is_impossible(&why));
	*err = why;
	if (why.kind == ERROR_UNAVAILABLE)
		error_set(err, ERROR_UNAVAILABLE, 0, "%.440s; name a directory: -b file:///PATH",
			  why.message);
	path[0] = '\0';
	return path;
}

/* Write the file name of a lock without the suffix. Returns its end. */
static char *encode_name(const char *name, char *encoded)
{
	char *to = encoded;

	for (const char *c = name; *c && to - encoded <= ENCODED_MAX; c++) {
		if (*c == '%' || *c == '/' || (*c == '.' && c == name))
			to += sprintf(to, "%%%02X", (unsigned)*c);
		else
			*to++ = *c;
	}
	if (to - encoded <= ENCODED_MAX)
		return to;
	*encoded = '\001';
	to = stpcpy(encoded + 1, name);
	for (char *c = encoded; c < to; c++)
		if (*c == '/')
			*c = '\002';
	return to;
}

char *file_path_make(const char *directory, const char *name)
{
	char *path = memory_new(1, strlen(directory) + FILE_NAME_SIZE);

	strcpy(encode_name(name, stpcpy(stpcpy(path, directory), "/")), SUFFIX);
	return path;
}

bool file_path_decode(const char *entry, char *name, size_t size)
{
	const size_t length = strlen(entry), suffix = strlen(SUFFIX);

	if (length <= suffix || length - suffix >= size ||
	    strcmp(entry + length - suffix, SUFFIX) != 0)
		return false;
	snprintf(name, size, "%.*s", (int)(length - suffix), entry);
	if (*name != '\001') {
		const ptrdiff_t decoded = uri_decode(name, length - suffix);

		if (decoded >= 0)
			name[decoded] = '\0';
		return decoded >= 0;
	}
	memmove(name, name + 1, length - suffix);
	for (char *c = name; *c; c++)
		if (*c == '\002')
			*c = '/';
	return true;
}
