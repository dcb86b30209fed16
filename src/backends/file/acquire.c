/* SPDX-License-Identifier: MIT */
/* Acquiring a lock, in each mode. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock.h"

/* How often a waiter that watches the file tries, because a killed holder does not touch it. */
#define RETRY_MS 1000

/* In this file OUTCOME_LOST means: try again, because the name belongs to another file now. */

static enum outcome lock_file(const struct file_lock *lock, int how, struct error *err)
{
	if (!flock(lock->fd, how))
		return OUTCOME_HELD;
	if (errno == EWOULDBLOCK || errno == EINTR)
		return OUTCOME_BUSY;
	error_set(err, ERROR_UNAVAILABLE, errno, "cannot lock in %s", lock->file->directory);
	return OUTCOME_ERROR;
}

/*
 * Does the request fit beside the present holds, and is a record free? flock() does not distinguish
 * shared holds from slots, or three slots from five.
 */
static enum outcome find_number(const struct request *request, const struct file_state *state,
			    struct error *err)
{
	const int most = request->mode == HOLD_SLOT ? request->slots : FILE_RECORDS - 1;

	for (int i = 0; i < state->count; i++) {
		if (state->holds[i].mode != request->mode)
			return OUTCOME_BUSY;
		if (!hold_mode_slots_agree(state->holds[i].slots, request, err))
			return OUTCOME_ERROR;
	}
	return state->free_number > most ? OUTCOME_BUSY : OUTCOME_HELD;
}

/*
 * Lock the byte, and then write the record, because each reader of the record must find it locked.
 * A crash in between leaves neither.
 */
static enum outcome add_hold(struct file_backend *file, const struct request *request,
			  const struct file_state *state, struct error *err)
{
	struct file_lock *lock = &file->lock;

	file->own = (struct file_record){ .mode = request->mode, .slots = request->slots,
					  .pid = getpid() };
	row_id(request->token, file->own.id);
	snprintf(file->own.text, sizeof(file->own.text), "%s", request->text);
	if (file_lock_claim(lock, file->number, err))
		return OUTCOME_ERROR;
	file->own.fence = hold_next_fence(state->fence);
	if (file_record_write(&file->own, lock->fd, file->number)) {
		error_set(err, ERROR_UNAVAILABLE, errno, "cannot write %s", lock->path);
		return OUTCOME_ERROR;
	}
	return OUTCOME_HELD;
}

/* Write our record into the file, which flock() has locked. */
static enum outcome take_record(struct file_backend *file, const struct request *request,
			    struct error *err)
{
	const bool alone = request->mode == HOLD_EXCLUSIVE;
	struct file_state state = { .taken = alone ? FILE_FREE : FILE_SHARED };
	enum outcome outcome = OUTCOME_HELD;

	file_lock_scan(&file->lock, &state);
	if (!alone)
		outcome = find_number(request, &state, err);
	file->number = alone ? 0 : state.free_number;
	if (outcome == OUTCOME_HELD)
		outcome = add_hold(file, request, &state, err);
	file_state_finish(&state);
	return outcome;
}

/* Try once. With request->queue, sleep until flock() gives the file, or a signal was caught. */
static enum outcome try_acquire(struct file_backend *file, const struct request *request,
			  struct error *err)
{
	const int how = request->mode == HOLD_EXCLUSIVE ? LOCK_EX : LOCK_SH;
	enum outcome outcome = OUTCOME_HELD;
	int not_entered;

	if (request->queue)
		outcome = lock_file(&file->lock, how, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	not_entered = file_lock_enter(&file->lock, err);
	/* If nobody holds the lock, it is not taken, and the backend is not down. */
	if (not_entered > 0 && lock_file(&file->lock, how | LOCK_NB, err) != OUTCOME_BUSY)
		error_set(err, ERROR_REFUSED, 0, "another process keeps byte %lld of %s locked, "
			  "which dlock locks for some microseconds: it is stopped, or means harm",
			  (long long)FILE_SECTION_BYTE, file->lock.path);
	if (not_entered)
		return not_entered > 0 ? OUTCOME_BUSY : OUTCOME_ERROR;
	/*
	 * A process that inspects the lock has it for a moment, within the section. So a try here
	 * meets real holders only.
	 */
	outcome = lock_file(&file->lock, how | LOCK_NB, err);
	if (outcome == OUTCOME_HELD)
		outcome = take_record(file, request, err);
	/*
	 * `dlock break` has given the name to another file. It does not wait for a process that is
	 * stopped in the section, which therefore checks this last.
	 */
	if (!file_lock_current(&file->lock))
		outcome = OUTCOME_LOST;
	file_lock_leave(&file->lock);
	return outcome;
}

/* Returns a descriptor that reports a release or a break; -1: there is none. */
static int watch_file(const struct file_lock *lock)
{
	const int watch = inotify_init1(IN_CLOEXEC);

	if (watch >= 0)
		inotify_add_watch(watch, lock->path, IN_ATTRIB | IN_DONT_FOLLOW);
	return watch;
}

/* Open the file and try once. A failed try leaves nothing. */
static enum outcome open_and_try(struct file_backend *file, const struct request *request,
			      struct error *err)
{
	/* Exclusive waiters sleep in flock(), which returns when a signal was caught. */
	const bool watches = request->queue && request->mode != HOLD_EXCLUSIVE;
	struct pollfd watch = { .fd = -1, .events = POLLIN };
	enum outcome outcome;

	if (file_lock_open(&file->lock, request->name, true, err))
		return OUTCOME_ERROR;
	if (watches)
		watch.fd = watch_file(&file->lock);
	outcome = try_acquire(file, request, err);
	if (outcome != OUTCOME_HELD) {
		file->own.fence = 0;
		file_lock_free(&file->lock, HOLD_EXCLUSIVE);
		file_lock_close(&file->lock);
	}
	/* Without a descriptor this only sleeps. */
	if (outcome == OUTCOME_BUSY && watches && poll(&watch, 1, RETRY_MS) >= 0)
		outcome = OUTCOME_LOST;
	if (watch.fd >= 0)
		close(watch.fd);
	return outcome;
}

enum outcome file_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	enum outcome outcome;

	if (request->slots >= FILE_RECORDS) {
		error_set(err, ERROR_USAGE, 0, "file: has room for %d slots at most",
			  FILE_RECORDS - 1);
		return OUTCOME_ERROR;
	}
	do
		outcome = open_and_try(file, request, err);
	while (outcome == OUTCOME_LOST);
	if (outcome != OUTCOME_HELD)
		return outcome;
	grant->sent_ms = clock_boot_ms();
	grant->fence = file->own.fence;
	grant->hold_fd = file->lock.fd;
	return OUTCOME_HELD;
}
