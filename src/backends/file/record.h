/* SPDX-License-Identifier: MIT */
/*
 * The content of a lock file: the last fence, and a description of each holder. Only the kernel's
 * lock makes a hold. This text does not: after a crash, it may name dead holders.
 *
 *	fence 01795232382921432
 *	hold <first half of the token> <mode> <fence> <pid> <until> <byte> <holder>
 *
 * There is a line for each hold. The mode is x (exclusive), s (shared) or the number of slots.
 * The pid is that of the process of dlock that holds the lock, and means nothing in another
 * container; the holder, which is only shown, may have another pid. The hold is alive as long as
 * the byte is locked, see lock.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock/backend.h"


#define FILE_ID_SIZE 17		/* 16 hex digits: names a hold, proves nothing */

/* A byte to lock, far behind the text: the process that has it locked may change the record. */
#define FILE_SECTION_BYTE ((int64_t)1 << 40)
/* Each hold has a byte of its own behind that one, since no other hold has its fence. */
#define FILE_HOLD_BYTE(fence) (FILE_SECTION_BYTE + 1 + (int64_t)((fence) & (INT64_MAX >> 1)))

/* How a file is locked by flock(). */
enum file_taken {
	FILE_FREE,
	FILE_SHARED,		/* by shared holds and slots */
	FILE_TAKEN,		/* by an exclusive hold */
};

struct file_hold {
	char id[FILE_ID_SIZE];
	enum hold_mode mode;
	int slots;
	uint64_t fence;
	pid_t keeper;
	int64_t until_ms;	/* wall clock: the keeper frees it then; 0: not by itself */
	int64_t byte;		/* locked as long as the hold is alive */
	struct holder holder;
};

struct file_record {
	uint64_t fence;
	struct file_hold *holds;
	size_t count;
};

/* Reads what can be used of fd; an empty or damaged file gives an empty record. */
void file_record_read(struct file_record *record, int fd);
void file_record_finish(struct file_record *record);

/* Writes the record, whole, in one call. 0, or -1 with errno. */
int file_record_write(const struct file_record *record, int fd);

/* Adds a hold under the next fence. Returns it; valid until the record is changed. */
const struct file_hold *file_record_add(struct file_record *record, const struct request *request);

/* Adds a hold that was in the record before. */
void file_record_restore(struct file_record *record, const struct file_hold *hold);

/* The hold of token, or NULL. */
struct file_hold *file_record_find(const struct file_record *record, const char *token);

/*
 * Makes this process the holder for request, and notes until when, and whether the lock is kept
 * after its release; true if that is a change.
 */
bool file_record_adopt(struct file_record *record, const struct request *request);

/* Takes out the hold of token; true if it was there. */
bool file_record_remove(struct file_record *record, const char *token);

/*
 * Takes out dead holds: those whose byte nobody has locked, and those that do not agree with
 * how the file is locked. fd must not be the descriptor of a hold, because the kernel does not
 * show a descriptor its own locks.
 */
void file_record_sift(struct file_record *record, int fd, enum file_taken taken);
