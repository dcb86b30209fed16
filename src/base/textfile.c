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

/* Returns NULL, or why the file is refused. */
static const char *read_fd(struct textfile *file, int fd)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) < 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (st.st_size > TEXTFILE_MAX_BYTES)
		return "larger than 65536 bytes";
	file->exposed = st.st_mode & S_IROTH ||
			(st.st_mode & S_IRGRP && st.st_uid != 0);
	file->writable = st.st_mode & (S_IWGRP | S_IWOTH);
	file->owner = st.st_uid;
	file->length = (size_t)st.st_size;	/* textfile_finish() wipes as much */
	file->text = memory_new(file->length + 1, 1);
	/* No FILE: its buffer would keep a copy of the secret. */
	got = read(fd, file->text, file->length);
	if (got < 0)
		return strerror(errno);
	file->length = (size_t)got;
	file->text[file->length] = '\0';
	return strlen(file->text) == file->length ? NULL : "not a text file (NUL byte)";
}

int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err)
{
	const char *why;
	int fd;

	memset(file, 0, sizeof(*file));
	/* O_NONBLOCK: otherwise the opening of a FIFO would wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* ENOTDIR: service accounts have HOME=/dev/null. */
	if (fd < 0 && optional && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (fd < 0)
		return error_set(err, ERROR_USAGE, errno, "cannot read %.250s", path);
	why = read_fd(file, fd);
	close(fd);
	if (!why)
		return 0;
	textfile_finish(file);
	return error_set(err, ERROR_USAGE, 0, "cannot read %.250s: %s", path, why);
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
