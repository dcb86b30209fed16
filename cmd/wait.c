/* SPDX-License-Identifier: MIT */
/* The command wait polls locks until nobody holds any of them. */
#include <poll.h>

#include "lock/hold.h"
#include "session.h"

/* The pauses between two polls: short at first, for a lock that is free soon. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 2000
#define PAUSE_LAST_LOCAL_MS 100

#define TICK_MS 1000

/* Sleep, with a live line that changes each second. */
static void sleep_until(int64_t until_ms, int64_t started_ms, struct wait_state *state)
{
	for (int64_t now_ms = clock_boot_ms(); now_ms < until_ms; now_ms = clock_boot_ms()) {
		/* Whole seconds, although a pause may have any length. */
		state->began_ms = started_ms + (now_ms - started_ms) % TICK_MS;
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

/*
 * Wait until nobody holds the session's lock, and report who does at until_ms. Sets *slept if it
 * was not free at once. Returns 0: it is free; 1: it is held; -1 with *err.
 */
static int wait_for_lock(struct session *session, int64_t started_ms, int64_t until_ms, bool *slept,
			 struct error *err)
{
	struct run_result result = { .end = RUN_NOT_OBTAINED };
	struct wait_state *wait = &result.wait;
	struct rows view;
	int64_t pause_ms = 0;
	int failed;

	if (session_connect(session, err))
		return -1;
	while (!(failed = hold_show(session->backend, session->name, "", &view, err))) {
		run_view(wait, &view);
		pause_ms = next_pause(session, &view, pause_ms);
		rows_finish(&view);
		if (!wait->holder_known || clock_boot_ms() >= until_ms)
			break;
		*slept = true;
		sleep_until(clock_earlier(clock_boot_ms() + pause_ms, until_ms), started_ms, wait);
	}
	log_waiting(NULL);
	if (failed)
		return -1;
	if (wait->holder_known)
		return log_failed_run(&result, 1);
	log_print(LEVEL_STEP, "free");
	return 0;
}

/* Returns the exit status, or -1 with *err. */
int command_wait(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	const int64_t started_ms = clock_boot_ms();
	int64_t until_ms = CLOCK_NEVER;
	int result = 0, at = 0;
	bool slept;

	if (options->run.wait_ms != CLOCK_NEVER)
		until_ms = started_ms + options->run.wait_ms;
	/* Until all are free, one after the other without a pause. */
	for (int seen = 0; !result && seen < options->operand_count; seen = slept ? 1 : seen + 1) {
		slept = false;
		session_choose(session, options->operands[at]);
		at = (at + 1) % options->operand_count;
		result = wait_for_lock(session, started_ms, until_ms, &slept, err);
	}
	return result > 0 ? options->conflict_exit_code : result;
}
