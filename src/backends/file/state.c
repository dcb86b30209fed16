/* SPDX-License-Identifier: MIT */
/* Find out who holds a lock, from the locks of the kernel and the records. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock.h"

/*
 * Try for locks, and so have them for some microseconds. Other processes of dlock do not take this
 * for a hold, because they try within the section, too.
 */
static enum file_taken probe_flock(const struct file_lock *lock)
{
	bool shared;

	if (flock(lock->fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK ? FILE_TAKEN : FILE_FREE;
	shared = flock(lock->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	flock(lock->fd, LOCK_UN);
	return shared ? FILE_SHARED : FILE_FREE;
}

static void add_hold(struct file_state *state, const struct file_record *record)
{
	state->holds = memory_resize(state->holds, (size_t)state->count + 1, sizeof(*state->holds));
	state->holds[state->count++] = *record;
}

/* A hold counts only if its record fits the way in which the file is locked. */
static void scan_record(const struct file_lock *lock, struct file_state *state, int number,
			const struct file_record *record)
{
	if (record->fence > state->fence)
		state->fence = record->fence;
	if (state->taken != (number ? FILE_SHARED : FILE_TAKEN))
		return;
	if (file_lock_alive(lock, number, 1))
		add_hold(state, record);
	else if (number && !state->free_number)
		state->free_number = number;
}

void file_lock_scan(const struct file_lock *lock, struct file_state *state)
{
	struct file_record record;
	int number = 0;

	for (; number < FILE_RECORDS && file_record_read(&record, lock->fd, number); number++)
		scan_record(lock, state, number, &record);
	if (!number)
		number = 1;
	if (!state->free_number)
		state->free_number = number;
	/* A shell may have emptied the file. Each holder writes its record when it renews. */
	if (state->taken == FILE_SHARED && file_lock_alive(lock, number, FILE_RECORDS))
		add_hold(state, &record);
}

int file_lock_inspect(const struct file_lock *lock, struct file_state *state, struct error *err)
{
	/* If somebody is stopped in the section, read without it. */
	if (file_lock_enter(lock, err) < 0)
		return -1;
	*state = (struct file_state){ .taken = probe_flock(lock) };
	file_lock_scan(lock, state);
	return 0;
}

int file_inspect(const struct file_backend *file, const char *name, struct file_state *state,
		 struct error *err)
{
	struct file_lock lock;
	int failed;

	*state = (struct file_state){ .taken = FILE_FREE };
	file_lock_init(&lock, file, name);
	failed = file_lock_open(&lock, false, err);
	if (!failed)
		failed = file_lock_inspect(&lock, state, err);
	file_lock_close(&lock);
	return failed < 0 ? -1 : 0;
}

void file_state_finish(struct file_state *state)
{
	free(state->holds);
	*state = (struct file_state){ 0 };
}

const struct file_record *file_state_find(const struct file_state *state, const char *id)
{
	for (int i = 0; i < state->count; i++)
		if (!strcmp(state->holds[i].id, id))
			return &state->holds[i];
	return NULL;
}

void file_store(struct file_backend *file, const char *text)
{
	const bool changed = text || file->own.pid != getpid();
	struct file_record last;
	struct error ignored;

	if (text)
		snprintf(file->own.text, sizeof(file->own.text), "%s", text);
	file->own.pid = getpid();
	if (file_lock_enter(&file->lock, &ignored))
		return;
	file_record_read(&last, file->lock.fd, file->number);
	if (last.fence < file->own.fence || (changed && last.fence == file->own.fence))
		file_record_write(&file->own, file->lock.fd, file->number);
	file_lock_leave(&file->lock);
}
