/* SPDX-License-Identifier: MIT */
/* Reading and writing records: lock.h has their format. */
#include "lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/hold.h"

_Static_assert(ROW_ID_SIZE == 65 && HOLDER_TEXT_SIZE == 868, "the widths in file_record_read()");
_Static_assert(sizeof("fence 12345678901234567890 hold  x 1234567890 0 ") +
	       HOLDER_TEXT_SIZE + ROW_ID_SIZE + TEXT_DIGITS_SIZE < FILE_RECORD_SIZE,
	       "FILE_RECORD_SIZE");

bool file_record_read(struct file_record *record, int fd, int number)
{
	char line[FILE_RECORD_SIZE + 1], mode[12];
	const ssize_t length = pread(fd, line, FILE_RECORD_SIZE, (off_t)number * FILE_RECORD_SIZE);

	*record = (struct file_record){ .mode = HOLD_ANY };
	if (length <= 0)
		return false;
	line[length] = '\0';
	if (sscanf(line, "fence %20" SCNu64 " hold %64[0-9a-f] %11s %9d %*u %867s",
		   &record->fence, record->id, mode, &record->pid, record->text) >= 4)
		hold_mode_read(mode, &record->mode, &record->slots);
	else
		record->id[0] = '\0';
	/* There is room for a greater fence, which is refused: see BACKEND_FENCE_END. */
	if (record->fence > INT64_MAX)
		record->fence = INT64_MAX;
	return true;
}

int file_record_write(const struct file_record *record, int fd, int number)
{
	char line[FILE_RECORD_SIZE], mode[TEXT_DIGITS_SIZE];
	ssize_t written;
	int used;

	used = snprintf(line, sizeof(line), "fence %020" PRIu64, record->fence);
	if (record->id[0])
		used += snprintf(line + used, sizeof(line) - (size_t)used, " hold %s %s %d 0 %s",
				 record->id, hold_mode_text(record->mode, record->slots, mode),
				 (int)record->pid, record->text);
	memset(line + used, ' ', sizeof(line) - (size_t)used);
	line[sizeof(line) - 1] = '\n';
	written = pwrite(fd, line, FILE_RECORD_SIZE, (off_t)number * FILE_RECORD_SIZE);
	if (written >= 0 && written < FILE_RECORD_SIZE)
		errno = ENOSPC;
	return written == FILE_RECORD_SIZE ? 0 : -1;
}
