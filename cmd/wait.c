/* SPDX-License-Identifier: MIT */
/* The command wait polls a lock until nobody holds it. */
#include <poll.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/view.h"
#include "session.h"

/* The pauses between two polls: short at first, for a lock that is free soon. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 2000
#define PAUSE_LAST_LOCAL_MS 100

#define TICK_MS 1000

/* Update the live line, which changes each second. view: as it was at seen_ms. */
static void show_waiting(int64_t started_ms, const struct lock_view *view, int64_t seen_ms)
{
	const struct hold_view *hold = lock_view_first(view);
	const int64_t now = clock_boot_ms(), elapsed_ms = now - started_ms;

	log_waiting(&(struct wait_state){
		/* Whole seconds, although a pause may have any length. */
		.elapsed_ms = elapsed_ms - elapsed_ms % TICK_MS,
		.ahead = -1, .holder = &hold->holder,
		.age_ms = hold->age_ms < 0 ? -1 : hold->age_ms + now - seen_ms,
	});
}

static void sleep_until(int64_t until_ms, int64_t started_ms, const struct lock_view *view)
{
	const int64_t seen_ms = clock_boot_ms();

	while (clock_boot_ms() < until_ms) {
		show_waiting(started_ms, view, seen_ms);
		poll(NULL, 0, clock_poll_timeout(clock_earlier(until_ms,
							       clock_boot_ms() + TICK_MS)));
	}
}

/* Return the next pause: twice the last one, and not beyond the end of a lease. */
static int64_t next_pause(const struct session *session, const struct lock_view *view,
			  int64_t pause_ms)
{
	pause_ms = clock_earlier(pause_ms * 2, session->options.run.driver->local
					       ? PAUSE_LAST_LOCAL_MS : PAUSE_LAST_MS);
	for (size_t i = 0; i < view->hold_count; i++)
		if (view->holds[i].expires_ms >= 0)
			pause_ms = clock_earlier(pause_ms, view->holds[i].expires_ms + 1);
	return pause_ms > PAUSE_FIRST_MS ? pause_ms : PAUSE_FIRST_MS;
}

static int not_free(const struct session *session, const struct lock_view *view)
{
	const struct hold_view *hold = lock_view_first(view);
	char text[HOLDER_DESCRIPTION_SIZE], location[URI_LOCATION_SIZE];

	log_print(LEVEL_WARNING, "%s (on %s)",
		    holder_describe(&hold->holder, hold->age_ms, text, sizeof(text)),
		    settings_location(&session->options, location));
	return session->options.conflict_exit_code;
}

/* Returns the exit status, or -1 with *err. */
int command_wait(struct session *session, struct error *err)
{
	const int64_t started_ms = clock_boot_ms();
	int64_t until_ms = CLOCK_NEVER, pause_ms = 0;
	struct lock_view view = { 0 };
	int status = -1, failed;

	if (session_connect(session, err))
		return -1;
	if (session->options.run.wait_ms != CLOCK_NEVER)
		until_ms = started_ms + session->options.run.wait_ms;
	while (!(failed = hold_view(session->backend, session->name, "", &view, err)) &&
	       view.hold_count && clock_boot_ms() < until_ms) {
		pause_ms = next_pause(session, &view, pause_ms);
		sleep_until(clock_earlier(clock_boot_ms() + pause_ms, until_ms), started_ms, &view);
		lock_view_finish(&view);
	}
	log_waiting(NULL);
	if (!failed && view.hold_count) {
		status = not_free(session, &view);
	} else if (!failed) {
		log_print(LEVEL_STEP, "free");
		status = 0;
	}
	lock_view_finish(&view);
	return status;
}
