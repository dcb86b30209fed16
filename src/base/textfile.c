/* SPDX-License-Identifier: MIT */
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "memory.h"
#include "text.h"

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

	if (fstat(fd, &st) < 0) {
		error_set(err, ERROR_USAGE, errno, "cannot read %s", path);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		error_set(err, ERROR_USAGE, 0, "cannot read %s: not a regular file", path);
		return -1;
	}
	if (st.st_size > TEXTFILE_MAX_BYTES) {
		error_set(err, ERROR_USAGE, 0, "cannot read %s: larger than %d bytes",
			  path, TEXTFILE_MAX_BYTES);
		return -1;
	}
	file->exposed = st.st_mode & S_IROTH ||
			(st.st_mode & S_IRGRP && st.st_uid != 0);
	file->length = (size_t)st.st_size;	/* textfile_finish() wipes as much */
	file->text = memory_new(file->length + 1, 1);
	got = read_all(fd, file->text, file->length);
	if (got < 0) {
		error_set(err, ERROR_USAGE, errno, "cannot read %s", path);
		return -1;
	}
	file->length = (size_t)got;
	file->text[file->length] = '\0';
	if (strlen(file->text) != file->length) {
		error_set(err, ERROR_USAGE, 0, "cannot read %s: not a text file (NUL byte)",
			  path);
		return -1;
	}
	return 0;
}

int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err)
{
	char shown[256];
	int fd, rc;

	memset(file, 0, sizeof(*file));
	/* O_NONBLOCK: otherwise the opening of a FIFO would wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* ENOTDIR: service accounts have HOME=/dev/null. */
	if (fd < 0 && optional && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	text_clean(path, strlen(path), shown, sizeof(shown));
	if (fd < 0) {
		error_set(err, ERROR_USAGE, errno, "cannot read %s", shown);
		return -1;
	}
	rc = read_fd(file, fd, shown, err);
	if (rc < 0)
		textfile_finish(file);
	close(fd);
	return rc;
}

void textfile_finish(struct textfile *file)
{
	if (file->text)
		explicit_bzero(file->text, file->length);
	free(file->text);
	memset(file, 0, sizeof(*file));
}
