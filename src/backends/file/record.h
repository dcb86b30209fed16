/* SPDX-License-Identifier: MIT */
/*
 * The content of a lock file: records of FILE_RECORD_SIZE bytes, one for each hold, each a line
 *
 *	fence 00001795232382921432 hold <id> <mode> <pid> <space> <holder record>
 *
 * that is padded with spaces. Record 0 is for an exclusive hold, and the others are for shared
 * holds and slots. The mode is x (exclusive), s (shared) or the number of slots. The pid is that of
 * the process of dlock that holds, in the PID namespace with the number space. A record is never
 * removed: it stays after a release or a crash, with its fence. Only the locks of the kernel show
 * whether its hold is alive, see lock.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock/backend.h"
#include "lock/holder.h"

#define FILE_RECORD_SIZE 1024
/* A request for more slots is refused as a mistake. */
#define FILE_RECORDS 10000

struct file_record {
	uint64_t fence;		/* 0: not known */
	char id[ROW_ID_SIZE];	/* of row_id(); "": the record has only a fence, or nothing */
	enum hold_mode mode;	/* HOLD_ANY: not known */
	int slots;
	pid_t pid;		/* 0: not known */
	unsigned long space;	/* 0: not known */
	char text[HOLDER_TEXT_SIZE];	/* request->text */
};

/* Read the usable part of a record, which anybody may have written. False: the file ends before. */
bool file_record_read(struct file_record *record, int fd, int number);

/* Returns 0, or -1 and sets errno. */
int file_record_write(const struct file_record *record, int fd, int number);

/* The PID namespace of this process; 0: not known. */
unsigned long file_record_space(void);
