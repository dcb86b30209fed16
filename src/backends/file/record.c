/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lock/hold_mode.h"

/* "hold " id, mode, four numbers and the holder, with a space between them, newline */
#define LINE_SIZE (HOLDER_TEXT_SIZE + 160)
#define TEXT_MAX (1 << 20)

static bool id_is(const struct file_hold *hold, const char *token)
{
	return strlen(hold->id) == FILE_ID_SIZE - 1 &&
	       !strncmp(hold->id, token, FILE_ID_SIZE - 1);
}

static struct file_hold *add_row(struct file_record *record)
{
	record->holds = memory_resize(record->holds, record->count + 1, sizeof(*record->holds));
	return &record->holds[record->count++];
}

static void read_hold(struct file_record *record, const char *line)
{
	struct file_hold hold;
	char mode[12];
	int skip = 0;

	if (sscanf(line, "hold %16[0-9a-f] %11s %20" SCNu64 " %9d %18" SCNd64 " %19" SCNd64
		   " %n", hold.id, mode, &hold.fence, &hold.keeper, &hold.until_ms, &hold.byte,
		   &skip) != 6 || !skip || !hold.fence)
		return;
	/* Any other number is the section's byte, or no hold's. */
	if (hold.byte <= FILE_SECTION_BYTE || hold.byte == INT64_MAX)
		return;
	hold_mode_read(mode, &hold.mode, &hold.slots);
	holder_decode(&hold.holder, line + skip, strlen(line + skip));
	*add_row(record) = hold;
}

/* Not by sscanf(), which is slow to start with; this is most often the only line. */
static uint64_t read_fence(const char *line)
{
	static const char word[] = "fence ";

	return strncmp(line, word, strlen(word)) ? 0 : strtoull(line + strlen(word), NULL, 10);
}

void file_record_read(struct file_record *record, int fd)
{
	char small[2 * LINE_SIZE], *text = small, *line, *save = NULL;
	size_t room = sizeof(small);
	ssize_t length;

	*record = (struct file_record){ 0 };
	length = pread(fd, text, room - 1, 0);
	if (length == (ssize_t)room - 1) {
		room = TEXT_MAX;
		text = memory_new(room, 1);
		length = pread(fd, text, room - 1, 0);
	}
	if (length > 0) {
		text[length] = '\0';
		record->fence = read_fence(text);
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			if (line[0] == 'h')
				read_hold(record, line);
	}
	/* There is room for a greater one, which is refused: see BACKEND_FENCE_END. */
	if (record->fence > INT64_MAX)
		record->fence = INT64_MAX;
	if (text != small)
		free(text);
}

void file_record_finish(struct file_record *record)
{
	free(record->holds);
	*record = (struct file_record){ 0 };
}

int file_record_write(const struct file_record *record, int fd)
{
	size_t room = LINE_SIZE * (record->count + 1), used;
	char holder[HOLDER_TEXT_SIZE], mode[TEXT_DIGITS_SIZE], *text = memory_new(room, 1);
	ssize_t written;
	int failed;

	used = (size_t)snprintf(text, room, "fence %020" PRIu64 "\n", record->fence);
	for (size_t i = 0; i < record->count; i++) {
		const struct file_hold *hold = &record->holds[i];

		holder_encode(&hold->holder, holder);
		used += (size_t)snprintf(text + used, room - used,
					 "hold %s %s %" PRIu64 " %d %" PRId64 " %" PRId64
					 " %s\n",
					 hold->id, hold_mode_text(hold->mode, hold->slots, mode),
					 hold->fence, (int)hold->keeper, hold->until_ms,
					 hold->byte, holder);
	}
	/* Cut afterwards, so that a crash in between leaves all lines, and old ones behind. */
	written = pwrite(fd, text, used, 0);
	if (written >= 0 && (size_t)written < used)
		errno = ENOSPC;
	failed = written != (ssize_t)used || ftruncate(fd, (off_t)used);
	free(text);
	return failed ? -1 : 0;
}

/* A clock, so that fences grow even when the file was lost, unless the clock was set back. */
static uint64_t next_fence(uint64_t last)
{
	const uint64_t clock = (uint64_t)clock_read_us(CLOCK_REALTIME);

	return clock > last ? clock : last + 1;
}

const struct file_hold *file_record_add(struct file_record *record, const struct request *request)
{
	struct file_hold *hold = add_row(record);

	record->fence = next_fence(record->fence);
	*hold = (struct file_hold){ .mode = request->mode, .slots = request->slots,
				    .fence = record->fence, .keeper = getpid(),
				    .byte = FILE_HOLD_BYTE(record->fence),
				    .holder = request->self };
	memcpy(hold->id, request->token, FILE_ID_SIZE - 1);
	return hold;
}

void file_record_restore(struct file_record *record, const struct file_hold *hold)
{
	*add_row(record) = *hold;
	if (record->fence < hold->fence)
		record->fence = hold->fence;
}

struct file_hold *file_record_find(const struct file_record *record, const char *token)
{
	for (size_t i = 0; i < record->count; i++)
		if (id_is(&record->holds[i], token))
			return &record->holds[i];
	return NULL;
}

bool file_record_adopt(struct file_record *record, const struct request *request)
{
	struct file_hold *hold = file_record_find(record, request->token);

	if (!hold || (hold->keeper == getpid() && hold->until_ms == request->until_ms))
		return false;
	hold->keeper = getpid();
	hold->until_ms = request->until_ms;
	hold->holder.kept_ms = request->self.kept_ms;
	hold->holder.min_ms = request->self.min_ms;
	return true;
}

static void remove_at(struct file_record *record, size_t at)
{
	record->count--;
	memmove(&record->holds[at], &record->holds[at + 1],
		(record->count - at) * sizeof(*record->holds));
}

bool file_record_remove(struct file_record *record, const char *token)
{
	const struct file_hold *hold = file_record_find(record, token);

	if (hold)
		remove_at(record, (size_t)(hold - record->holds));
	return hold != NULL;
}

/* True also when it cannot be found out. */
static bool byte_locked(int fd, int64_t byte)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
	};

	return fcntl(fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}

void file_record_sift(struct file_record *record, int fd, enum file_taken taken)
{
	for (size_t i = record->count; i-- > 0;) {
		const struct file_hold *hold = &record->holds[i];

		if (taken != (hold->mode == HOLD_EXCLUSIVE ? FILE_TAKEN : FILE_SHARED) ||
		    !byte_locked(fd, hold->byte))
			remove_at(record, i);
	}
}
