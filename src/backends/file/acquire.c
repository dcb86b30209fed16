/* SPDX-License-Identifier: MIT */
/* Take a lock, in each mode. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/hold_mode.h"
#include "lock.h"

/* How often a waiter that watches the file tries: a holder that is killed does not touch it. */
#define RETRY_MS 1000

/* The result of a step towards the lock. AGAIN: the name belongs to another file now. */
enum step { STEP_DONE, STEP_BUSY, STEP_AGAIN, STEP_FAILED };

static enum step lock_file(const struct file_lock *lock, int how, struct error *err)
{
	if (!flock(lock->fd, how))
		return STEP_DONE;
	if (errno == EWOULDBLOCK || errno == EINTR)
		return STEP_BUSY;
	error_set(err, ERROR_UNAVAILABLE, errno, "cannot lock in %s", lock->directory);
	return STEP_FAILED;
}

/*
 * Does the request fit beside the present holds, and is there a record for it? flock() does not
 * distinguish shared holds from slots, or three slots from five.
 */
static enum step find_number(const struct request *request, const struct file_state *state,
			    struct error *err)
{
	const int most = request->mode == HOLD_SLOT ? request->slots : FILE_RECORDS - 1;

	for (int i = 0; i < state->count; i++) {
		if (state->holds[i].mode != request->mode)
			return STEP_BUSY;
		if (!hold_mode_slots_agree(state->holds[i].slots, request, err))
			return STEP_FAILED;
	}
	return state->free_number > most ? STEP_BUSY : STEP_DONE;
}

/*
 * Lock the byte first, because everybody who reads the record must find it locked. A crash in
 * between leaves neither.
 */
static enum step add_hold(struct file_backend *file, const struct request *request,
			  const struct file_state *state, struct error *err)
{
	const struct file_lock *lock = &file->lock;

	file->own = (struct file_record){ .mode = request->mode, .slots = request->slots,
					  .pid = getpid(), .space = file_record_space() };
	file_record_id(request->token, file->own.id);
	snprintf(file->own.text, sizeof(file->own.text), "%s", request->text);
	if (file_lock_claim(lock, file->number, err))
		return STEP_FAILED;
	file->own.fence = hold_next_fence(state->fence);
	if (file_record_write(&file->own, lock->fd, file->number)) {
		error_set(err, ERROR_UNAVAILABLE, errno, "cannot write the lock file in %s",
			  lock->directory);
		return STEP_FAILED;
	}
	return STEP_DONE;
}

/* Hold the file, which flock() has given. Nobody else holds beside an exclusive lock. */
static enum step take_record(struct file_backend *file, const struct request *request,
			    struct error *err)
{
	const bool alone = request->mode == HOLD_EXCLUSIVE;
	struct file_state state = { .taken = alone ? FILE_FREE : FILE_SHARED };
	enum step step = STEP_DONE;

	/* `dlock break` has given the name to another file, within the section. */
	if (!file_lock_current(&file->lock))
		return STEP_AGAIN;
	file_lock_scan(&file->lock, &state);
	if (!alone)
		step = find_number(request, &state, err);
	file->number = alone ? 0 : state.free_number;
	if (step == STEP_DONE)
		step = add_hold(file, request, &state, err);
	file_state_finish(&state);
	return step;
}

/* Try once. With request->queue, sleep until flock() gives the file, or a signal was caught. */
static enum step try_once(struct file_backend *file, const struct request *request,
			  struct error *err)
{
	const int how = request->mode == HOLD_EXCLUSIVE ? LOCK_EX : LOCK_SH;
	enum step step = STEP_DONE;
	int not_entered;

	if (request->queue)
		step = lock_file(&file->lock, how, err);
	if (step != STEP_DONE)
		return step;
	not_entered = file_lock_enter(&file->lock, err);
	if (not_entered)
		return not_entered > 0 ? STEP_BUSY : STEP_FAILED;
	/*
	 * A process that inspects the lock has it for a moment. It does so within the section, so a
	 * try here meets real holders only.
	 */
	step = lock_file(&file->lock, how | LOCK_NB, err);
	if (step == STEP_DONE)
		step = take_record(file, request, err);
	file_lock_leave(&file->lock);
	return step;
}

/* Returns a descriptor that reports a release or a break; -1: there is none. */
static int watch_file(const struct file_lock *lock)
{
	const int watch = inotify_init1(IN_CLOEXEC);

	if (watch >= 0)
		inotify_add_watch(watch, lock->path, IN_ATTRIB | IN_DONT_FOLLOW);
	return watch;
}

/* Open the file and try once. Nothing is left of a try without success. */
static enum step open_and_try(struct file_backend *file, const struct request *request,
			      struct error *err)
{
	/* Exclusive waiters sleep in flock(), which returns when a signal was caught. */
	const bool watches = request->queue && request->mode != HOLD_EXCLUSIVE;
	struct pollfd watch = { .fd = -1, .events = POLLIN };
	enum step step;

	if (file_lock_open(&file->lock, err))
		return STEP_FAILED;
	if (watches)
		watch.fd = watch_file(&file->lock);
	step = try_once(file, request, err);
	if (step != STEP_DONE) {
		file->own.fence = 0;
		file_lock_free(&file->lock, HOLD_EXCLUSIVE);
		file_lock_close(&file->lock);
	}
	/* Without a descriptor this only sleeps. */
	if (step == STEP_BUSY && watches && poll(&watch, 1, RETRY_MS) >= 0)
		step = STEP_AGAIN;
	if (watch.fd >= 0)
		close(watch.fd);
	return step;
}

enum outcome file_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	enum step step;

	if (request->slots >= FILE_RECORDS) {
		error_set(err, ERROR_USAGE, 0, "file: has room for %d slots at most",
			  FILE_RECORDS - 1);
		return OUTCOME_ERROR;
	}
	file_lock_init(&file->lock, file, request->name);
	do {
		step = open_and_try(file, request, err);
	} while (step == STEP_AGAIN);
	if (step == STEP_BUSY)
		return OUTCOME_BUSY;
	grant->sent_ms = clock_boot_ms();
	grant->fence = file->own.fence;
	grant->hold_fd = file->lock.fd;
	return step == STEP_DONE ? OUTCOME_HELD : OUTCOME_ERROR;
}
