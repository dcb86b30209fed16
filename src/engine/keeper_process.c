/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process: acquires the lock, then sleeps in one poll() between renewals, until an
 * order comes or the command's tree is dead; then it releases the lock and ends.
 */
#include "keeping.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/process.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "lock/view.h"

/* ---- acquiring, waiting in the queue, and the offer to the guard ---- */

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
/* The time for a server to come back, even if leases are shorter. */
#define PATIENCE_MS	   30000

/* Release a lock that no command has used, and that has no minimum hold. */
static void __attribute__((noreturn)) release_and_exit(struct keeping *k, bool was_held)
{
	keeping_release(k, was_held);
	_exit(0);
}

/* Does this end the wait? Before the lock is held there is no command to wait for. */
static bool gives_up(enum wake wake)
{
	return wake == WAKE_RELEASE || wake == WAKE_ORPHANED || wake == WAKE_ABANDONED;
}

/*
 * Offer the lock. False: the offer was withdrawn, reported, and the lock released. Does not return
 * when the supervisor is dead.
 */
static bool offer_lock(struct keeping *k, struct grant *grant)
{
	struct shared *shared = k->s->shared;
	int64_t limit_ms = OFFER_MS;
	int made = OFFER_MADE, before = atomic_load(&shared->offer);
	enum wake wake = WAKE_TIME;

	/* When the lock is taken, most of its lease must be left. */
	if (grant->ttl_ms)
		limit_ms = clock_earlier(limit_ms, grant->ttl_ms / 3);
	limit_ms += clock_boot_ms();
	atomic_store(&shared->fence, grant->fence);
	atomic_store(&shared->held_ms, 0);
	if (before == OFFER_CLOSED ||
	    !atomic_compare_exchange_strong(&shared->offer, &before, OFFER_MADE))
		release_and_exit(k, true);
	keeping_send(k, KEEPER_HELD);
	for (;;) {
		switch (wake) {
		case WAKE_RELEASE:
			/* The command may have ended already: with a minimum hold. */
			keeping_release(k, true);
			return true;
		case WAKE_DETACH:
			keeping_detach(k, grant);
			return true;
		case WAKE_ABANDONED:
			k->abandoned = true;
			/* fall through */
		case WAKE_ORPHANED:
			if (atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
				release_and_exit(k, true);
			return true;
		default:
			break;
		}
		if (atomic_load(&shared->offer) != OFFER_MADE || clock_boot_ms() >= limit_ms)
			break;
		wake = keeping_sleep(k, clock_boot_ms() + OFFER_CHECK_MS, false);
	}
	if (!atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
		return true;
	keeping_send(k, KEEPER_WITHDRAWN);
	hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
	return false;
}

/* Send the holder once, with shows_waiting every second, and with --once-per at each try. */
static void report_waiting(struct keeping *k)
{
	const bool shown = supervisor_reports(k->s, LEVEL_STEP) ||
			   k->s->hooks->tick_ms != CLOCK_NEVER;

	if (!k->viewed_ms || k->s->run->once_ms ||
	    (shown && clock_boot_ms() >= k->viewed_ms + VIEW_EACH_MS))
		keeping_view(k);
	keeping_send(k, KEEPER_WAITING);
}

/*
 * Return when to read again whether the holder has done the work of --once-per, which not every
 * backend announces. The first waiter ends then, which wakes the next one.
 */
static int64_t next_view(const struct keeping *k)
{
	if (!k->s->run->once_ms)
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
		wake = keeping_sleep(k, clock_earlier(retry_ms, view_ms), with_backend);
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
 * Handle a failed try. A queued waiter tries again for one TTL or PATIENCE_MS, whichever is longer,
 * because a server may restart or fail over. A first try, or a refusal, fails at once.
 */
static void acquire_failed(struct keeping *k, bool in_line, int64_t *down_since_ms,
			   int64_t *pause_ms)
{
	static char last_message[sizeof(k->event.error.message)];
	int64_t now = clock_boot_ms();

	if (k->event.error.kind == ERROR_CANCELLED && !atomic_load(&k->s->shared->engaged))
		keeping_exit(k, KEEPER_BUSY);
	if (k->event.error.kind == ERROR_CANCELLED)
		release_and_exit(k, false);
	if (!*down_since_ms) {
		*down_since_ms = now;
		*pause_ms = RECONNECT_FIRST_MS;
	}
	if (!in_line || k->event.error.kind != ERROR_UNAVAILABLE ||
	    now - *down_since_ms >
		    (k->request.ttl_ms > PATIENCE_MS ? k->request.ttl_ms : PATIENCE_MS)) {
		struct error ignored;

		/* A request without a reply may have left an entry: remove it. */
		k->backend->cancel_fd = -1;
		if (atomic_load(&k->s->shared->engaged))
			hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
		keeping_exit(k, KEEPER_FAILED);
	}
	/* The same message is sent once. */
	if (*pause_ms == RECONNECT_FIRST_MS || strcmp(last_message, k->event.error.message) != 0)
		keeping_send(k, KEEPER_RETRYING);
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
	struct shared *shared = k->s->shared;

	atomic_store(&shared->engaged, 1);
	if (atomic_load(&shared->offer) == OFFER_CLOSED)
		keeping_exit(k, KEEPER_BUSY);
}

static enum outcome try_once(struct keeping *k, struct grant *grant)
{
	const struct backend_ops *ops = k->backend->ops;
	struct error *err = &k->event.error;

	k->backend->cancel_fd = k->fd;
	if (!atomic_load(&k->s->shared->engaged)) {
		if (ops->connect && ops->connect(k->backend, &k->request, err))
			return OUTCOME_ERROR;
		mark_engaged(k);
	}
	*grant = (struct grant){ .hold_fd = -1 };
	return hold_acquire(k->backend, &k->request, grant, err);
}

/* Try and wait until the lock is held. Ends the process when it cannot be acquired. */
static void try_until_held(struct keeping *k, struct grant *grant)
{
	int64_t down_since_ms = 0, pause_ms = 0;
	bool in_line = false;

	for (;;) {
		switch (try_once(k, grant)) {
		case OUTCOME_HELD:
			k->backend->cancel_fd = -1;
			k->hold_fd = grant->hold_fd;
			keeping_publish(k, grant);
			return;
		case OUTCOME_BUSY:
			in_line = true;
			down_since_ms = 0;
			if (!k->request.queue) {
				keeping_view(k);
				keeping_exit(k, KEEPER_BUSY);
			}
			k->event.wait.poll_ms = grant->poll_ms;
			report_waiting(k);
			if (await_turn(k, grant->retry_ms, true))
				release_and_exit(k, false);
			break;
		case OUTCOME_LOST:
			holder_decode(&k->event.wait.holder, grant->newer ? grant->newer : "",
				      grant->newer ? strlen(grant->newer) : 0);
			free(grant->newer);
			keeping_exit(k, KEEPER_REPLACED);
		case OUTCOME_ERROR:
			acquire_failed(k, in_line, &down_since_ms, &pause_ms);
			break;
		}
	}
}

static void acquire_lock(struct keeping *k, struct grant *grant)
{
	enum wake wake;

	for (;;) {
		try_until_held(k, grant);
		if (offer_lock(k, grant))
			return;
		do {
			wake = keeping_sleep(k, CLOCK_NEVER, false);
			if (gives_up(wake))
				keeping_exit(k, KEEPER_RELEASED);
		} while (wake != WAKE_RETRY);
	}
}

/*
 * ---- a hold of another process ----
 *
 * A `dlock run` with a valid token joins the hold of another process, such as that of `dlock
 * acquire`. The nested run's keeper renews the hold every third of its TTL while
 * the command runs, publishes the lease's end for guard and supervisor, and neither acquires nor
 * releases the lock.
 *
 * The keeper asks the daemon of the hold, if there is one (keeper_daemon.c), through its socket:
 *
 *	nested keeper			daemon
 *	JOIN		->	checks that the hold covers the request's mode, and renews
 *			<-	fence, lease and TTL; the connection is the share
 *	STAY		->	every third of the TTL: renews
 *			<-	lease and TTL
 *	VERIFY		->	when the command's tree is dead: is the lock still held?
 *
 * A nested `dlock acquire` asks once, with NEST, which verifies and renews. STAY and VERIFY are for
 * holds that live with the daemon's session or descriptors. For leases the keeper asks the backend.
 *
 * The nested run's keeper, guard and supervisor have the share until the tree is dead. Until then
 * the death of the daemon does not free a lock that lives in a descriptor, and a daemon whose
 * process has ended does not end. The nested keeper notices the daemon's end at once. The hold is
 * then lost if it lived with the daemon; otherwise the keeper asks the backend.
 */

/* A lease that is longer counts as this one. */
#define JOINED_MOST_MS (INT64_C(24) * 3600 * 1000)

/* Set *grant to the lease of the reply to a query at asked_ms. */
static void read_reply(const struct keeper_reply *reply, int64_t asked_ms, struct grant *grant)
{
	grant->fence = reply->fence;
	grant->ttl_ms = reply->lease_ms ? reply->ttl_ms : 0;
	grant->sent_ms = asked_ms;
	if (grant->ttl_ms)
		grant->sent_ms += reply->lease_ms - lease_end(0, grant->ttl_ms);
}

/* Return the time for a daemon's answer, in ms. It leaves time for another query. */
static int64_t reply_timeout(const struct keeping *k, const struct grant *grant)
{
	int64_t bound_ms = 2 * k->backend->timeout_ms;

	return grant->ttl_ms ? clock_earlier(bound_ms, grant->ttl_ms / 4 + 1) : bound_ms;
}

/*
 * Ask the daemon: any verb but RENEW and RELEASE. True: *outcome is the answer. False: there is no
 * daemon (*outcome LOST), or it does not answer (ERROR with k->event.error).
 */
static bool ask_daemon(struct keeping *k, enum keeper_verb verb, struct grant *grant,
		       enum outcome *outcome)
{
	const int64_t asked_ms = clock_boot_ms(), patience_ms = reply_timeout(k, grant);
	struct error *err = &k->event.error;
	struct keeper_reply reply;
	const int asked = keeper_socket_ask(verb, &k->request, k->s->identity, &reply,
					    verb == KEEPER_VERB_JOIN ? &k->share_fd : NULL,
					    patience_ms, err);

	*outcome = asked < 0 ? OUTCOME_ERROR : OUTCOME_LOST;
	if (asked)
		return false;
	*outcome = reply.outcome;
	*err = reply.error;
	if (reply.outcome == OUTCOME_HELD)
		read_reply(&reply, asked_ms, grant);
	return true;
}

static enum outcome verify_here(struct keeping *k, struct grant *grant)
{
	return hold_verify(k->backend, &k->request, &grant->fence, &k->event.error);
}

static enum outcome renew_for(struct keeping *k, int64_t ttl_ms, struct grant *grant)
{
	k->request.ttl_ms = ttl_ms;
	return hold_renew_other(k->backend, &k->request, grant, &k->event.error);
}

/*
 * Renew with the hold's own TTL. A very long lease, or one without an end, counts as a shorter one
 * for the run.
 */
static enum outcome renew_here(struct keeping *k, struct grant *grant)
{
	const enum outcome outcome = renew_for(k, 0, grant);

	grant->ttl_ms = clock_earlier(grant->ttl_ms, JOINED_MOST_MS);
	if (!grant->ttl_ms)
		grant->ttl_ms = k->s->request.ttl_ms;
	return outcome;
}

static enum outcome join_backend(struct keeping *k, struct grant *grant)
{
	const enum outcome outcome = verify_here(k, grant);

	if (outcome != OUTCOME_HELD)
		return outcome;
	/* An outer run ends this one when it loses the lock; this one only verifies. */
	if (k->backend->session && token_is_of_run(k->request.token))
		return outcome;
	if (k->backend->session) {
		error_set(&k->event.error, ERROR_REFUSED, 0,
			  "held already, with this token, by a "
			  "process that cannot be asked from here (it does not answer, or belongs "
			  "to another host, user or container), so that the command would not be "
			  "protected");
		return OUTCOME_ERROR;
	}
	return renew_here(k, grant);
}

/*
 * Extend the lease by the longer of ttl_ms and the hold's own TTL, unless it has no end or lives
 * with another process, which renews it.
 */
static enum outcome nest_at_backend(struct keeping *k, int64_t ttl_ms, struct grant *grant)
{
	enum outcome outcome = verify_here(k, grant);

	if (outcome != OUTCOME_HELD || k->backend->session)
		return outcome;
	outcome = renew_for(k, 0, grant);
	if (outcome == OUTCOME_HELD && grant->ttl_ms && grant->ttl_ms < ttl_ms)
		outcome = renew_for(k, ttl_ms, grant);
	return outcome;
}

static enum outcome try_to_join(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	if (ask_daemon(k, KEEPER_VERB_JOIN, grant, &outcome))
		return outcome;
	/* Only the daemon can answer for a hold that lives with it. */
	if (outcome == OUTCOME_ERROR && k->backend->session)
		return outcome;
	return join_backend(k, grant);
}

/* Renew, or verify. Ask the daemon for a hold that lives with it. */
static enum outcome renew_joined(struct keeping *k, struct grant *grant, bool verify)
{
	const enum keeper_verb verb = verify ? KEEPER_VERB_VERIFY : KEEPER_VERB_STAY;
	enum outcome outcome;

	if (!k->backend->session && !verify)
		return renew_here(k, grant);
	if (!k->backend->session || k->share_fd < 0)
		return verify_here(k, grant);
	if (ask_daemon(k, verb, grant, &outcome))
		return outcome;
	if (outcome == OUTCOME_LOST)
		error_set(&k->event.error, ERROR_UNAVAILABLE, 0,
			  "the process that held it has ended");
	/* A daemon that hangs does not notice a loss. */
	else if (verify_here(k, grant) == OUTCOME_LOST)
		outcome = OUTCOME_LOST;
	return outcome;
}

static void __attribute__((noreturn)) nest_and_exit(struct keeping *k)
{
	struct grant grant = { 0 };
	enum outcome outcome;

	if (!ask_daemon(k, KEEPER_VERB_NEST, &grant, &outcome) && outcome != OUTCOME_ERROR)
		outcome = nest_at_backend(k, k->request.ttl_ms, &grant);
	atomic_store(&k->s->shared->fence, grant.fence);
	k->event.lease_ms = grant.ttl_ms;
	keeping_exit(k, keeper_event_of(outcome));
}

static void join_hold(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	/* Renewals keep the hold's own TTL. */
	k->request.ttl_ms = 0;
	outcome = try_to_join(k, grant);
	if (outcome != OUTCOME_HELD)
		keeping_exit(k, keeper_event_of(outcome));
	/* The mode was checked when the hold was joined. */
	k->request.mode = HOLD_ANY;
	keeping_publish(k, grant);
	atomic_store(&k->s->shared->fence, grant->fence);
	k->hold_fd = k->share_fd;
	/* The next renewal counts from now: a daemon's lease may have begun long ago. */
	grant->sent_ms = clock_boot_ms();
	keeping_send(k, KEEPER_HELD);
}

static void __attribute__((noreturn)) end_joined_and_exit(struct keeping *k)
{
	struct grant unused = { 0 };
	enum keeper_event_type type;

	keeping_reset_timeouts(k);
	k->event.error = (struct error){ 0 };
	type = keeper_event_of(renew_joined(k, &unused, true));
	/* BUSY: it is held in another mode. */
	keeping_exit(k, type == KEEPER_HELD || type == KEEPER_BUSY ? KEEPER_RELEASED : type);
}

/* ---- when the others are dead ---- */

/* Let keeping_sleep() watch the guard, once it is started. */
static void watch_guard(struct keeping *k)
{
	const pid_t guard = atomic_load(&k->s->shared->guard);

	if (!guard || guard == k->guard)
		return;
	if (k->guard_fd >= 0)
		close(k->guard_fd);
	k->guard = guard;
	k->guard_fd = pidfd_open_once(guard);
}

/* The pause between two continuations of the supervisor. */
#define CONTINUE_MS 100

/*
 * After the guard's death, continue a stopped supervisor, again and again, because it must kill the
 * guard's tree and then order the release. wake: from keeping_sleep(). Returns when to call this
 * again (CLOCK_BOOTTIME).
 */
static int64_t continue_supervisor(struct keeping *k, enum wake wake)
{
	const int64_t now_ms = clock_boot_ms();

	if (wake == WAKE_UNGUARDED)
		k->continue_ms = now_ms;
	if (now_ms < k->continue_ms)
		return k->continue_ms;
	if (getppid() == k->supervisor)
		kill(k->supervisor, SIGCONT);
	k->continue_ms = now_ms + CONTINUE_MS;
	return k->continue_ms;
}

/*
 * End without a release after supervisor and guard were killed, and the command with the guard: the
 * command's leftovers may still run, so the lease must lapse.
 */
static void __attribute__((noreturn)) abandon_and_exit(struct keeping *k)
{
	const pid_t command = atomic_load(&k->s->shared->command);

	k->abandoned = true;
	if (!command && k->mode != KEEPER_JOIN)
		keeping_release(k, true);
	/* In another session, another process has this number. */
	if (command && getsid(command) == k->session)
		kill(-command, SIGKILL);
	_exit(1);
}

/* Report the loss of the lock to the guard and the supervisor, and wait until the tree is dead. */
static void lose_lock(struct keeping *k)
{
	enum wake wake = WAKE_TIME;

	eventfd_write(k->s->lost_fd, 1);
	keeping_send(k, KEEPER_LOST);
	while (wake != WAKE_RELEASE) {
		if (wake == WAKE_ABANDONED)
			abandon_and_exit(k);
		watch_guard(k);
		wake = keeping_sleep(k, continue_supervisor(k, wake), false);
	}
}

/* ---- renewals, of its own hold or of one that a run has joined ---- */

/* Return the TTL of the lease, or, without one, the pause between two checks of the lock. */
static int64_t renewal_period(const struct keeping *k, const struct grant *grant)
{
	return grant->ttl_ms ? grant->ttl_ms : k->s->request.ttl_ms;
}

/* Return when to renew after a renewal at start_ms (CLOCK_BOOTTIME). */
static int64_t next_renewal(const struct keeping *k, const struct grant *grant, int64_t start_ms)
{
	return k->s->run->no_renew ? CLOCK_NEVER
				      : lease_renew_at(start_ms, renewal_period(k, grant));
}

/*
 * Limit a renewal to the time when the command must be dead, because the release comes next, or
 * when a daemon must signal its process. False: it is too late to begin one.
 */
static bool limit_calls(struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->s->shared);
	int64_t deadline_ms = lease_stop(lease, k->s->run->kill_after_ms).kill_ms, left_ms;

	if (k->listener >= 0)
		deadline_ms = keeping_deadline(k);
	left_ms = deadline_ms - clock_boot_ms();
	if (left_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(left_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(left_ms, k->connect_timeout_ms);
	return true;
}

/* Renew once, or verify with --no-renew. */
static enum outcome renew_or_verify(struct keeping *k, struct grant *grant, bool verify)
{
	/* The daemon's answer to a verification has no lease. */
	struct grant as_before = *grant;

	k->event.error = (struct error){ 0 };
	if (k->mode == KEEPER_JOIN)
		return renew_joined(k, verify ? &as_before : grant, verify);
	return verify ? verify_here(k, grant) : keeping_renew_once(k, grant, &k->event.error);
}

/*
 * Renew, or verify with --no-renew, and set *next_ms to the next time (CLOCK_BOOTTIME). False: the
 * hold is lost, with the reason in k->event.error.
 */
static bool renew_lease(struct keeping *k, struct grant *grant, int64_t *next_ms)
{
	const bool verify = k->s->run->no_renew;
	const int64_t asked_ms = clock_boot_ms();

	*next_ms = CLOCK_NEVER;
	if (!limit_calls(k)) {
		k->trouble = true;
		return true;
	}
	switch (renew_or_verify(k, grant, verify)) {
	case OUTCOME_HELD:
		if (!verify)
			keeping_publish(k, grant);
		if (k->trouble)
			keeping_send(k, KEEPER_RENEWED);
		k->trouble = false;
		*next_ms = next_renewal(k, grant, asked_ms);
		return true;
	case OUTCOME_ERROR:
		if (!k->trouble)
			keeping_send(k, KEEPER_TROUBLE);
		k->trouble = true;
		*next_ms = clock_boot_ms() + lease_retry_ms(renewal_period(k, grant));
		return true;
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		break;
	}
	return false;
}

/* ---- holding ---- */

/* Handle a loss, and clean up with a release unless the hold was joined. */
static void handle_loss(struct keeping *k)
{
	if (k->listener >= 0)
		keeping_lose_daemon_exit(k);
	if (keeping_is_retained(k))
		_exit(0);
	lose_lock(k);
	if (k->mode == KEEPER_JOIN)
		keeping_exit(k, KEEPER_LOST);
	keeping_release(k, true);
}

static void __attribute__((noreturn)) hold_and_exit(struct keeping *k, struct grant *grant)
{
	int64_t renew_ms = next_renewal(k, grant, grant->sent_ms);
	int64_t until_ms, next_event_ms;
	enum wake wake = k->abandoned ? WAKE_ABANDONED : WAKE_TIME;

	k->timer = clock_timer_open();
	for (;;) {
		if (wake == WAKE_ABANDONED)
			abandon_and_exit(k);
		watch_guard(k);
		until_ms = clock_earlier(renew_ms, keeping_deadline(k));
		until_ms = clock_earlier(until_ms, continue_supervisor(k, wake));
		if (grant->event_ms)
			until_ms = clock_earlier(until_ms, grant->event_ms);
		/* While renewals fail, events wait for the next one. */
		wake = keeping_sleep(k, until_ms, !k->trouble);
		if (grant->event_ms && clock_boot_ms() >= grant->event_ms && wake == WAKE_TIME)
			wake = WAKE_EVENT;
		switch (wake) {
		case WAKE_RELEASE:
			k->leaving = true;
			break;
		case WAKE_DETACH:
			keeping_detach(k, grant);
			break;
		case WAKE_EVENT:
			grant->event_ms = 0;
			next_event_ms = k->backend->ops->event(k->backend);
			/* While renewals fail, the pause between them stays. */
			if (!k->trouble)
				renew_ms = clock_earlier(renew_ms, next_event_ms);
			break;
		case WAKE_QUERY:
			if (!keeping_answer(k, grant))
				handle_loss(k);
			break;
		case WAKE_CHECK:
			renew_ms = 0;
			break;
		default:
			break;
		}
		/* No run can join now, and the last member ends the hold. */
		if (k->leaving && k->mode == KEEPER_JOIN)
			end_joined_and_exit(k);
		else if ((k->leaving && !k->members) || clock_boot_ms() >= k->until_ms)
			keeping_release(k, true);
		else if (clock_boot_ms() >= keeping_deadline(k) ||
			 (clock_boot_ms() >= renew_ms && !renew_lease(k, grant, &renew_ms)))
			handle_loss(k);
	}
}

/* ---- from the start ---- */

static void set_backend(struct keeping *k, struct backend *backend)
{
	k->backend = backend;
	k->timeout_ms = backend->timeout_ms;
	k->connect_timeout_ms = backend->connect_timeout_ms;
}

/* Check before the first request that a guard can be watched. */
static void check_guard(struct keeping *k)
{
	int self;

	if (!k->s->run->argv ||
	    (k->mode != KEEPER_ACQUIRE && k->mode != KEEPER_JOIN))
		return;
	self = pidfd_open_once(getpid());
	if (self < 0) {
		error_set(&k->event.error, ERROR_INTERNAL, errno, "pidfd_open");
		keeping_exit(k, KEEPER_FAILED);
	}
	close(self);
}

void keeping_main(const struct supervisor *s, enum keeper_mode mode, int fd)
{
	static struct keeping k = {
		.guard_fd = -1, .listener = -1, .timer = -1, .watchdog = -1,
		.until_ms = CLOCK_NEVER, .continue_ms = CLOCK_NEVER, .share_fd = -1, .hold_fd = -1,
	};
	struct grant grant = { 0 };
	struct backend *backend;

	k.s = s;
	k.mode = mode;
	k.request = s->request;
	k.self = s->self;
	holder_encode(&k.self, k.text);
	k.request.text = k.text;
	/* Backends jitter their pauses with rand(), differently in each process. */
	srand((unsigned int)clock_read_us(CLOCK_REALTIME) ^ (unsigned int)getpid());
	k.fd = fd;
	k.session = getsid(0);
	k.supervisor = getppid();
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
		keeping_exit(&k, KEEPER_FAILED);
	}
	close(s->guard_pipe[1]);
	if (mode == KEEPER_ADOPT || mode == KEEPER_KEEP) {
		set_backend(&k, s->backend);
		grant = s->local_grant;
		k.hold_fd = grant.hold_fd;
		if (mode == KEEPER_KEEP)
			keeping_release(&k, true);
		else
			keeping_detach(&k, &grant);
		hold_and_exit(&k, &grant);
	}
	check_guard(&k);
	backend = backend_open(s->run->driver, s->run->uri,
			       mode == KEEPER_ACQUIRE ? &k.request : NULL, &k.event.error);
	if (!backend)
		keeping_exit(&k, KEEPER_FAILED);
	set_backend(&k, backend);
	atomic_store(&s->shared->session, k.backend->session);
	if (mode == KEEPER_NEST)
		nest_and_exit(&k);
	if (mode == KEEPER_RELEASE)
		keeping_release(&k, true);
	if (mode == KEEPER_JOIN)
		join_hold(&k, &grant);
	else
		acquire_lock(&k, &grant);
	hold_and_exit(&k, &grant);
}
