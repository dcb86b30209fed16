/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process. From its start to its end:
 *
 *	keeper_main()
 *	  acquire_lock()		acquires the lock and offers it
 *	  join_hold()			or joins an outer hold
 *	  hold_and_exit()		then in a loop, until the tree is dead:
 *	    handle_wake()		a daemon's queries, events of the backend
 *	    renew_lease()
 *	    sleep_until()		sleeps in one poll()
 *	  release_lock()
 *
 * keeper.c is the supervisor's side, and keeper_hold.h lists the parts of the process.
 */
#include "keeper_process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "keeper_daemon.h"
#include "keeper_hold.h"
#include "keeper_join.h"

/* ---- acquiring: the tries, the wait in the queue, and the offer ---- */

/*
 * The time to take an offer. It must not delay the next waiter for longer than 5 s in all, requests
 * included.
 */
#define OFFER_MS       3000
/* The keeper polls whether the offer was taken. */
#define OFFER_CHECK_MS 150

/* Pauses between attempts to queue again after a connection was lost. */
#define RECONNECT_FIRST_MS 50
#define RECONNECT_LAST_MS  2000
/* The least pause between two views of a lock while waiting. */
#define VIEW_EACH_MS	   1000
/* The time for a server to come back with --if-down run, even if leases are shorter. */
#define PATIENCE_MS	   30000

/* Release a lock that no command has used, and that has no minimum hold. */
static void __attribute__((noreturn)) release_and_exit(struct keeping *k, bool was_held)
{
	release_lock(k, was_held);
	_exit(0);
}

/* Does this end the wait? Before the lock is held there is no command to wait for. */
static bool gives_up(enum wake wake)
{
	return wake == WAKE_RELEASE || wake == WAKE_ORPHANED || wake == WAKE_ABANDONED;
}

/*
 * Offer the lock. False: the offer was withdrawn, reported, and the lock released. True: the hold
 * begins with *wake. Does not return when the supervisor is dead.
 */
static bool offer_lock(struct keeping *k, struct grant *grant, enum wake *wake)
{
	struct shared *shared = k->job->shared;
	int64_t limit_ms = OFFER_MS;
	int made = OFFER_MADE, before = atomic_load(&shared->offer);

	/* When the lock is taken, most of its lease must be left. */
	if (grant->ttl_ms)
		limit_ms = clock_earlier(limit_ms, grant->ttl_ms / 3);
	limit_ms += clock_boot_ms();
	atomic_store(&shared->fence, grant->fence);
	atomic_store(&shared->held_ms, 0);
	if (before == OFFER_CLOSED ||
	    !atomic_compare_exchange_strong(&shared->offer, &before, OFFER_MADE))
		release_and_exit(k, true);
	send_event(k, KEEPER_HELD);
	*wake = WAKE_TIME;
	while (*wake == WAKE_TIME && atomic_load(&shared->offer) == OFFER_MADE &&
	       clock_boot_ms() < limit_ms)
		*wake = sleep_until(k, clock_boot_ms() + OFFER_CHECK_MS, false);
	k->abandoned = *wake == WAKE_ABANDONED;
	/* At the order to release, the command may have ended already. */
	if (*wake == WAKE_RELEASE || *wake == WAKE_DETACH ||
	    !atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
		return true;
	if (*wake != WAKE_TIME)
		release_and_exit(k, true);
	send_event(k, KEEPER_WITHDRAWN);
	hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
	return false;
}

/*
 * Tell the supervisor who holds the lock: once; every second if a wait is shown; at each try with
 * --once-per.
 */
static void report_waiting(struct keeping *k)
{
	const bool shown = job_reports(k->job, LEVEL_STEP) ||
			   k->job->hooks->tick_ms != CLOCK_NEVER;

	if (!k->viewed_ms || k->job->run->once_ms ||
	    (shown && clock_boot_ms() >= k->viewed_ms + VIEW_EACH_MS))
		view_lock(k);
	send_event(k, KEEPER_WAITING);
}

/*
 * Return when to read again whether the holder has done the work of --once-per, which not every
 * backend announces. The first waiter ends then, which wakes the next one.
 */
static int64_t next_view(const struct keeping *k)
{
	if (!k->job->run->once_ms)
		return CLOCK_NEVER;
	return clock_boot_ms() + (k->event.wait.ahead > 0 ? HOLD_RETRY_MS : VIEW_EACH_MS);
}

/*
 * Sleep between two tries, without the backend if its connection has failed. True: give up.
 */
static bool await_turn(struct keeping *k, int64_t retry_ms, bool with_backend)
{
	int64_t view_ms;

	do {
		enum wake wake;

		view_ms = with_backend ? next_view(k) : CLOCK_NEVER;
		wake = sleep_until(k, clock_earlier(retry_ms, view_ms), with_backend);
		if (gives_up(wake))
			return true;
		if (wake == WAKE_EVENT)
			retry_ms = clock_earlier(retry_ms, k->backend->ops->event(k->backend));
		if (clock_boot_ms() >= view_ms)
			report_waiting(k);
	} while (clock_boot_ms() < retry_ms);
	return false;
}

/*
 * Is a failed try repeated? A waiter that had an answer goes on through all that a server may say,
 * with --if-down run for one TTL or PATIENCE_MS, whichever is longer: by then no lease is left.
 */
static bool tries_again(const struct keeping *k, bool in_line, int64_t down_ms)
{
	const enum error_kind kind = k->event.error.kind;
	const enum if_down if_down = k->job->run->if_down;

	if (!in_line)
		return kind == ERROR_UNAVAILABLE && if_down == IF_DOWN_WAIT && k->request.queue;
	if (if_down == IF_DOWN_RUN && down_ms > PATIENCE_MS && down_ms > k->request.ttl_ms)
		return false;
	return kind == ERROR_UNAVAILABLE || kind == ERROR_REFUSED;
}

/* Handle a failed try: try again later, or clean up and end the process. */
static void acquire_failed(struct keeping *k, bool in_line, int64_t *down_since_ms,
			   int64_t *pause_ms)
{
	static char last_message[sizeof(k->event.error.message)];
	int64_t now = clock_boot_ms();

	if (k->event.error.kind == ERROR_CANCELLED && !atomic_load(&k->job->shared->engaged))
		send_and_exit(k, KEEPER_BUSY);
	if (k->event.error.kind == ERROR_CANCELLED)
		release_and_exit(k, false);
	if (!*down_since_ms) {
		*down_since_ms = now;
		*pause_ms = RECONNECT_FIRST_MS;
	}
	if (!tries_again(k, in_line, now - *down_since_ms)) {
		struct error ignored;

		/* A request without a reply may have left an entry: remove it. */
		k->backend->cancel_fd = -1;
		limit_calls(k, CLOCK_NEVER);
		if (atomic_load(&k->job->shared->engaged)) {
			send_event(k, KEEPER_FAILED);
			hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
		}
		send_and_exit(k, KEEPER_FAILED);
	}
	/* The same message is sent once. */
	if (*pause_ms == RECONNECT_FIRST_MS || strcmp(last_message, k->event.error.message) != 0)
		send_event(k, KEEPER_RETRYING);
	memcpy(last_message, k->event.error.message, sizeof(last_message));
	if (await_turn(k, clock_boot_ms() + *pause_ms, false))
		release_and_exit(k, false);
	*pause_ms = *pause_ms * 2 > RECONNECT_LAST_MS ? RECONNECT_LAST_MS : *pause_ms * 2;
}

/*
 * Set the flag that further requests may leave an entry at the server. A supervisor that gives up
 * closes the offer before it reads the flag: either it sees the flag, or this process sees the
 * closed offer, and sends nothing.
 */
static void mark_engaged(struct keeping *k)
{
	struct shared *shared = k->job->shared;

	atomic_store(&shared->engaged, 1);
	if (atomic_load(&shared->offer) == OFFER_CLOSED)
		send_and_exit(k, KEEPER_BUSY);
}

/* Return the time that is left for a request of the wait. */
static int64_t wait_left(const struct keeping *k)
{
	return k->job->limit_ms - (clock_boot_ms() - LATE_REQUEST_MS);
}

static enum outcome try_once(struct keeping *k, struct grant *grant)
{
	const struct backend_ops *ops = k->backend->ops;
	struct error *err = &k->event.error;

	k->backend->cancel_fd = k->fd;
	limit_calls(k, wait_left(k));
	if (!atomic_load(&k->job->shared->engaged)) {
		if (ops->connect && ops->connect(k->backend, &k->request, err))
			return OUTCOME_ERROR;
		mark_engaged(k);
	}
	limit_calls(k, wait_left(k));
	*grant = (struct grant){ .hold_fd = -1 };
	return hold_acquire(k->backend, &k->request, grant, err);
}

/* Try and wait until the lock is held. Ends the process when it cannot be acquired. */
static void try_until_held(struct keeping *k, struct grant *grant)
{
	int64_t down_since_ms = 0, pause_ms = 0;
	bool in_line = false;
	enum outcome outcome;

	while ((outcome = try_once(k, grant)) != OUTCOME_HELD) {
		if (outcome != OUTCOME_BUSY) {
			/* A refused fence is that of a hold. */
			acquire_failed(k, in_line && grant->fence < BACKEND_FENCE_END,
				       &down_since_ms, &pause_ms);
			continue;
		}
		in_line = true;
		down_since_ms = 0;
		if (!k->request.queue) {
			view_lock(k);
			send_and_exit(k, KEEPER_BUSY);
		}
		k->event.wait.poll_ms = grant->poll_ms;
		report_waiting(k);
		if (await_turn(k, grant->retry_ms, true))
			release_and_exit(k, false);
	}
	k->backend->cancel_fd = -1;
	limit_calls(k, CLOCK_NEVER);
	k->hold_fd = grant->hold_fd;
	publish_lease(k, grant);
}

/*
 * Acquire, wait, and offer the lock; end the process if the supervisor does not take it. Returns
 * with what the hold begins: WAKE_TIME, WAKE_RELEASE or WAKE_DETACH after such an order, or
 * WAKE_ABANDONED or WAKE_ORPHANED when the offer was taken before that.
 */
static enum wake acquire_lock(struct keeping *k, struct grant *grant)
{
	enum wake wake;

	for (;;) {
		try_until_held(k, grant);
		if (offer_lock(k, grant, &wake))
			return wake;
		do {
			wake = sleep_until(k, CLOCK_NEVER, false);
			if (gives_up(wake))
				send_and_exit(k, KEEPER_RELEASED);
		} while (wake != WAKE_RETRY);
	}
}

/* ---- when the others are dead ---- */

/*
 * End without a release after supervisor and guard were killed, and the command with the guard: the
 * command's leftovers may still run, so the lease must lapse.
 */
static void __attribute__((noreturn)) abandon_and_exit(struct keeping *k)
{
	const pid_t command = atomic_load(&k->job->shared->command);

	k->abandoned = true;
	if (!command && !k->joins)
		release_lock(k, true);
	/* In another session, another process has this number. */
	if (command && getsid(command) == k->session)
		kill(-command, SIGKILL);
	_exit(1);
}

/* Report the loss of the lock to the guard and the supervisor, and wait until the tree is dead. */
static void lose_lock(struct keeping *k)
{
	enum wake wake = WAKE_TIME;

	eventfd_write(k->job->lost_fd, 1);
	send_event(k, KEEPER_LOST);
	while (wake != WAKE_RELEASE) {
		if (wake == WAKE_ABANDONED)
			abandon_and_exit(k);
		wake = sleep_until(k, CLOCK_NEVER, false);
	}
}

/* ---- renewals, of its own hold or of one that a run has joined ---- */

/* Return the TTL of the lease, or, without one, the pause between two checks of the lock. */
static int64_t renewal_period(const struct keeping *k, const struct grant *grant)
{
	return grant->ttl_ms ? grant->ttl_ms : k->job->request.ttl_ms;
}

/* Return when to renew after a renewal at start_ms (CLOCK_BOOTTIME). */
static int64_t next_renewal(const struct keeping *k, const struct grant *grant, int64_t start_ms)
{
	return k->job->run->no_renew ? CLOCK_NEVER
				      : lease_renew_at(start_ms, renewal_period(k, grant));
}

/*
 * Renew, or verify with --no-renew, and set *next_ms to the next time (CLOCK_BOOTTIME). False: the
 * hold is lost, with the reason in k->event.error.
 */
static bool renew_lease(struct keeping *k, struct grant *grant, int64_t *next_ms)
{
	const bool verify = k->job->run->no_renew;
	const int64_t asked_ms = clock_boot_ms();
	const struct lease_span lease = shared_lease(k->job->shared);
	/* When a daemon signals its process, or the command is dead, and the release comes next. */
	const int64_t deadline_ms = is_daemon(k) ? next_deadline(k)
				    : lease_stop(lease, k->job->run->kill_after_ms).kill_ms;
	enum outcome outcome;

	*next_ms = CLOCK_NEVER;
	if (!limit_calls(k, deadline_ms - asked_ms)) {
		k->trouble = true;
		return true;
	}
	k->event.error = (struct error){ 0 };
	if (k->joins)
		outcome = renew_joined(k, grant, verify);
	else
		outcome = verify ? verify_here(k, grant) : renew_once(k, grant, &k->event.error);
	if (outcome != OUTCOME_HELD && outcome != OUTCOME_ERROR)
		return false;
	if (outcome == OUTCOME_HELD && !verify)
		publish_lease(k, grant);
	if (k->trouble != (outcome == OUTCOME_ERROR))
		send_event(k, k->trouble ? KEEPER_RENEWED : KEEPER_TROUBLE);
	k->trouble = outcome == OUTCOME_ERROR;
	*next_ms = k->trouble ? clock_boot_ms() + lease_retry_ms(renewal_period(k, grant))
			      : next_renewal(k, grant, asked_ms);
	return true;
}

/* ---- holding ---- */

/* Handle a loss, and clean up with a release unless the hold was joined. */
static void handle_loss(struct keeping *k)
{
	if (is_daemon(k))
		lose_and_exit(k);
	if (is_retained(k))
		_exit(0);
	lose_lock(k);
	if (k->joins)
		send_and_exit(k, KEEPER_LOST);
	release_lock(k, true);
}

/* Act on what has ended a sleep, or has come with the offer. */
static void handle_wake(struct keeping *k, enum wake wake, struct grant *grant, int64_t *renew_ms)
{
	int64_t next_event_ms;

	switch (wake) {
	case WAKE_ABANDONED:
		abandon_and_exit(k);
	case WAKE_RELEASE:
		k->leaving = true;
		break;
	case WAKE_DETACH:
		become_daemon(k, grant);
		break;
	case WAKE_EVENT:
		grant->event_ms = 0;
		next_event_ms = k->backend->ops->event(k->backend);
		/* While renewals fail, the pause between them stays. */
		if (!k->trouble)
			*renew_ms = clock_earlier(*renew_ms, next_event_ms);
		break;
	case WAKE_QUERY:
		if (!answer_caller(k, grant))
			handle_loss(k);
		break;
	case WAKE_CHECK:
		*renew_ms = 0;
		break;
	default:
		break;
	}
}

/* Hold until the end. The hold begins with wake. */
static void __attribute__((noreturn))
hold_and_exit(struct keeping *k, struct grant *grant, enum wake wake)
{
	int64_t renew_ms = next_renewal(k, grant, grant->sent_ms);
	int64_t until_ms;

	k->timer = clock_timer_open();
	for (;;) {
		handle_wake(k, wake, grant, &renew_ms);
		/* No run can join now, and the last member ends the hold. */
		if (k->leaving && k->joins)
			end_joined_and_exit(k);
		else if ((k->leaving && !k->daemon.members) || clock_boot_ms() >= k->until_ms)
			release_lock(k, true);
		else if (clock_boot_ms() >= next_deadline(k) ||
			 (clock_boot_ms() >= renew_ms && !renew_lease(k, grant, &renew_ms)))
			handle_loss(k);
		until_ms = clock_earlier(renew_ms, next_deadline(k));
		if (grant->event_ms)
			until_ms = clock_earlier(until_ms, grant->event_ms);
		/* While renewals fail, events wait for the next one. */
		wake = sleep_until(k, until_ms, !k->trouble);
		if (grant->event_ms && clock_boot_ms() >= grant->event_ms && wake == WAKE_TIME)
			wake = WAKE_EVENT;
	}
}

/* ---- from the start ---- */

void keeper_main(const struct job *job, enum keeper_mode mode, int fd)
{
	static struct keeping k = {
		.timer = -1, .until_ms = CLOCK_NEVER,
		.daemon = { .listener = -1, .watchdog = -1 },
		.joined = { .share_fd = -1 },
	};
	struct grant grant = job->local_grant;
	enum wake wake = WAKE_TIME;

	k.job = job;
	k.joins = mode == KEEPER_JOIN;
	k.request = job->request;
	k.self = job->self;
	/* Backends jitter their pauses with rand(), differently in each process. */
	srand((unsigned int)clock_read_us(CLOCK_REALTIME) ^ (unsigned int)getpid());
	k.fd = fd;
	k.session = getsid(0);
	prctl(PR_SET_NAME, "dlock-keeper");
	/* Its own session, so that it survives the end of dlock's job or terminal. */
	setsid();
	/*
	 * Neither keep the user's pipes open nor let a library write to them. A library may open
	 * later descriptors without close-on-exec.
	 */
	fds_drop_standard();
	if (fds_close_inherited()) {
		error_set(&k.event.error, ERROR_INTERNAL, errno, "close_range");
		send_and_exit(&k, KEEPER_FAILED);
	}
	close(job->guard_pipe[1]);
	/* Of a local lock that the supervisor has acquired: to adopt, or to keep. */
	k.backend = job->backend;
	k.hold_fd = grant.hold_fd;
	if (!k.backend)
		k.backend = backend_open(job->run->driver, job->run->uri,
					 mode == KEEPER_ACQUIRE ? &k.request : NULL,
					 &k.event.error);
	if (!k.backend)
		send_and_exit(&k, KEEPER_FAILED);
	k.timeout_ms = k.backend->timeout_ms;
	k.connect_timeout_ms = k.backend->connect_timeout_ms;
	atomic_store(&job->shared->session, k.backend->session);
	switch (mode) {
	case KEEPER_ACQUIRE:
		wake = acquire_lock(&k, &grant);
		break;
	case KEEPER_JOIN:
		join_hold(&k, &grant);
		break;
	case KEEPER_NEST:
		nest_and_exit(&k);
	case KEEPER_ADOPT:
		become_daemon(&k, &grant);
		break;
	case KEEPER_KEEP:
		release_lock(&k, true);
		break;
	}
	hold_and_exit(&k, &grant, wake);
}
