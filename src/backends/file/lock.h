/* SPDX-License-Identifier: MIT */
/* The parts of the file backend share this; see backend.c for how it works. */
#ifndef DLOCK_FILE_LOCK_H
#define DLOCK_FILE_LOCK_H

#include "lock/backend.h"
#include "record.h"

struct findings;
struct lock_view;
struct name_list;

struct file_backend {
	struct backend base;
	char *directory;
	int fd;			/* of the lock file; -1 until needed */
	int slot_fd;		/* of the slot that is held; -1: none */
	int64_t byte;		/* of fd, locked while it holds; 0: it does not */
};

struct file_backend *file_from_backend(struct backend *backend);

/* Opens the lock file of name, if it is not open. 0 or -1. */
int file_lock_open(struct file_backend *file, const char *name, struct error *err);

/* Closes the lock file and its slot, which gives back what is held through them alone. */
void file_lock_close(struct file_backend *file);

/*
 * Enters or leaves the section in which the record may be changed. 0, or -1 with errno:
 * ETIMEDOUT when somebody stays in it for longer than the backend's timeout.
 */
int file_lock_enter(const struct file_backend *file);
void file_lock_leave(const struct file_backend *file);

/* Says in *err why file_lock_enter() has failed just now. */
void file_lock_not_entered(const struct file_backend *file, struct error *err);

/*
 * Locks the byte that shows to others that a hold lives, until file_lock_disclaim(), which
 * leaves the section, too, or until the last copy of the descriptor is closed. 0, or -1
 * with errno.
 */
int file_lock_claim(struct file_backend *file, int64_t byte);
void file_lock_disclaim(struct file_backend *file);

/*
 * Reads the record, less the holds that live no more, and how the file is locked; not for
 * a descriptor that holds. The caller finishes *record. 0, or -1 with *err.
 */
int file_lock_look(const struct file_backend *file, struct file_record *record,
		   enum file_taken *taken, struct error *err);

/*
 * A process that has locked the file with flock(), as far as /proc/locks shows it, to name
 * it to people: 0 when it shows none, which does not say that there is none.
 */
pid_t file_lock_pid(const struct file_backend *file);

/* Fills holder with what is known of a process that does not stand in the record. */
void file_lock_stranger(pid_t pid, struct holder *holder);

/* See struct backend_ops. */
enum outcome file_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err);
int file_inspect(struct backend *backend, const char *name, bool listen,
		 struct lock_view *view, struct error *err);
int file_list(struct backend *backend, struct name_list *names, struct error *err);
int file_break(struct backend *backend, const char *name, struct lock_view *view,
	       struct error *err);
int file_setup(struct backend *backend, struct error *err);
int file_plan(struct backend *backend, char **text, struct error *err);
int file_check(struct backend *backend, struct findings *findings, struct error *err);

#endif
