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
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/pidfd.h"
#include "lock/hold.h"
#include "lock/lease.h"

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
	struct error *err = &k->event.error;

	*err = (struct error){ 0 };
	if (k->mode == KEEPER_JOIN)
		return verify ? keeping_verify_joined(k) : keeping_renew_joined(k, grant);
	return verify ? hold_verify(k->backend, &k->request, &grant->fence, err)
		      : keeping_renew_once(k, grant, err);
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
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, KEEPING_GONE);
	return false;
}

/* ---- holding ---- */

/* End the hold after the tree or the process is dead. Returns for a minimum hold. */
static void end_hold(struct keeping *k)
{
	if (k->mode == KEEPER_JOIN)
		keeping_end_joined_exit(k);
	keeping_release(k, true);
}

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
		keeping_nest_exit(&k);
	if (mode == KEEPER_RELEASE)
		keeping_release(&k, true);
	if (mode == KEEPER_JOIN)
		keeping_join(&k, &grant);
	else
		keeping_acquire(&k, &grant);
	hold_and_exit(&k, &grant);
}
