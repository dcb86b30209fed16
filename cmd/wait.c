/* SPDX-License-Identifier: MIT */
/* The command wait polls locks until nobody holds any of them. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "lock/hold.h"
#include "session.h"

/* The pauses between two polls: short at first, for a lock that is free soon. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 2000
#define PAUSE_LAST_LOCAL_MS 100

#define TICK_MS 1000

/* Locked for good by the thread that reports how the wait has ended, and ends the process. */
static pthread_mutex_t decided = PTHREAD_MUTEX_INITIALIZER;

/* End the process when --wait is over: a thread's work, because the resolver knows no limit. */
static void *end_late(void *arg)
{
	const struct session *session = arg;
	const int64_t late_ms = session->options.run.wait_ms + LATE_RESULT_MS + LATE_CLEANUP_MS;
	const struct timespec end = clock_timer_spec(clock_boot_ms() + late_ms).it_value;
	struct error err;

	/* No signal is handled that could interrupt the sleep. */
	clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &end, NULL);
	pthread_mutex_lock(&decided);
	error_set(&err, ERROR_UNAVAILABLE, 0, "%s: no answer within the time of --wait",
		  session->settings.location);
	_exit(log_fail(&err));
}

/* Sleep, with a live line that changes each second. */
static void sleep_until(int64_t until_ms, const struct wait_state *state)
{
	for (int64_t now_ms = clock_boot_ms(); now_ms < until_ms; now_ms = clock_boot_ms()) {
		log_waiting(state);
		poll(NULL, 0, clock_poll_timeout(clock_earlier(until_ms, now_ms + TICK_MS)));
	}
}

/* Return the next pause: twice the last one, and not beyond the end of a lease. */
static int64_t next_pause(const struct session *session, const struct rows *view, int64_t pause_ms)
{
	pause_ms = clock_earlier(pause_ms * 2, session->options.run.driver->local
					       ? PAUSE_LAST_LOCAL_MS : PAUSE_LAST_MS);
	for (size_t i = 0; i < view->hold_count; i++)
		if (view->holds[i].left_ms >= 0)
			pause_ms = clock_earlier(pause_ms, view->holds[i].left_ms + 1);
	return pause_ms > PAUSE_FIRST_MS ? pause_ms : PAUSE_FIRST_MS;
}

/* Limit a request to what is left. With -w 0 the one that is made may take as long as it needs. */
static void limit_call(const struct session *session, int64_t until_ms)
{
	struct backend *backend = session->backend;
	int64_t left_ms = until_ms - (clock_boot_ms() - LATE_REQUEST_MS);

	if (!session->options.run.wait_ms)
		return;
	left_ms = left_ms > 1 ? left_ms : 1;
	backend->timeout_ms = clock_earlier(backend->timeout_ms, left_ms);
	backend->connect_timeout_ms = clock_earlier(backend->connect_timeout_ms, left_ms);
}

/*
 * Wait until nobody holds the session's lock, and report who does at until_ms. Sets *slept if it
 * was not free at once. Returns 0: it is free; 1: it is held; -1 with *err.
 */
static int wait_for_lock(struct session *session, int64_t started_ms, int64_t until_ms, bool *slept,
			 struct error *err)
{
	struct run_result result = { .end = RUN_NOT_OBTAINED, .wait.began_ms = started_ms };
	struct wait_state *wait = &result.wait;
	struct rows view;
	int64_t pause_ms = 0;
	bool failed;

	if (session_connect(session, err))
		return -1;
	for (;;) {
		limit_call(session, until_ms);
		failed = hold_show(session->backend, session->options.run.name, "", &view, err);
		if (failed)
			break;
		run_view(wait, &view);
		pause_ms = next_pause(session, &view, pause_ms);
		rows_finish(&view);
		if (!wait->holder_known || clock_boot_ms() >= until_ms)
			break;
		*slept = true;
		sleep_until(clock_earlier(clock_boot_ms() + pause_ms, until_ms), wait);
	}
	log_waiting(NULL);
	/* The last of several requests had little time. */
	if (failed && !(wait->holder_known && clock_boot_ms() >= until_ms))
		return -1;
	if (wait->holder_known) {
		pthread_mutex_lock(&decided);
		return log_failed_run(&result, 1);
	}
	log_print(LEVEL_STEP, "free");
	return 0;
}

/* Returns the exit status, or -1 with *err. */
int command_wait(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	const struct name_list *names = &session->locks.names;
	const int64_t started_ms = clock_boot_ms(), wait_ms = options->run.wait_ms;
	const int64_t until_ms = clock_after(started_ms, wait_ms);
	pthread_t thread;
	size_t at = 0;
	int result;
	bool slept;

	/* Without the thread, only the resolver can exceed the limit. */
	if (wait_ms && wait_ms != CLOCK_NEVER)
		pthread_create(&thread, NULL, end_late, session);
	result = session_names(session, err);
	/* Until all are free, one after the other without a pause. */
	for (size_t seen = 0; !result && seen < names->count; seen = slept ? 1 : seen + 1) {
		slept = false;
		session_choose(session, names->names[at]);
		at = (at + 1) % names->count;
		result = wait_for_lock(session, started_ms, until_ms, &slept, err);
	}
	if (result < 0)
		pthread_mutex_lock(&decided);
	return result > 0 ? options->conflict_exit_code : result;
}
