/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process: gets the lock, then sleeps in one poll() until it is to be renewed, an
 * order comes, or the guard says that the command's tree is dead; then it gives the lock back and
 * ends.
 */
#include "keeping.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/pidfd.h"
#include "lock/hold.h"
#include "lock/lease.h"

/* ---- when the others are dead ---- */

/* From now on keeping_sleep() sees the guard end, if there is one already. */
static void watch_guard(struct keeping *k)
{
	const pid_t guard = atomic_load(&k->plan->shared->guard);

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
 * Called with what keeping_sleep() returned, and at the time that this function returned before
 * (CLOCK_BOOTTIME). When the guard has died, the supervisor kills what the guard has left, and then
 * orders the release. A supervisor that is stopped is continued for that, again and again.
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
 * Supervisor and guard were killed, and the command with the guard. What the command has left
 * running may go on, so that the lease is left to lapse.
 */
static void __attribute__((noreturn)) abandon_and_exit(struct keeping *k)
{
	const pid_t command = atomic_load(&k->plan->shared->command);

	k->abandoned = true;
	if (!command && k->plan->mode != KEEPER_JOIN)
		keeping_release(k, true);
	/* In another session, another process has its number. */
	if (command && getsid(command) == k->session)
		kill(-command, SIGKILL);
	_exit(1);
}

/* Wakes the guard, and tells the supervisor. */
static void send_lost(struct keeping *k)
{
	static const uint64_t one = 1;

	if (write(k->plan->lost_fd, &one, sizeof(one)) < 0)
		shared_set_lease(k->plan->shared, (struct lease_span){ .end_ms = 0, .ttl_ms = 1 });
	keeping_send(k, KEEPER_LOST);
}

/* The lock is lost: returns when the tree is dead. */
static void lose_lock(struct keeping *k)
{
	enum wake wake = WAKE_TIME;

	send_lost(k);
	while (wake != WAKE_RELEASE) {
		if (wake == WAKE_ABANDONED)
			abandon_and_exit(k);
		watch_guard(k);
		wake = keeping_sleep(k, continue_supervisor(k, wake), false);
	}
}

/* ---- renewals, of its own hold or of one that a run has joined ---- */

/* How long the lease is, or, without one, how often to look that the lock is still held. */
static int64_t renewal_period(const struct keeping *k, const struct grant *grant)
{
	return grant->ttl_ms ? grant->ttl_ms : k->plan->request->ttl_ms;
}

/* When to renew after a renewal at start_ms (CLOCK_BOOTTIME). */
static int64_t next_renewal(const struct keeping *k, const struct grant *grant, int64_t start_ms)
{
	return k->plan->run->no_renew ? CLOCK_NEVER
				      : lease_renew_at(start_ms, renewal_period(k, grant));
}

/*
 * No renewal goes on beyond the time when the command must be dead, because the release comes next,
 * or when a daemon must tell its process. False: it is too late to begin one.
 */
static bool limit_calls(struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->plan->shared);
	int64_t deadline_ms = lease_stop(lease, k->plan->run->kill_after_ms).kill_ms, left_ms;

	if (k->listener >= 0)
		deadline_ms = keeping_deadline(k);
	left_ms = deadline_ms - clock_boot_ms();
	if (left_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(left_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(left_ms, k->connect_timeout_ms);
	return true;
}

/* With --no-renew it only verifies. */
static enum outcome renew_or_verify(struct keeping *k, struct grant *grant, bool verify)
{
	struct error *err = &k->event.error;

	*err = (struct error){ 0 };
	if (k->plan->mode == KEEPER_JOIN)
		return verify ? keeping_verify_joined(k) : keeping_renew_joined(k, grant);
	return verify ? hold_verify(k->backend, &k->request, err)
		      : keeping_renew_once(k, grant, err);
}

/*
 * Renews or, with --no-renew, verifies, and says when to do so next (CLOCK_BOOTTIME). False: the
 * hold is lost, and k->event.error says how.
 */
static bool renew_lease(struct keeping *k, struct grant *grant, int64_t *next_ms)
{
	const bool verify = k->plan->run->no_renew;
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
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, KEEPING_GONE);
	return false;
}

/* ---- holding ---- */

/* Nothing is left to hold the lock for. Returns if it is kept for a minimum hold. */
static void end_hold(struct keeping *k)
{
	if (k->plan->mode == KEEPER_JOIN)
		keeping_end_joined_exit(k);
	keeping_release(k, true);
}

/* The lock is lost. A joined hold leaves nothing to give back; else what is left of it is freed. */
static void handle_loss(struct keeping *k)
{
	if (k->listener >= 0)
		keeping_lose_daemon_exit(k);
	/* Nobody waits for the end of a minimum hold. */
	if (keeping_is_retained(k))
		_exit(0);
	lose_lock(k);
	if (k->plan->mode == KEEPER_JOIN)
		keeping_exit(k, KEEPER_LOST);
	keeping_release(k, true);
}

static void __attribute__((noreturn)) hold_and_exit(struct keeping *k, struct grant *grant)
{
	int64_t renew_ms = next_renewal(k, grant, grant->sent_ms), event_ms = CLOCK_NEVER;
	int64_t until_ms, next_event_ms;
	enum wake wake = k->abandoned ? WAKE_ABANDONED : WAKE_TIME;

	if (k->timer < 0)
		k->timer = clock_timer_open();
	if (!k->timeout_ms) {
		k->timeout_ms = k->backend->timeout_ms;
		k->connect_timeout_ms = k->backend->connect_timeout_ms;
	}
	if (grant->event_ms)
		event_ms = grant->event_ms;
	for (;;) {
		if (wake == WAKE_ABANDONED)
			abandon_and_exit(k);
		watch_guard(k);
		until_ms = clock_earlier(clock_earlier(renew_ms, event_ms), keeping_deadline(k));
		until_ms = clock_earlier(until_ms, continue_supervisor(k, wake));
		/* What an event means waits for the next renewal, which also takes it in. */
		wake = keeping_sleep(k, until_ms, !k->trouble);
		if (clock_boot_ms() >= event_ms && wake == WAKE_TIME)
			wake = WAKE_EVENT;
		switch (wake) {
		case WAKE_RELEASE:
			k->leaving = true;
			break;
		case WAKE_DETACH:
			keeping_detach(k, grant);
			break;
		case WAKE_EVENT:
			event_ms = CLOCK_NEVER;
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
		/* No run joins from now on, and the last one that has ends the hold. */
		if (k->leaving && !k->members)
			end_hold(k);
		else if (clock_boot_ms() >= k->until_ms)
			keeping_release(k, true);
		else if (clock_boot_ms() >= keeping_deadline(k) ||
			 (clock_boot_ms() >= renew_ms && !renew_lease(k, grant, &renew_ms)))
			handle_loss(k);
	}
}

/* ---- from the start ---- */

/* Backends vary their pauses with rand(): each process needs a seed of its own. */
static void seed_jitter(const char *token)
{
	unsigned int seed = 0;

	while (*token)
		seed = seed * 31 + (unsigned char)*token++;
	srand(seed);
}

/* A guard can be watched: before anything is asked for a command. */
static void check_guard(struct keeping *k)
{
	struct pidfd self;

	if (!k->plan->run->argv ||
	    (k->plan->mode != KEEPER_ACQUIRE && k->plan->mode != KEEPER_JOIN))
		return;
	if (pidfd_init(&self, getpid(), &k->event.error))
		keeping_exit(k, KEEPER_FAILED);
	pidfd_finish(&self);
}

void keeping_main(const struct keeper_plan *plan, int fd)
{
	static struct keeping k = {
		.guard_fd = -1, .listener = -1, .timer = -1, .watchdog = -1,
		.until_ms = CLOCK_NEVER, .continue_ms = CLOCK_NEVER, .share_fd = -1, .hold_fd = -1,
	};
	struct grant grant = { 0 };

	k.plan = plan;
	k.request = *plan->request;
	k.self = *plan->self;
	holder_encode(&k.self, k.text);
	k.request.text = k.text;
	seed_jitter(k.request.token);
	k.fd = fd;
	k.session = getsid(0);
	k.supervisor = getppid();
	prctl(PR_SET_NAME, "dlock-keeper");
	/* In a session of its own it outlives what ends dlock's job or terminal, to clean up. */
	setsid();
	/*
	 * It must not keep the user's pipes open, nor a library write to them. The descriptors that
	 * a library opens later do not close on exec either.
	 */
	fds_drop_standard();
	fds_close_inherited();
	if (plan->guard_pipe[1] >= 0)
		close(plan->guard_pipe[1]);
	if (plan->mode == KEEPER_ADOPT || plan->mode == KEEPER_KEEP) {
		k.backend = plan->backend;
		grant = *plan->grant;
		k.hold_fd = grant.hold_fd;
		if (plan->mode == KEEPER_KEEP)
			keeping_release(&k, true);
		else
			keeping_detach(&k, &grant);
		hold_and_exit(&k, &grant);
	}
	check_guard(&k);
	k.backend = backend_open(plan->run->driver, plan->run->uri,
				 plan->mode == KEEPER_ACQUIRE ? &k.request : NULL, &k.event.error);
	if (!k.backend)
		keeping_exit(&k, KEEPER_FAILED);
	atomic_store(&plan->shared->session, k.backend->session);
	if (plan->mode == KEEPER_NEST)
		keeping_nest_exit(&k);
	if (plan->mode == KEEPER_RELEASE)
		keeping_release(&k, true);
	if (plan->mode == KEEPER_JOIN)
		keeping_join(&k, &grant);
	else
		keeping_acquire(&k, &grant);
	hold_and_exit(&k, &grant);
}
