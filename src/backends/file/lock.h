/* SPDX-License-Identifier: MIT */
/*
 * The lock file of one name: how it is opened, the section in which its record may be changed, and
 * who has locked it, as the kernel sees it. acquire.c, inspect.c and backend.c are built from this.
 * A process that takes the lock calls
 *
 *	file_lock_open, flock(), file_lock_enter, file_lock_claim, file_lock_leave
 *
 * and gives the lock back with flock(), file_lock_disclaim and file_lock_close. Others look with
 * file_lock_open, file_lock_look and file_lock_close.
 */
#pragma once

#include <stdbool.h>

#include "lock/backend.h"
#include "record.h"

struct file_backend {
	struct backend base;
	char *place;		/* "file:" and the directory */
	const char *directory;	/* within place */
	bool by_default;	/* the URI names no directory */
	int fd;			/* of the lock file; -1 until needed */
	int slot_fd;		/* of the slot that is held; -1: none */
	struct file_hold own;	/* this object's hold; fence 0: it has none */
};

static inline struct file_backend *file_from_backend(struct backend *backend)
{
	return (struct file_backend *)backend;
}

/* Opens the lock file of name, if it is not open. 0 or -1. */
int file_lock_open(struct file_backend *file, const char *name, struct error *err);

/* Closes the lock file and its slot, which gives back what is held through them alone. */
void file_lock_close(struct file_backend *file);

/* Is the open file still the one that has this name? False after `dlock break`. */
bool file_lock_current(const struct file_backend *file, const char *name);

/*
 * Enters or leaves the section in which the record may be changed. 0, or -1 with errno:
 * ETIMEDOUT when another process stays in it for longer than the backend's timeout.
 */
int file_lock_enter(const struct file_backend *file);
void file_lock_leave(const struct file_backend *file);

/* Says in *err why file_lock_enter() has failed just now. */
void file_lock_not_entered(const struct file_backend *file, struct error *err);

/*
 * Enters the section and reads the record: 0, or -1 with errno. After 0 the caller ends with
 * file_lock_done(), which leaves the section and frees the record. If the file was emptied while
 * this object holds, as a shell does that opens it with ">" for flock(1), the record names the hold
 * again.
 */
int file_lock_edit(const struct file_backend *file, struct file_record *record);
void file_lock_done(const struct file_backend *file, struct file_record *record);

/*
 * Makes hold this object's own. Locks the byte that shows to others that it lives, until
 * file_lock_disclaim(), which leaves the section, too, or until the last copy of the descriptor is
 * closed. 0, or -1 with errno.
 */
int file_lock_claim(struct file_backend *file, const struct file_hold *hold);
void file_lock_disclaim(struct file_backend *file);

/*
 * Reads the record without the holds that are dead, and how the file is locked. Not for a
 * descriptor that holds. The caller finishes *record. 0, or -1 with *err.
 */
int file_lock_look(const struct file_backend *file, struct file_record *record,
		   enum file_taken *taken, struct error *err);

/*
 * Calls visit for each process that has locked the file with flock(), or that waits to, as far
 * as /proc/locks shows them, in the kernel's order, until visit returns false.
 */
typedef bool file_lock_visit(void *context, const struct holder *holder, enum hold_mode mode);
void file_lock_each(const struct file_backend *file, bool waiting, file_lock_visit *visit,
		    void *context);

/* The first process that has locked the file; all of *holder is 0 when none is shown. */
void file_lock_stranger(const struct file_backend *file, struct holder *holder);
