/* SPDX-License-Identifier: MIT */
/* The hold of a keeper: events, renewals, sleep, release. */
#include "keeper_hold.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/system_log.h"
#include "lock/hold.h"
#include "lock/lease.h"

/* ---- events ---- */

/* The most bytes that the supervisor has not read (SIOCOUTQ): a third of Linux' limit. */
#define UNREAD_MAX (64 * 1024)

/*
 * Drop events that are only shown while the supervisor is stopped, so that those that change the
 * outcome always find room and do not block.
 */
static bool is_worth_sending(const struct keeping *k, enum keeper_event_type type)
{
	const bool shown = type == KEEPER_WAITING || type == KEEPER_RETRYING ||
			   type == KEEPER_RENEWED || type == KEEPER_TROUBLE;
	int unread = 0;

	return !shown || ioctl(k->fd, SIOCOUTQ, &unread) || unread < UNREAD_MAX;
}

/* Log an event of a daemon, which has no terminal. */
static void log_event(const struct keeping *k, enum keeper_event_type type)
{
	const char *name = k->request.name, *why = k->event.error.message;

	if (type == KEEPER_TROUBLE)
		system_log(LOG_WARNING, name, "cannot renew the lock: %s; trying again", why);
	else if (type == KEEPER_RENEWED)
		system_log(LOG_NOTICE, name, "the lock is renewed again");
	else if (type == KEEPER_LOST)
		system_log(LOG_ERR, name, "lock lost: %s", why);
	else if (type == KEEPER_FAILED)
		system_log(LOG_ERR, name, "could not release the lock: %s", why);
}

void end_daemon(struct keeping *k)
{
	ssize_t ignored = 0;

	if (k->daemon.listener < 0)
		return;
	close(k->daemon.listener);
	k->daemon.listener = -1;
	if (k->daemon.watchdog >= 0)
		ignored = write(k->daemon.watchdog, "", 1);
	(void)ignored;	/* The watchdog has ended if its process has. */
}

void send_event(struct keeping *k, enum keeper_event_type type)
{
	k->event.type = type;
	if (type == KEEPER_LOST && !k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, NOT_HELD);
	if (k->fd < 0)
		log_event(k, type);
	if (k->fd < 0 || !is_worth_sending(k, type))
		return;
	if (ipc_send(k->fd, &k->event, sizeof(k->event), 0,
		     type == KEEPER_HELD ? k->hold_fd : -1) == IPC_FAILED)
		shutdown(k->fd, SHUT_RDWR);
}

void send_and_exit(struct keeping *k, enum keeper_event_type type)
{
	end_daemon(k);
	k->event.last = true;
	send_event(k, type);
	_exit(0);
}

/* ---- its hold ---- */

void publish_lease(struct keeping *k, const struct grant *grant)
{
	struct lease_span lease = { .end_ms = CLOCK_NEVER, .ttl_ms = grant->ttl_ms };

	if (grant->ttl_ms)
		lease.end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	shared_set_lease(k->job->shared, lease);
	atomic_store(&k->job->shared->session_ms, k->backend->session_ms);
}

/* Return for how many ms the lock is retained, which needs a connection that can be. */
static int64_t retained_for(const struct keeping *k)
{
	const int offer = atomic_load(&k->job->shared->offer);

	/* A guard that was too late for the offer has written the time, too. */
	if (offer == OFFER_WITHDRAWN || offer == OFFER_CLOSED || k->stage == STAGE_RETAINED)
		return 0;
	return shared_keep_ms(k->job->shared, k->job->run);
}

bool limit_calls(struct keeping *k, int64_t left_ms)
{
	if (left_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(left_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(left_ms, k->connect_timeout_ms);
	return true;
}

enum outcome renew_once(struct keeping *k, struct grant *grant, struct error *err)
{
	struct request request = k->request;
	enum outcome outcome;

	request.text = k->text_changed ? k->text : NULL;
	outcome = hold_renew(k->backend, &request, grant, err);
	if (outcome == OUTCOME_HELD)
		k->text_changed = false;
	return outcome;
}

void change_text(struct keeping *k)
{
	holder_encode(&k->self, k->text);
	k->text_changed = true;
}

void view_lock(struct keeping *k)
{
	struct rows view = { 0 };
	struct error ignored = { 0 };

	if (k->orphaned || k->abandoned ||
	    hold_show(k->backend, k->request.name, k->request.token, &view, &ignored))
		return;
	k->viewed_ms = clock_boot_ms();
	run_view(&k->event.wait, &view);
	rows_finish(&view);
}

/* Release, or retain for keep_ms if that is not 0. */
static enum outcome try_release(struct keeping *k, int64_t keep_ms, int64_t lease_end_ms,
				struct error *err)
{
	struct grant grant = { 0 };
	struct error ignored = { 0 };
	enum outcome outcome;

	if (!k->backend->session || keep_ms <= 0)
		return hold_release(k->backend, &k->request, &k->self, keep_ms, lease_end_ms, err);
	/* The hold lives with this process, and its record says that it is only retained. */
	change_text(k);
	outcome = renew_once(k, &grant, err);
	/* Its entry must not keep others out until the lease ends. */
	if (outcome == OUTCOME_LOST)
		hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
	return outcome;
}

/* The pause before the success of --once-per is stored again. */
#define STORE_AGAIN_MS 200

enum outcome release_once(struct keeping *k, int64_t *keep_ms, struct error *err)
{
	const int64_t lease_end_ms = shared_lease(k->job->shared).end_ms;
	enum outcome outcome;

	*keep_ms = retained_for(k);
	/* Only once: by the same times a backend knows a record that it has stored before. */
	if (*keep_ms > 0)
		k->self.kept_ms = clock_wall_ms() + *keep_ms;
	if (*keep_ms > 0 && k->job->run->once_ms)
		k->self.done_ms = clock_wall_ms();
	outcome = try_release(k, *keep_ms, lease_end_ms, err);
	/* Otherwise another host would do again what is done. */
	while (outcome == OUTCOME_ERROR && err->kind == ERROR_UNAVAILABLE && k->self.done_ms &&
	       clock_boot_ms() + STORE_AGAIN_MS < lease_end_ms) {
		poll(NULL, 0, STORE_AGAIN_MS);
		*keep_ms = retained_for(k);
		outcome = try_release(k, *keep_ms, lease_end_ms, err);
	}
	return outcome;
}

enum outcome verify_here(struct keeping *k, struct grant *grant)
{
	return hold_verify(k->backend, &k->request, &grant->fence, &k->event.error);
}

/* ---- sleep ---- */

static enum wake read_order(struct keeping *k)
{
	enum keeper_order order;
	const enum ipc_result received = ipc_receive(k->fd, &order, sizeof(order), 0, NULL);

	if (received == IPC_LATER)
		return WAKE_TIME;
	if (received == IPC_FAILED)
		shutdown(k->fd, SHUT_RDWR);
	if (received != IPC_DONE) {
		k->orphaned = true;
		return WAKE_ORPHANED;
	}
	if (order == KEEPER_ORDER_RETRY)
		return WAKE_RETRY;
	return order == KEEPER_ORDER_DETACH ? WAKE_DETACH : WAKE_RELEASE;
}

/*
 * Read a daemon's signals: it ends on TERM, and verifies the lock on URG, which `dlock break`
 * sends. It ignores others, HUP above all.
 */
static enum wake read_signals(const struct keeping *k)
{
	enum wake wake = WAKE_TIME;
	int sig;

	while ((sig = signals_next(k->job->signals, NULL))) {
		if (sig == SIGTERM)
			wake = WAKE_RELEASE;
		else if (sig == SIGURG && wake == WAKE_TIME)
			wake = WAKE_CHECK;
	}
	return wake;
}

/* The pause where poll() is refused. */
#define UNPOLLED_NS 100000000

static enum wake poll_once(struct keeping *k, int64_t until_ms, bool with_backend)
{
	enum { ORDERS, GUARD, QUERIES, PROCESS, SHARE, SIGNALS, TIMER, BACKEND, POLLED };
	/* A daemon, or a minimum hold. */
	const bool detached = k->fd < 0, guarded = !detached && !k->abandoned;
	const bool polled = with_backend && k->backend->ops->fd;
	/* A wake-up that came with an answer is not in the descriptor. */
	const bool woken = polled && k->backend->woken;
	/* The process of a daemon that is leaving has ended already. */
	const struct pidfd *process = k->stage == STAGE_DAEMON && !k->leaving ? k->job->run->process
									      : NULL;
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned ? -1 : k->fd },
		[GUARD] = { .fd = guarded ? k->job->guard_pipe[0] : -1 },
		[QUERIES] = { .fd = k->daemon.listener < 0 ? -1 : k->daemon.callers },
		[PROCESS] = { .fd = process ? process->fd : -1 },
		[SHARE] = { .fd = k->joined.daemon_ended ? -1 : k->joined.share_fd },
		[SIGNALS] = { .fd = detached ? k->job->signals->fd : -1 },
		[TIMER] = { .fd = k->timer },
		[BACKEND] = { .fd = polled ? k->backend->ops->fd(k->backend) : -1 },
	};
	char byte;

	for (int i = 0; i < POLLED; i++)
		fds[i].events = POLLIN;
	/* An unread message stays in it. */
	fds[SHARE].events = POLLRDHUP;
	if (woken)
		until_ms = 0;
	if (k->timer >= 0)
		clock_timer_set(k->timer, until_ms);
	if (poll(fds, POLLED, clock_poll_timeout(until_ms)) < 0 && errno == EINVAL)
		/* RLIMIT_NOFILE is too low even to poll these descriptors. */
		nanosleep(&(struct timespec){ .tv_nsec = UNPOLLED_NS }, NULL);
	/* The guard's byte, or the end of file: guard and supervisor are dead. */
	if (fds[GUARD].revents)
		return read(k->job->guard_pipe[0], &byte, 1) == 1 ? WAKE_RELEASE : WAKE_ABANDONED;
	if (fds[PROCESS].revents)
		return WAKE_RELEASE;
	if (fds[SIGNALS].revents)
		return read_signals(k);
	if (fds[ORDERS].revents)
		return read_order(k);
	if (fds[QUERIES].revents)
		return WAKE_QUERY;
	/* The daemon that was joined has ended: returned once. */
	if (fds[SHARE].revents) {
		k->joined.daemon_ended = true;
		return WAKE_CHECK;
	}
	return fds[BACKEND].revents || woken ? WAKE_EVENT : WAKE_TIME;
}

/* The wakes of each stage, as README.md has them. */
#define BIT(wake) (1U << (wake))
#define TO_END (BIT(WAKE_TIME) | BIT(WAKE_RELEASE) | BIT(WAKE_ABANDONED) | \
		BIT(WAKE_ORPHANED))
#define ALONE (BIT(WAKE_TIME) | BIT(WAKE_EVENT) | BIT(WAKE_RELEASE) | \
	       BIT(WAKE_CHECK))
static const unsigned int wakes[] = {
	[STAGE_ACQUIRING] = TO_END | BIT(WAKE_EVENT),
	[STAGE_OFFERED] = TO_END | BIT(WAKE_DETACH),
	[STAGE_WITHDRAWN] = TO_END | BIT(WAKE_RETRY),
	[STAGE_HOLDING] = TO_END | BIT(WAKE_EVENT) | BIT(WAKE_DETACH),
	[STAGE_JOINED] = TO_END | BIT(WAKE_EVENT) | BIT(WAKE_CHECK),
	[STAGE_LOST] = TO_END | BIT(WAKE_DETACH) | BIT(WAKE_CHECK),
	[STAGE_DAEMON] = ALONE | BIT(WAKE_QUERY),
	[STAGE_RETAINED] = ALONE,
};

enum wake sleep_until(struct keeping *k, int64_t until_ms, bool with_backend)
{
	const enum wake wake = poll_once(k, until_ms, with_backend);

	assert(wakes[k->stage] & BIT(wake));
	return wake;
}

/* ---- the end ---- */

void retain_lock(struct keeping *k, int64_t keep_ms)
{
	end_daemon(k);
	k->stage = STAGE_RETAINED;
	/* Processes that wait for the supervisor must not wait for this one. */
	close(k->fd);
	k->fd = -1;
	prctl(PR_SET_NAME, "dlock-min-hold");
	/* Do not keep a file system busy. */
	if (chdir("/"))
		_exit(1);
	k->until_ms = clock_boot_ms() + keep_ms;
	k->leaving = k->trouble = false;
}

void release_lock(struct keeping *k, bool was_held)
{
	enum outcome outcome;
	int64_t keep_ms;

	k->backend->cancel_fd = -1;
	k->event.error = (struct error){ 0 };
	limit_calls(k, CLOCK_NEVER);
	outcome = release_once(k, &keep_ms, &k->event.error);
	if (outcome == OUTCOME_LOST && !was_held) {
		view_lock(k);
		send_and_exit(k, KEEPER_BUSY);
	}
	if (outcome != OUTCOME_HELD)
		send_and_exit(k, keeper_event_of(outcome));
	if (!k->backend->session || !keep_ms)
		send_and_exit(k, KEEPER_RELEASED);
	k->event.last = k->event.keeps = true;
	send_event(k, KEEPER_RELEASED);
	retain_lock(k, keep_ms);
}
