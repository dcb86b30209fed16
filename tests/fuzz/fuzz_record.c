/* SPDX-License-Identifier: MIT */
/* The content of a lock file in a directory where others may write. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "backends/file/path.h"
#include "backends/file/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct request request = { .name = "n", .mode = HOLD_SLOT, .slots = 3,
					 .token = "0123456789abcdef0123456789abcdef",
					 .self = { .host = "h", .pid = 1 } };
	char *entry = fuzz_text(data, size), name[256];
	struct file_record record, again;
	int fd = memfd_create("record", 0);
	uint64_t last, fence;

	INVARIANT(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	file_record_read(&record, fd);
	last = record.fence;
	INVARIANT(last <= INT64_MAX);
	fence = file_record_add(&record, &request)->fence;
	INVARIANT(fence > last);
	INVARIANT(!file_record_write(&record, fd));
	file_record_read(&again, fd);
	/* The caller refuses the hold: backend_grant(). */
	if (fence >= BACKEND_FENCE_END)
		goto out;
	INVARIANT(again.fence == fence && again.count == record.count);
	INVARIANT(file_record_find(&again, request.token));
	INVARIANT(again.holds[again.count - 1].byte == FILE_HOLD_BYTE(fence));
	INVARIANT(file_record_remove(&again, request.token));
	/* Nobody has locked any byte. */
	file_record_sift(&again, fd, FILE_SHARED);
	INVARIANT(!again.count);
out:
	file_record_finish(&again);
	file_record_finish(&record);
	close(fd);
	if (file_path_decode(entry, name, sizeof(name)))
		INVARIANT(strlen(name) < sizeof(name));
	free(entry);
	return 0;
}
