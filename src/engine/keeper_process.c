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
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "lock/lease.h"
#include "keeper_acquire.h"
#include "keeper_daemon.h"
#include "keeper_hold.h"
#include "keeper_join.h"

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

	k->stage = STAGE_LOST;
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
	const int64_t deadline_ms = k->stage == STAGE_DAEMON ? next_deadline(k)
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
	if (k->stage == STAGE_DAEMON)
		lose_and_exit(k);
	if (k->stage == STAGE_RETAINED)
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
		k.stage = STAGE_HOLDING;
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
