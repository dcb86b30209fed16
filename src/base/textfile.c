/* SPDX-License-Identifier: MIT */
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "memory.h"

/*
 * Reads up to size bytes of fd. Returns their number, or -1. The buffer of a FILE would keep a copy
 * of the secret that nobody wipes.
 */
static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t used = 0;
	ssize_t got;

	while (used < size) {
		got = read(fd, buf + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

static int read_fd(struct textfile *file, int fd, const char *path,
		   struct error *err)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) < 0)
		return error_set(err, ERROR_USAGE, errno, "cannot read %.250s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, 0, "cannot read %.250s: not a regular file",
				 path);
	if (st.st_size > TEXTFILE_MAX_BYTES)
		return error_set(err, ERROR_USAGE, 0, "cannot read %.250s: larger than %d bytes",
				 path, TEXTFILE_MAX_BYTES);
	file->exposed = st.st_mode & S_IROTH ||
			(st.st_mode & S_IRGRP && st.st_uid != 0);
	file->writable = st.st_mode & (S_IWGRP | S_IWOTH);
	file->owner = st.st_uid;
	file->length = (size_t)st.st_size;	/* textfile_finish() wipes as much */
	file->text = memory_new(file->length + 1, 1);
	got = read_all(fd, file->text, file->length);
	if (got < 0)
		return error_set(err, ERROR_USAGE, errno, "cannot read %.250s", path);
	file->length = (size_t)got;
	file->text[file->length] = '\0';
	if (strlen(file->text) != file->length)
		return error_set(err, ERROR_USAGE, 0,
				 "cannot read %.250s: not a text file (NUL byte)", path);
	return 0;
}

int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err)
{
	int fd, rc;

	memset(file, 0, sizeof(*file));
	/* O_NONBLOCK: otherwise the opening of a FIFO would wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* ENOTDIR: service accounts have HOME=/dev/null. */
	if (fd < 0 && optional && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (fd < 0)
		return error_set(err, ERROR_USAGE, errno, "cannot read %.250s", path);
	rc = read_fd(file, fd, path, err);
	if (rc < 0)
		textfile_finish(file);
	close(fd);
	return rc;
}

bool textfile_start(const char *path, char *buf, size_t size)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t length = read(fd, buf, size - 1);

	if (fd >= 0)
		close(fd);
	buf[length > 0 ? length : 0] = '\0';
	return length > 0;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		const ssize_t written = write(fd, text, length);

		if (written < 0 && errno != EINTR)
			return -1;
		if (written > 0) {
			text += written;
			length -= (size_t)written;
		}
	}
	return 0;
}

/* 0, or -1 with errno. Closes fd, which is the new file's. */
static int fill_and_rename(int fd, const char *new_path, const char *path, const char *text,
			   size_t length)
{
	int failure = 0;

	if (write_all(fd, text, length) || fchmod(fd, 0644))
		failure = errno;
	/* Some file systems say only here that they have no room. */
	if (close(fd) && !failure)
		failure = errno;
	if (!failure && rename(new_path, path))
		failure = errno;
	errno = failure;
	return failure ? -1 : 0;
}

int textfile_replace(const char *path, const char *text, size_t length, struct error *err)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char *new_path;
	struct stat st;
	int fd, failed;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return error_set(err, ERROR_INTERNAL, 0,
				 "it is not a regular file, and is left as it is");
	new_path = memory_format("%.*s.%s.XXXXXX", (int)(base - path), path, base);
	fd = mkostemp(new_path, O_CLOEXEC);
	failed = fd < 0 || fill_and_rename(fd, new_path, path, text, length);
	if (failed)
		error_set(err, ERROR_INTERNAL, errno, "cannot write it");
	if (failed && fd >= 0)
		unlink(new_path);
	free(new_path);
	return failed ? -1 : 0;
}

void textfile_finish(struct textfile *file)
{
	if (file->text)
		explicit_bzero(file->text, file->length);
	free(file->text);
	memset(file, 0, sizeof(*file));
}
