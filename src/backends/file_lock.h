/* SPDX-License-Identifier: MIT */
/* The parts of the file backend share this; see file.c for how it works. */
#ifndef DLOCK_FILE_LOCK_H
#define DLOCK_FILE_LOCK_H

#include "backend.h"
#include "file_record.h"

struct findings;
struct lock_view;
struct name_list;

struct file_backend {
	struct backend base;
	char *directory;
	int fd;			/* of the lock file; -1 until needed */
	int slot_fd;		/* of the slot that is held; -1: none */
};

struct file_backend *file_from_backend(struct backend *backend);

/* Opens the lock file of name, if it is not open. 0 or -1. */
int file_lock_open(struct file_backend *file, const char *name, struct error *err);

/* Closes the lock file and its slot, which gives back what is held through them alone. */
void file_lock_close(struct file_backend *file);

/*
 * Enters or leaves the section in which the record may be changed: a lock of the
 * open file description (fcntl) on a byte far behind the text.
 */
void file_lock_enter(const struct file_backend *file);
void file_lock_leave(const struct file_backend *file);

/*
 * Is the file locked by anybody? As /proc/locks says, which also shows flock(1);
 * *pid: who locked it, as far as it can be seen from here.
 */
bool file_lock_taken(const struct file_backend *file, pid_t *pid);

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
