/* SPDX-License-Identifier: MIT */
/*
 * The content of a lock file: for people, and the last fence. What holds is the
 * kernel's lock, never this text; after a crash it may name holders that are gone.
 *
 *	fence 01795232382921432
 *	hold <first half of the token> <mode> <fence> <count> <pid> <until> <holder>
 *
 * A line for each hold. The mode is x (exclusive), s (shared) or the number of slots;
 * the pid that of the process of dlock that holds it, which is not always the one to
 * show.
 */
#ifndef DLOCK_FILE_RECORD_H
#define DLOCK_FILE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend.h"

struct error;

#define FILE_ID_SIZE 17		/* 16 hex digits: names a hold, proves nothing */

struct file_hold {
	char id[FILE_ID_SIZE];
	enum hold_mode mode;
	int slots;
	uint64_t fence;
	int count;		/* how often it was acquired */
	pid_t keeper;
	int64_t until_ms;	/* wall clock: the keeper frees it then; 0: not by itself */
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

/* Adds a hold under the next fence, which it returns; 0: out of memory. */
uint64_t file_record_add(struct file_record *record, const struct request *request);

/* The hold of token, or NULL. */
const struct file_hold *file_record_find(const struct file_record *record,
					 const char *token);

/* Notes that this process holds for request now, and until when; true if that was news. */
bool file_record_adopt(struct file_record *record, const struct request *request);

/*
 * Counts the hold of token up or down, not below 1. Returns its fence; 0 when it is
 * not there or would be counted to nothing.
 */
uint64_t file_record_count(struct file_record *record, const char *token, int by);

/* Takes out the hold of token; true if it was there. */
bool file_record_remove(struct file_record *record, const char *token);

/* Takes out exclusive holds, for who has a shared lock: there can be none. */
void file_record_drop_exclusive(struct file_record *record);

/* Takes out holds of processes of this host that are gone. */
void file_record_drop_dead(struct file_record *record, const char *host);

#endif
