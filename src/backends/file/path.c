/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/private_dir.h"
#include "lock/uri.h"

#define SUFFIX ".lock"
#define ENCODED_MAX ((size_t)FILE_ENCODED_SIZE - 1)
/* "." and five digits of a slot must still fit. */
#define PLAIN_MAX (ENCODED_MAX - 9)

/* May every user make a directory in /run/lock that no other user can remove? */
static bool run_lock_is_shared(void)
{
	struct stat info;

	return !stat("/run/lock", &info) && S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) &&
	       (info.st_mode & S_IWOTH);
}

/*
 * The choice depends on the user and the host alone: his shells, cron jobs and services must all
 * agree on the directory.
 */
bool file_path_of_user(uid_t user, int number, char path[static FILE_DEFAULT_SIZE])
{
	if (number == 0 && user == 0)
		strcpy(path, "/run/dlock");
	else if (number == 0)
		snprintf(path, FILE_DEFAULT_SIZE, "/run/lock/dlock-%u", (unsigned)user);
	else
		snprintf(path, FILE_DEFAULT_SIZE, "/tmp/dlock-%u", (unsigned)user);
	return number < 2;
}

static int make_default(char path[static FILE_DEFAULT_SIZE], struct error *err)
{
	file_path_of_user(geteuid(), 0, path);
	if (geteuid() == 0 || run_lock_is_shared()) {
		if (!private_dir_make(path, err))
			return 0;
		if (!private_dir_impossible(err))
			return -1;
	}
	file_path_of_user(geteuid(), 1, path);
	return private_dir_make(path, err);
}

char *file_path_default(struct error *err)
{
	char path[FILE_DEFAULT_SIZE], why[sizeof(err->message)];

	if (!make_default(path, err))
		return memory_copy(path);
	if (err->kind == ERROR_UNAVAILABLE) {
		memcpy(why, err->message, sizeof(why));
		error_set(err, ERROR_UNAVAILABLE, 0, "%.*s; name a directory: "
			  "-b file:///PATH", (int)sizeof(why) - 40, why);
	}
	return NULL;
}

void file_path_encode(const char *name, char encoded[static FILE_ENCODED_SIZE])
{
	size_t used = 0;

	for (const char *c = name; *c && used <= PLAIN_MAX; c++) {
		if (*c == '%' || *c == '/' || (*c == '.' && c == name))
			used += (size_t)sprintf(encoded + used, "%%%02X", (unsigned)*c);
		else
			encoded[used++] = *c;
	}
	encoded[used] = '\0';
	if (used <= PLAIN_MAX)
		return;
	encoded[0] = '\001';
	strcpy(encoded + 1, name);
	for (char *c = encoded; *c; c++)
		if (*c == '/')
			*c = '\002';
}

bool file_path_decode(const char *entry, char *name, size_t size)
{
	size_t length = strlen(entry);
	ptrdiff_t decoded;

	if (length <= strlen(SUFFIX) || length - strlen(SUFFIX) >= size ||
	    strcmp(entry + length - strlen(SUFFIX), SUFFIX) != 0)
		return false;
	length -= strlen(SUFFIX);
	if (entry[0] == '\001') {
		memcpy(name, entry + 1, length - 1);
		name[length - 1] = '\0';
		for (char *c = name; *c; c++)
			if (*c == '\002')
				*c = '/';
		return true;
	}
	memcpy(name, entry, length);
	decoded = uri_decode(name, length);
	if (decoded < 0)
		return false;
	name[decoded] = '\0';
	return true;
}

static int make_path(const char *directory, const char *name, int slot, char *path,
		     size_t size)
{
	char encoded[FILE_ENCODED_SIZE];
	int length;

	file_path_encode(name, encoded);
	if (slot)
		length = snprintf(path, size, "%s/%s" SUFFIX ".%d", directory, encoded, slot);
	else
		length = snprintf(path, size, "%s/%s" SUFFIX, directory, encoded);
	return length < (int)size ? 0 : -1;
}

/* Something that stands in for a lock file is refused, before it is locked. */
static int check_file(int fd, const char *path, struct error *err)
{
	struct stat info;

	if (fstat(fd, &info))
		return error_set(err, ERROR_UNAVAILABLE, errno, "%s", path);
	if (!S_ISREG(info.st_mode))
		return error_set(err, ERROR_REFUSED, 0, "%s is not a regular file", path);
	if (info.st_nlink > 1)
		return error_set(err, ERROR_REFUSED, 0,
				 "%s has another name (hard link); remove both", path);
	return 0;
}

int file_path_missing(const char *directory, struct error *err)
{
	return error_set(err, ERROR_UNAVAILABLE, 0, "directory %.300s does not exist; 'dlock "
			 "setup' with the same --backend makes it", directory);
}

static int cannot_open(const char *directory, const char *path, struct error *err)
{
	if (errno == ENOENT)
		return file_path_missing(directory, err);
	if (errno == ELOOP)
		return error_set(err, ERROR_REFUSED, 0, "%s is a symbolic link", path);
	return error_set(err, errno == EACCES || errno == EPERM || errno == EROFS
			 ? ERROR_REFUSED : ERROR_UNAVAILABLE, errno, "cannot open %s", path);
}

int file_path_open(const char *directory, const char *name, int slot, struct error *err)
{
	/* O_NONBLOCK: a FIFO in its place must not hold us up. */
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	char path[4096];
	int fd;

	if (make_path(directory, name, slot, path, sizeof(path)))
		return error_set(err, ERROR_USAGE, ENAMETOOLONG, "%.300s", directory);
	/*
	 * Never O_CREAT on a file that is there: the kernel forbids that in sticky
	 * directories for other people's files (fs.protected_regular).
	 */
	do {
		fd = open(path, flags);
		if (fd < 0 && errno == ENOENT)
			fd = open(path, flags | O_CREAT | O_EXCL, 0666);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		return cannot_open(directory, path, err);
	if (check_file(fd, path, err)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool file_path_current(const char *directory, const char *name, int fd)
{
	struct stat ours, theirs;
	char path[4096];

	return !make_path(directory, name, 0, path, sizeof(path)) && !fstat(fd, &ours) &&
	       !lstat(path, &theirs) && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

bool file_path_exists(const char *directory, const char *name)
{
	struct stat info;
	char path[4096];

	if (make_path(directory, name, 0, path, sizeof(path)))
		return false;
	/* In a directory that this user may not enter, a lock may be held all the same. */
	return !lstat(path, &info) || errno != ENOENT;
}

void file_path_remove(const char *directory, const char *name)
{
	char path[4096];

	if (!make_path(directory, name, 0, path, sizeof(path)))
		unlink(path);
}
