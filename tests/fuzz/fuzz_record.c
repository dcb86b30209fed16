/* SPDX-License-Identifier: MIT */
/* The content of a lock file in a directory where others may write, and its name. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/file/lock.h"
#include "lock/hold.h"

/* What was read can be written, and is then the same. */
static void write_again(const struct file_record *record, int fd, int place)
{
	struct file_record again;

	INVARIANT(!file_record_write(record, fd, place));
	INVARIANT(file_record_read(&again, fd, place));
	INVARIANT(again.fence == record->fence && !strcmp(again.id, record->id));
	if (!record->id[0])
		return;
	INVARIANT(again.mode == record->mode && again.slots == record->slots);
	INVARIANT(again.pid == record->pid && !strcmp(again.text, record->text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *entry = fuzz_text(data, size), name[256], *path;
	struct file_record record;
	int fd = memfd_create("record", 0);
	int place = 0;

	INVARIANT(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	for (; file_record_read(&record, fd, place); place++) {
		INVARIANT(record.fence <= INT64_MAX);
		INVARIANT(hold_next_fence(record.fence) > record.fence);
		INVARIANT(strlen(record.id) < sizeof(record.id));
		INVARIANT(!record.id[0] || record.mode != HOLD_ANY);
		write_again(&record, fd, place);
	}
	INVARIANT(place == (int)((size + FILE_RECORD_SIZE - 1) / FILE_RECORD_SIZE));
	close(fd);
	if (file_path_decode(entry, name, sizeof(name))) {
		INVARIANT(strlen(name) < sizeof(name));
		path = file_path_make("/d", name);
		INVARIANT(!strncmp(path, "/d/", 3) && strlen(path) < 3 + 256 + sizeof(".lock"));
		free(path);
	}
	free(entry);
	return 0;
}
