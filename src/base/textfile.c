/* SPDX-License-Identifier: MIT */
/* Reads small files, and finds out who else can read or write them. */
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "memory.h"

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
	/* No FILE: its buffer would keep a copy of the secret. */
	got = read(fd, file->text, file->length);
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

void textfile_finish(struct textfile *file)
{
	if (file->text)
		explicit_bzero(file->text, file->length);
	free(file->text);
	memset(file, 0, sizeof(*file));
}
