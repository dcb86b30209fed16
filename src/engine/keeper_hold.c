/* SPDX-License-Identifier: MIT */
/*
 * The keeper's single steps: it sends events, calls the backend about its hold, sleeps, and
 * releases.
 */
#include "keeping.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/system_log.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "lock/view.h"

/* ---- events ---- */

/* The most bytes that the supervisor has not read (SIOCOUTQ): a third of Linux' limit. */
#define UNREAD_MAX (64 * 1024)

/*
 * Drop events that are only shown while the supervisor is stopped, so that those that change the
 * outcome always find room and do not block.
 */
static bool is_worth_sending(const struct keeping *k, enum keeper_event_type type)
{
	int unread = 0;

	switch (type) {
	case KEEPER_WAITING:
	case KEEPER_RETRYING:
	case KEEPER_RENEWED:
	case KEEPER_TROUBLE:
		return ioctl(k->fd, SIOCOUTQ, &unread) || unread < UNREAD_MAX;
	default:
		return true;
	}
}

/* Log an event of a daemon, which has no terminal. */
static void log_event(const struct keeping *k, enum keeper_event_type type)
{
	const char *name = k->request.name, *why = k->event.error.message;

	switch (type) {
	case KEEPER_TROUBLE:
		system_log(LOG_WARNING, name, "cannot renew the lock: %s; trying again", why);
		break;
	case KEEPER_RENEWED:
		system_log(LOG_NOTICE, name, "the lock is renewed again");
		break;
	case KEEPER_LOST:
		system_log(LOG_ERR, name, "lock lost: %s", why);
		break;
	case KEEPER_FAILED:
		system_log(LOG_ERR, name, "could not release the lock: %s", why);
		break;
	default:
		break;
	}
}

void keeping_end_daemon(struct keeping *k)
{
	ssize_t ignored = 0;

	if (k->listener < 0)
		return;
	close(k->listener);
	k->listener = -1;
	if (k->watchdog >= 0)
		ignored = write(k->watchdog, "", 1);
	(void)ignored;	/* The watchdog has ended if its process has. */
}

/*
 * End this process after a message has failed. The supervisor starts another keeper that releases.
 */
static void __attribute__((noreturn)) abort_and_exit(struct keeping *k)
{
	keeping_end_daemon(k);
	_exit(1);
}

void keeping_send(struct keeping *k, enum keeper_event_type type)
{
	k->event.type = type;
	if (type == KEEPER_LOST && !k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, KEEPING_GONE);
	if (k->fd < 0)
		log_event(k, type);
	if (k->fd < 0 || !is_worth_sending(k, type))
		return;
	if (ipc_send(k->fd, &k->event, sizeof(k->event), 0,
		     type == KEEPER_HELD ? k->hold_fd : -1) == IPC_FAILED)
		abort_and_exit(k);
}

void keeping_exit(struct keeping *k, enum keeper_event_type type)
{
	keeping_end_daemon(k);
	k->event.last = true;
	keeping_send(k, type);
	_exit(0);
}

/* ---- its hold ---- */

void keeping_publish(struct keeping *k, const struct grant *grant)
{
	struct lease_span lease = { .end_ms = CLOCK_NEVER, .ttl_ms = grant->ttl_ms };

	if (grant->ttl_ms)
		lease.end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	shared_set_lease(k->s->shared, lease);
	atomic_store(&k->s->shared->session_ms, k->backend->session_ms);
}

/* Return for how many ms the lock is retained, which needs a connection that can be. */
static int64_t retained_for(const struct keeping *k)
{
	const int offer = atomic_load(&k->s->shared->offer);

	/* A guard that was too late for the offer has written the time, too. */
	if (offer == OFFER_WITHDRAWN || offer == OFFER_CLOSED || keeping_is_retained(k))
		return 0;
	/* The connection of a keeper that was killed cannot be retained. */
	if (k->backend->session && k->mode == KEEPER_RELEASE)
		return 0;
	return shared_keep_ms(k->s->shared, k->s->run);
}

void keeping_reset_timeouts(struct keeping *k)
{
	k->backend->timeout_ms = k->timeout_ms;
	k->backend->connect_timeout_ms = k->connect_timeout_ms;
}

enum outcome keeping_renew_once(struct keeping *k, struct grant *grant, struct error *err)
{
	struct request request = k->request;
	enum outcome outcome;

	request.text = k->text_changed ? k->text : NULL;
	outcome = hold_renew(k->backend, &request, grant, err);
	if (outcome == OUTCOME_HELD)
		k->text_changed = false;
	return outcome;
}

void keeping_change_text(struct keeping *k)
{
	holder_encode(&k->self, k->text);
	k->text_changed = true;
}

void keeping_view(struct keeping *k)
{
	struct lock_view view = { 0 };
	struct error ignored = { 0 };
	const struct hold_view *first;

	if (k->orphaned || k->abandoned ||
	    hold_view(k->backend, k->request.name, k->request.token, &view, &ignored))
		return;
	first = lock_view_first(&view);
	k->viewed_ms = clock_boot_ms();
	k->event.wait.holder_known = first != NULL;
	k->event.wait.ahead = lock_view_ahead(&view);
	if (first) {
		k->event.wait.holder = first->holder;
		k->event.wait.since_ms = first->age_ms < 0 ? 0 : k->viewed_ms - first->age_ms;
	}
	lock_view_finish(&view);
}

/* Release, or retain for keep_ms if that is not 0. */
static enum outcome try_release(struct keeping *k, int64_t keep_ms, int64_t lease_end_ms,
				struct error *err)
{
	struct grant grant = { 0 };

	if (!k->backend->session || keep_ms <= 0)
		return hold_release(k->backend, &k->request, &k->self, keep_ms, lease_end_ms, err);
	/* The hold lives with this process, and its record says that it is only retained. */
	keeping_change_text(k);
	return keeping_renew_once(k, &grant, err);
}

/* The pause before the success of --once-per is stored again. */
#define STORE_AGAIN_MS 200

enum outcome keeping_release_once(struct keeping *k, int64_t *keep_ms, struct error *err)
{
	const int64_t lease_end_ms = shared_lease(k->s->shared).end_ms;
	enum outcome outcome;

	*keep_ms = retained_for(k);
	if (*keep_ms > 0)
		k->self.kept_ms = clock_wall_ms() + *keep_ms;
	if (*keep_ms > 0 && k->s->run->once_ms)
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

/* ---- sleep ---- */

static enum wake read_order(struct keeping *k)
{
	enum keeper_order order;

	switch (ipc_receive(k->fd, &order, sizeof(order), 0, NULL)) {
	case IPC_DONE:
		break;
	case IPC_FAILED:
		abort_and_exit(k);
	case IPC_LATER:
		return WAKE_TIME;
	case IPC_GONE:
		k->orphaned = true;
		return WAKE_ORPHANED;
	}
	switch (order) {
	case KEEPER_ORDER_RETRY:
		return WAKE_RETRY;
	case KEEPER_ORDER_DETACH:
		return WAKE_DETACH;
	case KEEPER_ORDER_RELEASE:
		break;
	}
	return WAKE_RELEASE;
}

/* Read the guard's byte, or notice that guard and supervisor are dead. */
static enum wake read_guard(const struct keeping *k)
{
	char byte;

	return read(k->s->guard_pipe[0], &byte, 1) == 1 ? WAKE_RELEASE : WAKE_ABANDONED;
}

/*
 * Read a daemon's signals: it ends on TERM, and verifies the lock on URG, which `dlock break`
 * sends. It ignores others, HUP above all.
 */
static enum wake read_signals(const struct keeping *k)
{
	enum wake wake = WAKE_TIME;
	int sig;

	while ((sig = signals_next(k->s->signals, NULL))) {
		if (sig == SIGTERM)
			wake = WAKE_RELEASE;
		else if (sig == SIGURG && wake == WAKE_TIME)
			wake = WAKE_CHECK;
	}
	return wake;
}

/* The pause where poll() is refused. */
#define UNPOLLED_NS 100000000

enum wake keeping_sleep(struct keeping *k, int64_t until_ms, bool with_backend)
{
	enum {
		ORDERS, GUARD, QUERIES, PROCESS, SHARE, GUARD_END, SIGNALS, TIMER, BACKEND, POLLED
	};
	/* A daemon, or a minimum hold. */
	const bool detached = k->fd < 0, guarded = !detached && !k->abandoned;
	const bool polled = with_backend && k->backend->ops->fd;
	/* The process of a daemon that is leaving has ended already. */
	const struct pidfd *process = k->listener >= 0 && !k->leaving ? k->s->process : NULL;
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned ? -1 : k->fd },
		[GUARD] = { .fd = guarded ? k->s->guard_pipe[0] : -1 },
		[GUARD_END] = { .fd = detached ? -1 : k->guard_fd },
		[QUERIES] = { .fd = k->listener < 0 ? -1 : k->callers },
		[PROCESS] = { .fd = process ? process->fd : -1 },
		[SHARE] = { .fd = k->daemon_ended ? -1 : k->share_fd },
		[SIGNALS] = { .fd = detached ? k->s->signals->fd : -1 },
		[TIMER] = { .fd = k->timer },
		[BACKEND] = { .fd = polled ? k->backend->ops->fd(k->backend) : -1 },
	};

	for (int i = 0; i < POLLED; i++)
		fds[i].events = POLLIN;
	/* An unread message stays in it. */
	fds[SHARE].events = POLLRDHUP;
	if (k->timer >= 0)
		clock_timer_set(k->timer, until_ms);
	if (poll(fds, POLLED, clock_poll_timeout(until_ms)) < 0 && errno == EINVAL)
		/* RLIMIT_NOFILE is too low even to poll these descriptors. */
		nanosleep(&(struct timespec){ .tv_nsec = UNPOLLED_NS }, NULL);
	/* Before the guard's end, because the guard writes and then ends. */
	if (fds[GUARD].revents)
		return read_guard(k);
	if (fds[PROCESS].revents)
		return WAKE_RELEASE;
	if (fds[GUARD_END].revents) {
		close(k->guard_fd);
		k->guard_fd = -1;
		return WAKE_UNGUARDED;
	}
	if (fds[SIGNALS].revents)
		return read_signals(k);
	if (fds[ORDERS].revents)
		return read_order(k);
	if (fds[QUERIES].revents)
		return WAKE_QUERY;
	/* The daemon that was joined has ended: returned once. */
	if (fds[SHARE].revents) {
		k->daemon_ended = true;
		return WAKE_CHECK;
	}
	return fds[BACKEND].revents ? WAKE_EVENT : WAKE_TIME;
}

/* ---- the end ---- */

void keeping_keep(struct keeping *k, int64_t keep_ms)
{
	keeping_end_daemon(k);
	/* Processes that wait for the supervisor must not wait for this one. */
	close(k->fd);
	k->fd = -1;
	prctl(PR_SET_NAME, "dlock-min-hold");
	/* Do not keep a file system busy. */
	if (chdir("/"))
		_exit(1);
	k->until_ms = clock_boot_ms() + keep_ms;
	k->continue_ms = CLOCK_NEVER;
	k->leaving = k->trouble = false;
}

void keeping_release(struct keeping *k, bool was_held)
{
	int64_t keep_ms;

	k->backend->cancel_fd = -1;
	keeping_reset_timeouts(k);
	switch (keeping_release_once(k, &keep_ms, &k->event.error)) {
	case OUTCOME_HELD:
		if (!k->backend->session || !keep_ms)
			keeping_exit(k, KEEPER_RELEASED);
		k->event.last = k->event.keeps = true;
		keeping_send(k, KEEPER_RELEASED);
		keeping_keep(k, keep_ms);
		return;
	case OUTCOME_LOST:
		if (was_held)
			keeping_exit(k, KEEPER_LOST);
		keeping_view(k);
		keeping_exit(k, KEEPER_BUSY);
	case OUTCOME_BUSY:
	case OUTCOME_ERROR:
		break;
	}
	keeping_exit(k, KEEPER_FAILED);
}
