/* SPDX-License-Identifier: MIT */
/* How a lock file is locked, in each mode. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock.h"
#include "ops.h"
#include "path.h"
#include "record.h"

/* Slots are files; more of them than this is a slip of the pen. */
#define SLOTS_MAX 9999
/* How often waiters for slots and shared holds look: a holder that is killed changes no record. */
#define RECORD_LOOK_MS 1000

/* What a step towards the lock came to. */
enum step { STEP_DONE, STEP_BUSY, STEP_AGAIN, STEP_FAILED };

static enum step cannot_lock(const struct file_backend *file, struct error *err)
{
	if (errno == EWOULDBLOCK || errno == EINTR)
		return STEP_BUSY;
	error_set(err, ERROR_UNAVAILABLE, errno, "cannot lock in %s", file->directory);
	return STEP_FAILED;
}

static enum step enter_section(const struct file_backend *file, struct error *err)
{
	if (!file_lock_enter(file))
		return STEP_DONE;
	if (errno == ETIMEDOUT)
		return STEP_BUSY;
	file_lock_not_entered(file, err);
	return STEP_FAILED;
}

/*
 * Do those who hold let this request in? flock() cannot tell shared holds from slots,
 * nor three slots from five.
 */
static enum step check_mates(const struct file_record *record,
			     const struct request *request, struct error *err)
{
	for (size_t i = 0; i < record->count; i++) {
		const struct file_hold *hold = &record->holds[i];

		if (hold->mode != request->mode)
			return STEP_BUSY;
		if (hold->mode == HOLD_SLOT && !hold_mode_slots_agree(hold->slots, request, err))
			return STEP_FAILED;
	}
	return STEP_DONE;
}

static enum step take_slot(struct file_backend *file, const struct request *request,
			   struct error *err)
{
	for (int slot = 1; slot <= request->slots; slot++) {
		file->slot_fd = file_path_open(file->directory, request->name, slot, err);
		if (file->slot_fd < 0)
			return STEP_FAILED;
		if (!flock(file->slot_fd, LOCK_EX | LOCK_NB))
			return STEP_DONE;
		close(file->slot_fd);
		file->slot_fd = -1;
	}
	return STEP_BUSY;
}

/* May this request hold beside those who hold by the record? */
static enum step check_record(struct file_backend *file, struct file_record *record,
			      const struct request *request, struct error *err)
{
	enum step step;

	if (request->mode == HOLD_EXCLUSIVE) {
		/* Nobody holds beside the exclusive lock that we have got. */
		record->count = 0;
		return STEP_DONE;
	}
	file_record_sift(record, file->fd, FILE_SHARED);
	step = check_mates(record, request, err);
	if (step == STEP_DONE && request->mode == HOLD_SLOT)
		step = take_slot(file, request, err);
	return step;
}

/*
 * The byte is locked first, because everybody who reads the record must find it locked. A crash
 * in between leaves neither.
 */
static enum step add_hold(struct file_backend *file, struct file_record *record,
			  const struct request *request, struct grant *grant,
			  struct error *err)
{
	const struct file_hold *hold = file_record_add(record, request);

	grant->fence = hold->fence;
	if (file_lock_claim(file, hold)) {
		file_lock_not_entered(file, err);
		return STEP_FAILED;
	}
	if (!file_record_write(record, file->fd))
		return STEP_DONE;
	error_set(err, ERROR_UNAVAILABLE, errno, "cannot write the lock file in %s",
		  file->directory);
	file_lock_disclaim(file);
	return STEP_FAILED;
}

/* We have the kernel's lock. What is left to get is the slot, the byte and the record. */
static enum step enter(struct file_backend *file, const struct request *request,
		       struct grant *grant, struct error *err)
{
	struct file_record record;
	enum step step;

	step = enter_section(file, err);
	if (step != STEP_DONE)
		return step;
	file_record_read(&record, file->fd);
	/*
	 * The lock may have been broken while we slept, and its name belong to another file now.
	 * This is seen within the section, where `dlock break` gives the name away.
	 */
	if (file_lock_current(file, request->name))
		step = check_record(file, &record, request, err);
	else
		step = STEP_AGAIN;
	if (step == STEP_DONE)
		step = add_hold(file, &record, request, grant, err);
	file_lock_leave(file);
	file_record_finish(&record);
	return step;
}

/*
 * A process that only looks whether the lock can be had has it for a moment. Processes of dlock
 * do this within the section, so a try within the section meets real holders only.
 */
static enum step lock_file(const struct file_backend *file, int how, struct error *err)
{
	enum step step;

	if (!flock(file->fd, how))
		return STEP_DONE;
	if (!(how & LOCK_NB) || errno != EWOULDBLOCK)
		return cannot_lock(file, err);
	step = enter_section(file, err);
	if (step != STEP_DONE)
		return step;
	if (flock(file->fd, how))
		step = cannot_lock(file, err);
	file_lock_leave(file);
	return step;
}

static enum step try_once(struct file_backend *file, const struct request *request,
			  bool wait, struct grant *grant, struct error *err)
{
	int how = (request->mode == HOLD_EXCLUSIVE ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB);
	enum step step;

	/* Somebody broke the lock that we waited for: its name belongs to another file now. */
	if (!file_lock_current(file, request->name))
		file_lock_close(file);
	if (file_lock_open(file, request->name, err))
		return STEP_FAILED;
	step = lock_file(file, how, err);
	if (step != STEP_DONE)
		return step;
	step = enter(file, request, grant, err);
	if (step == STEP_DONE)
		return step;
	/*
	 * Also when it is busy, because the next try may need another file. A guard that was
	 * forked meanwhile shares the descriptor, so closing it would not unlock.
	 */
	flock(file->fd, LOCK_UN);
	file_lock_close(file);
	return step;
}

/* Returns a descriptor that tells of changes of the record from now on, or -1: there is none. */
static int watch_record(struct file_backend *file, const char *name, struct error *err)
{
	char path[40];
	int watch;

	if (file_lock_open(file, name, err))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	watch = inotify_init1(IN_CLOEXEC);
	if (watch >= 0)
		inotify_add_watch(watch, path, IN_MODIFY);
	return watch;
}

/* Sleeps for RECORD_LOOK_MS, or until watch, if it is not -1, is readable. false: a signal came. */
static bool sleep_for_change(int watch)
{
	struct pollfd ready = { .fd = watch, .events = POLLIN };

	return poll(&ready, 1, RECORD_LOOK_MS) >= 0;
}

static enum outcome busy(struct file_backend *file, const struct request *request,
			 struct grant *grant)
{
	struct file_record record;
	enum file_taken taken;
	struct error ignored;

	grant->holder = (struct holder){ 0 };
	grant->age_ms = grant->ahead = -1;
	if (file_lock_open(file, request->name, &ignored) ||
	    file_lock_look(file, &record, &taken, &ignored))
		return OUTCOME_BUSY;
	if (record.count) {
		grant->holder = record.holds[0].holder;
		grant->age_ms = clock_wall_ms() - grant->holder.since_ms;
	} else if (taken != FILE_FREE) {
		file_lock_stranger(file, &grant->holder);
	}
	file_record_finish(&record);
	return OUTCOME_BUSY;
}

enum outcome file_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct file_backend *file = file_from_backend(backend);
	/* Exclusive waiters sleep in flock(), which returns when a signal was caught. */
	const bool looks = request->queue && request->mode != HOLD_EXCLUSIVE;
	struct request stamped = *request;
	bool undisturbed = false;
	enum step step;
	int watch = -1;

	if (request->slots > SLOTS_MAX) {
		error_set(err, ERROR_USAGE, 0, "file: has room for %d slots at most", SLOTS_MAX);
		return OUTCOME_ERROR;
	}
	do {
		if (looks)
			watch = watch_record(file, request->name, err);
		stamped.self.since_ms = clock_wall_ms();
		step = try_once(file, &stamped, request->queue, grant, err);
		if (step == STEP_BUSY)
			undisturbed = looks && sleep_for_change(watch);
		if (watch >= 0)
			close(watch);
		watch = -1;
	} while (step == STEP_AGAIN || (step == STEP_BUSY && undisturbed));
	if (step == STEP_BUSY)
		return busy(file, request, grant);
	if (step == STEP_FAILED && request->forget)
		file_path_remove(file->directory, request->name);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	grant->hold_fd = file->fd;
	grant->slot_fd = file->slot_fd;
	return step == STEP_DONE ? OUTCOME_HELD : OUTCOME_ERROR;
}
