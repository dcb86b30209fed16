/* SPDX-License-Identifier: MIT */
#include <poll.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/view.h"
#include "progress.h"
#include "session.h"

/*
 * Pauses between two looks. No event tells of a lease that ran out, nor of what another program
 * does with the lock.
 */
#define LOOK_MS 5000
#define LOOK_LOCAL_MS 100
#define LOOK_LEAST_MS 20

/* When to look again: at the end of the first lease, at the latest after a while. */
static int64_t next_look(const struct session *session, const struct lock_view *view)
{
	int64_t pause_ms = session->settings.driver->local ? LOOK_LOCAL_MS : LOOK_MS;

	for (size_t i = 0; i < view->hold_count; i++)
		if (view->holds[i].expires_ms >= 0)
			pause_ms = clock_earlier(pause_ms, view->holds[i].expires_ms + 1);
	return clock_boot_ms() + (pause_ms < LOOK_LEAST_MS ? LOOK_LEAST_MS : pause_ms);
}

/* What the user is shown meanwhile. */
struct display {
	struct progress progress;
	struct run_hooks hooks;
	int64_t started_ms;
};

/* held: as seen at seen_ms. */
static void show(const struct display *display, const struct lock_view *held, int64_t seen_ms)
{
	const struct hold_view *hold = lock_view_first(held);
	const int64_t now = clock_boot_ms();
	const struct wait_state state = {
		.elapsed_ms = now - display->started_ms, .ahead = -1, .holder = &hold->holder,
		.age_ms = hold->age_ms < 0 ? -1 : hold->age_ms + now - seen_ms,
	};

	display->hooks.waiting(display->hooks.context, &state);
}

static void sleep_until(struct backend *backend, int64_t until_ms, const struct display *display,
			const struct lock_view *held)
{
	struct pollfd change = { .fd = backend->ops->event_fd(backend), .events = POLLIN };
	const int64_t seen_ms = clock_boot_ms(), tick_ms = display->hooks.tick_ms;
	int64_t wake_ms;

	while (clock_boot_ms() < until_ms) {
		show(display, held, seen_ms);
		wake_ms = tick_ms == CLOCK_NEVER ? until_ms
			: clock_earlier(until_ms, clock_boot_ms() + tick_ms);
		if (poll(&change, 1, clock_poll_timeout(wake_ms)) <= 0)
			continue;
		until_ms = clock_earlier(until_ms, backend->ops->event(backend));
		change.fd = backend->ops->event_fd(backend);
	}
}

static int not_free(const struct session *session, const struct lock_view *view)
{
	const struct hold_view *hold = lock_view_first(view);
	char text[HOLDER_DESCRIPTION_SIZE], place[URI_PLACE_SIZE];

	session_say(session, SAY_WARNING, "%s (on %s)",
		    holder_describe(&hold->holder, hold->age_ms, text, sizeof(text)),
		    settings_place(&session->settings, place));
	return session->options.conflict_exit_code;
}

/* The exit status, or -1 with *err. */
int command_wait(struct session *session, struct error *err)
{
	int64_t until_ms = CLOCK_NEVER, look_ms;
	struct lock_view view = { 0 };
	struct display display = { .started_ms = clock_boot_ms() };
	struct backend *backend;
	int status = -1, failed;

	if (session_connect(session, err))
		return -1;
	backend = session->backend;
	progress_init(&display.progress, &session->settings, session->name,
		      session->options.verbosity, &display.hooks);
	if (session->settings.wait_ms != CLOCK_NEVER)
		until_ms = clock_boot_ms() + session->settings.wait_ms;
	while (!(failed = backend_inspect(backend, session->name, true, &view, err)) &&
	       view.held && clock_boot_ms() < until_ms) {
		look_ms = next_look(session, &view);
		sleep_until(backend, clock_earlier(look_ms, until_ms), &display, &view);
		lock_view_finish(&view);
	}
	display.hooks.waiting(display.hooks.context, NULL);
	if (!failed && view.held) {
		status = not_free(session, &view);
	} else if (!failed) {
		session_say(session, SAY_STEP, "free");
		status = 0;
	}
	lock_view_finish(&view);
	return status;
}
