/* SPDX-License-Identifier: MIT */
/* What the keeper does with a lease it was granted, with a lock that it gives back, or has lost. */
#include "keeping.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "shared.h"

void keeping_keep(struct keeping *k, int64_t keep_ms)
{
	const int64_t until_ms = clock_boot_ms() + keep_ms;
	int64_t renew_ms = lease_renew_at(clock_boot_ms(), k->plan->request->ttl_ms);
	struct grant grant = { 0 };
	enum wake wake = WAKE_TIME;

	keeping_end_daemon(k);
	/* The supervisor ends, and whoever waits for that must not wait for this process. */
	close(k->fd);
	k->fd = -1;
	k->keeps = true;
	prctl(PR_SET_NAME, "dlock-min-hold");
	fds_drop_standard();
	fds_close_inherited();
	/* So that no file system stays in use. */
	if (chdir("/"))
		_exit(1);
	while (wake != WAKE_RELEASE && clock_boot_ms() < until_ms) {
		wake = keeping_rest(k, clock_earlier(renew_ms, until_ms), true);
		if (wake == WAKE_EVENT)
			renew_ms = clock_earlier(renew_ms, k->backend->ops->event(k->backend));
		if (clock_boot_ms() < renew_ms && wake != WAKE_LOOK)
			continue;
		if (keeping_renew_once(k, &grant, &k->event.error) == OUTCOME_LOST)
			_exit(0);
		renew_ms = lease_renew_at(clock_boot_ms(), k->plan->request->ttl_ms);
	}
	hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
	backend_close(k->backend);
	_exit(0);
}

void keeping_release(struct keeping *k, bool was_held)
{
	int64_t keep_ms;

	k->backend->cancel_fd = -1;
	keeping_unbound_calls(k);
	switch (keeping_release_once(k, &keep_ms, &k->event.error)) {
	case OUTCOME_HELD:
		if (!k->backend->session || !keep_ms)
			keeping_finish(k, KEEPER_RELEASED);
		k->event.last = k->event.keeps = true;
		keeping_tell(k, KEEPER_RELEASED);
		keeping_keep(k, keep_ms);
	case OUTCOME_LOST:
		if (was_held)
			keeping_finish(k, KEEPER_LOST);
		keeping_view(k);
		keeping_finish(k, KEEPER_BUSY);
	case OUTCOME_BUSY:
	case OUTCOME_ERROR:
		break;
	}
	keeping_finish(k, KEEPER_FAILED);
}

/* Wakes the guard, and tells the supervisor. */
static void tell_lost(struct keeping *k)
{
	static const uint64_t one = 1;

	if (write(k->plan->lost_fd, &one, sizeof(one)) < 0)
		shared_set_lease(k->plan->shared, (struct lease_span){ .end_ms = 0, .ttl_ms = 1 });
	keeping_tell(k, KEEPER_LOST);
}

void keeping_lose(struct keeping *k)
{
	enum wake wake = WAKE_TIME;

	tell_lost(k);
	while (wake != WAKE_RELEASE) {
		if (wake == WAKE_ABANDONED)
			keeping_end_abandoned(k);
		keeping_watch(k);
		wake = keeping_rest(k, keeping_continue_supervisor(k, wake), false);
	}
}
