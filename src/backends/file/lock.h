/* SPDX-License-Identifier: MIT */
/*
 * The lock file of one name, and the locks of the kernel on it:
 *
 *	flock()		exclusive by an exclusive hold, shared by all other ones. flock(1) sees and
 *			excludes these.
 *	a hold's byte	locked as long as the hold with this record is alive. Others can read
 *			this without a lock of their own.
 *	a section byte	locked by a process that reads or changes records, for the time of some
 *			reads and writes.
 *
 * The bytes are far behind all records. All these locks belong to one open file description, so
 * they end together: with its last descriptor, or in file_lock_free(). A process that acquires the
 * lock calls
 *
 *	file_lock_open flock() file_lock_enter file_lock_claim file_lock_leave
 *
 * and file_lock_free() in the end. Others call file_inspect() and
 * file_lock_close(), with another description, because the kernel does not show a description its
 * own locks.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lock/backend.h"
#include "path.h"

/* ---- records: record.c ---- */

/*
 * The content of a lock file: records of FILE_RECORD_SIZE bytes, one for each hold, each a line
 *
 *	fence 00001795232382921432 hold <id> <mode> <pid> 0 <holder record>
 *
 * that is padded with spaces. Record 0 is for an exclusive hold, and the others are for shared
 * holds and slots. The mode is x (exclusive), s (shared) or the number of slots. The pid is that of
 * the process of dlock that holds; instead of the 0, older programs have stored the number of its
 * PID namespace. A record is never removed: it stays after a release or a crash, with its fence.
 * Only the locks of the kernel show whether its hold is alive.
 */
#define FILE_RECORD_SIZE 1024
/* A request for more slots is refused as a mistake. */
#define FILE_RECORDS 10000

struct file_record {
	uint64_t fence;		/* 0: not known */
	char id[ROW_ID_SIZE];	/* of row_id(); "": the record has only a fence, or nothing */
	enum hold_mode mode;	/* HOLD_ANY: not known */
	int slots;
	pid_t pid;		/* 0: not known */
	char text[HOLDER_TEXT_SIZE];	/* request->text */
};

/* Read the usable part of a record, which anybody may have written. False: the file ends before. */
bool file_record_read(struct file_record *record, int fd, int number);

/* Returns 0, or -1 and sets errno. */
int file_record_write(const struct file_record *record, int fd, int number);

/* ---- objects ---- */

struct file_lock {
	const struct file_backend *file;	/* it has the directory and the timeout */
	int fd;			/* -1: not open */
	char *path;		/* between file_lock_open() and file_lock_close() */
};

struct file_backend {
	struct backend base;
	char *directory;
	struct file_lock lock;	/* open only during a hold, and while acquire() tries */
	int number;		/* of the record of this object's hold */
	struct file_record own;	/* that record; fence 0: this object holds nothing */
};

static inline struct file_backend *file_from_backend(struct backend *backend)
{
	return (struct file_backend *)backend;
}

/* ---- the file: lock.c ---- */

/* Far behind the largest file. */
#define FILE_SECTION_BYTE ((off_t)1 << 40)

/*
 * Open the file of name, and make it if it is missing and make is set. A symbolic link, anything
 * but a regular file, or a file with a second hard link is refused. Returns 0; or 1 if there is no
 * file; or -1 and sets *err. After 0 and 1 the caller calls file_lock_close().
 */
int file_lock_open(struct file_lock *lock, const char *name, bool make, struct error *err);

/*
 * Close the file, if it is open. This leaves the section, and frees locks that have no other
 * descriptor.
 */
void file_lock_close(struct file_lock *lock);

/* Report that there is no such directory, and how to make it. Returns -1. */
int file_lock_missing(const char *directory, struct error *err);

/* Does the open file still have this name? False after `dlock break`. */
bool file_lock_current(const struct file_lock *lock);

/*
 * Enter the section. Returns 0; or 1 when another process stays in it for longer than the backend's
 * timeout, because it was stopped; or -1 and sets *err.
 */
int file_lock_enter(const struct file_lock *lock, struct error *err);
void file_lock_leave(const struct file_lock *lock);

/* Lock the byte of a record. */
int file_lock_claim(const struct file_lock *lock, int number, struct error *err);

/* Free the lock for all processes that share the description, and wake those who wait for it. */
void file_lock_free(const struct file_lock *lock, enum hold_mode mode);

/* How a file is locked by flock(). */
enum file_taken {
	FILE_FREE,
	FILE_SHARED,		/* by shared holds and slots */
	FILE_TAKEN,		/* by an exclusive hold */
};

/* The state of a lock, from the kernel's locks and the records. */
struct file_state {
	enum file_taken taken;
	uint64_t fence;			/* the last one; 0: not known */
	struct file_record *holds;	/* the living holds */
	int count;
	int free_number;		/* the first record for a shared hold or slot */
};

/*
 * Read the records of a file that is locked as in state->taken; all else in *state is 0. Only
 * within the section. The caller calls file_state_finish().
 */
void file_lock_scan(const struct file_lock *lock, struct file_state *state);

/*
 * Open the file of a name as *lock, enter the section, find out how the file is locked, and scan
 * it. Without a file the lock is free. Continues without the section if a process is stopped in it.
 * After 0 the caller calls file_lock_close() and file_state_finish().
 */
int file_inspect(const struct file_backend *file, const char *name, struct file_lock *lock,
		 struct file_state *state, struct error *err);
void file_state_finish(struct file_state *state);

/* Returns the living hold with this id, or NULL. */
const struct file_record *file_state_find(const struct file_state *state, const char *id);

/*
 * Write the record of this object's hold if it has changed: text (not NULL) is a new holder record,
 * or another process keeps the hold now. Write it also to an empty file: a shell that opens it with
 * ">" for flock(1) empties it. Keep a record with a larger fence, which is of a later holder.
 * Errors are ignored, because the hold does not depend on its record.
 */
void file_store(struct file_backend *file, const char *text);

/* ---- the other functions of the table, struct backend_ops ---- */

backend_grant_fn file_acquire;		/* acquire.c */
backend_show_fn file_show;		/* show.c */
int file_setup(struct backend *backend, char **plan, struct error *err);	/* check.c */
int file_check(struct backend *backend, struct findings *findings, struct error *err);
