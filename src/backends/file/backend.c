/* SPDX-License-Identifier: MIT */
/*
 * Locks in a directory of this host: flock(2) on DIR/NAME.lock, so that flock(1) on the same file
 * and dlock exclude each other. The lock lives with the open file description, which dlock's
 * processes share. A release keeps the file with the last fence, because two processes could lock
 * two files of one name if it did not.
 *
 * A shared hold and a slot have a shared lock on the file, which keeps exclusive holds out. Their
 * records, and the bytes that belong to these, keep them apart (lock.h, record.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "lock.h"

static struct backend *file_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { URI_COMMON_PARAMS, NULL };
	const char *directory = uri->path;
	struct file_backend *file;

	if (uri_check_params(uri, known, err))
		return NULL;
	if (uri->host_count || uri->user || uri->password) {
		error_set(err, ERROR_USAGE, 0,
			  "file: takes a directory and no host: file:///path/to/dir");
		return NULL;
	}
	if (strlen(uri->path) > FILE_DIRECTORY_MAX) {
		error_set(err, ERROR_USAGE, ENAMETOOLONG, "%.300s", uri->path);
		return NULL;
	}
	/* backend_find() could not use the default directory. */
	if (!directory[0])
		directory = file_path_default(err);
	if (!directory[0])
		return NULL;
	file = memory_new(1, sizeof(*file));
	file->base.session = true;
	file->base.can = BACKEND_SHARED | BACKEND_SLOTS;
	file->directory = memory_copy(directory);
	file->lock.fd = -1;
	return &file->base;
}

static void file_close(struct backend *backend)
{
	struct file_backend *file = file_from_backend(backend);

	file_lock_close(&file->lock);
	free(file->directory);
	free(file);
}

static enum outcome report_replaced(const struct file_backend *file, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "its file in %s was removed or replaced",
		  file->directory);
	return OUTCOME_LOST;
}

/*
 * Check the file: the kernel takes no lock away from an open descriptor, but `dlock break` replaces
 * the file.
 */
static enum outcome file_renew(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);

	if (!file->own.fence)
		return OUTCOME_LOST;
	grant->sent_ms = clock_boot_ms();
	if (!file_lock_current(&file->lock))
		return report_replaced(file, err);
	file_store(file, request->text);
	return OUTCOME_HELD;
}

static enum outcome file_release(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	bool current;

	(void)request;
	if (!file->own.fence)
		return OUTCOME_LOST;
	current = file_lock_current(&file->lock);
	file_lock_free(&file->lock, file->own.mode);
	file_lock_close(&file->lock);
	file->own.fence = 0;
	return current ? OUTCOME_HELD : report_replaced(file, err);
}

const struct backend_ops file_ops = {
	.open = file_open,
	.close = file_close,
	.acquire = file_acquire,
	.renew = file_renew,
	.release = file_release,
	.show = file_show,
	.setup = file_setup,
	.check = file_check,
	.break_hold = file_break,
};
