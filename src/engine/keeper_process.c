/* SPDX-License-Identifier: MIT */
/*
 * The keeper's process. From its start to its end:
 *
 *	keeper_main()
 *	  acquire_lock()		acquires the lock and offers it
 *	  join_hold()			or joins an outer hold
 *	  hold_and_exit()		then in a loop, until the tree is dead:
 *	    sleep_until()		sleeps in one poll()
 *	    answer_caller()		a daemon's queries
 *	    renew_lease()
 *	  release_lock()
 *
 * keeper.c is the supervisor's side.
 */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/system_log.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "lock/uri.h"
#include "keeper_socket.h"
#include "supervisor.h"

/* The reason of a loss without an error. */
#define NOT_HELD "this token does not hold it any more"

/* Why sleep_until() has returned. */
enum wake {
	WAKE_TIME,
	WAKE_EVENT,		/* the backend's descriptor is readable */
	WAKE_RELEASE,		/* an order, or the tree or the process of --pid has ended */
	WAKE_ABANDONED,		/* supervisor and guard are gone; returned once */
	WAKE_RETRY,
	WAKE_DETACH,
	WAKE_ORPHANED,		/* the supervisor died just now */
	WAKE_QUERY,		/* daemon: the socket is readable */
	WAKE_CHECK,		/* the lock may be lost: SIGURG, or the joined daemon has ended */
};

struct keeping {
	const struct supervisor *s;	/* as it was at the fork */
	enum keeper_mode mode;
	struct request request;		/* the supervisor's, with the text below */
	struct holder self;		/* the supervisor's; a daemon sets until_ms in it */
	char text[HOLDER_TEXT_SIZE];	/* self, encoded */
	bool text_changed;		/* the next renewal stores it */
	int64_t timeout_ms;		/* of the backend's calls, as configured */
	int64_t connect_timeout_ms;
	struct backend *backend;
	int hold_fd;			/* see struct grant; joined: the share; -1: none */
	int fd;				/* to the supervisor; -1: a daemon, or a minimum hold */
	int64_t viewed_ms;		/* when the holders were last read; 0: never */
	bool orphaned;			/* the supervisor is dead: the guard's end is the order */
	bool abandoned;			/* supervisor and guard are dead */
	pid_t session;			/* of the supervisor, and of the command at its start */
	int listener;			/* daemon: its socket; -1 before */
	int callers;			/* daemon: epoll of its socket and the connections to it */
	int watchdog;			/* daemon for a process: ends its watchdog; -1: none */
	int timer;			/* of a hold, which a suspended host must not delay */
	int64_t until_ms;		/* end of a minimum hold, or of a daemon without process */
	int64_t own_ms;			/* TTL of that daemon, unless a renewal changes it */
	int members;			/* daemon: number of runs that have joined its hold */
	bool leaving;			/* daemon: release as soon as the last run has ended */
	int share_fd;			/* joined: see keeper_socket_ask(); -1: no daemon */
	bool daemon_ended;		/* joined */
	bool trouble;			/* the last renewal has failed, or was too late to begin */
	struct keeper_event event;	/* being sent */
};

/* Is the lock only retained for the rest of its minimum hold? */
static bool is_retained(const struct keeping *k)
{
	return k->fd < 0 && k->listener < 0;
}

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

/* Close a daemon's socket, and end its watchdog without a signal. */
static void end_daemon(struct keeping *k)
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
 * Send k->event as an event of this type. A failure ends the connection, and this process goes on
 * as after the supervisor's death. A daemon gets TERM then.
 */
static void send_event(struct keeping *k, enum keeper_event_type type)
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

/* send_event(), and end the process. */
static void __attribute__((noreturn)) send_and_exit(struct keeping *k, enum keeper_event_type type)
{
	end_daemon(k);
	k->event.last = true;
	send_event(k, type);
	_exit(0);
}

/* ---- its hold ---- */

/* Publish the lease for the processes that enforce it. */
static void publish_lease(struct keeping *k, const struct grant *grant)
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
	if (offer == OFFER_WITHDRAWN || offer == OFFER_CLOSED || is_retained(k))
		return 0;
	return shared_keep_ms(k->s->shared, k->s->run);
}

/* Limit the timeouts of the backend's calls to what is left. False: nothing is. */
static bool limit_calls(struct keeping *k, int64_t left_ms)
{
	if (left_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(left_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(left_ms, k->connect_timeout_ms);
	return true;
}

/* Reset these timeouts, which a lease or the limit of a wait has shortened. */
static void reset_timeouts(struct keeping *k)
{
	limit_calls(k, CLOCK_NEVER);
}

/* Renew once, and store k->text if it has changed. */
static enum outcome renew_once(struct keeping *k, struct grant *grant, struct error *err)
{
	struct request request = k->request;
	enum outcome outcome;

	request.text = k->text_changed ? k->text : NULL;
	outcome = hold_renew(k->backend, &request, grant, err);
	if (outcome == OUTCOME_HELD)
		k->text_changed = false;
	return outcome;
}

/* Encode k->self again, for the next renewal to store. */
static void change_text(struct keeping *k)
{
	holder_encode(&k->self, k->text);
	k->text_changed = true;
}

/* Read the holder and the number of waiters before this one, for the next event. */
static void view_lock(struct keeping *k)
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

	if (!k->backend->session || keep_ms <= 0)
		return hold_release(k->backend, &k->request, &k->self, keep_ms, lease_end_ms, err);
	/* The hold lives with this process, and its record says that it is only retained. */
	change_text(k);
	return renew_once(k, &grant, err);
}

/* The pause before the success of --once-per is stored again. */
#define STORE_AGAIN_MS 200

/*
 * Release the lock, unless the backend needs this process to keep it for the rest of the minimum
 * hold: HELD, and *keep_ms > 0. Then retain_lock() follows.
 */
static enum outcome release_once(struct keeping *k, int64_t *keep_ms, struct error *err)
{
	const int64_t lease_end_ms = shared_lease(k->s->shared).end_ms;
	enum outcome outcome;

	*keep_ms = retained_for(k);
	/* Only once: by the same times a backend knows a record that it has stored before. */
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
	case IPC_LATER:
		return WAKE_TIME;
	case IPC_FAILED:
		shutdown(k->fd, SHUT_RDWR);
		/* fall through */
	case IPC_GONE:
		k->orphaned = true;
		return WAKE_ORPHANED;
	}
	if (order == KEEPER_ORDER_RETRY)
		return WAKE_RETRY;
	return order == KEEPER_ORDER_DETACH ? WAKE_DETACH : WAKE_RELEASE;
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

/*
 * Sleep until an event or until_ms. The backend's descriptor counts only when with_backend is set.
 */
static enum wake sleep_until(struct keeping *k, int64_t until_ms, bool with_backend)
{
	enum { ORDERS, GUARD, QUERIES, PROCESS, SHARE, SIGNALS, TIMER, BACKEND, POLLED };
	/* A daemon, or a minimum hold. */
	const bool detached = k->fd < 0, guarded = !detached && !k->abandoned;
	const bool polled = with_backend && k->backend->ops->fd;
	/* The process of a daemon that is leaving has ended already. */
	const struct pidfd *process = k->listener >= 0 && !k->leaving ? k->s->run->process : NULL;
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned ? -1 : k->fd },
		[GUARD] = { .fd = guarded ? k->s->guard_pipe[0] : -1 },
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
	if (fds[GUARD].revents)
		return read_guard(k);
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
		k->daemon_ended = true;
		return WAKE_CHECK;
	}
	return fds[BACKEND].revents ? WAKE_EVENT : WAKE_TIME;
}

/* ---- the end ---- */

/* Retain the lock in this process for keep_ms. The supervisor does not wait for it. */
static void retain_lock(struct keeping *k, int64_t keep_ms)
{
	end_daemon(k);
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

/*
 * Release the lock and end the process, or return after retain_lock(). was_held: this token has
 * held the lock, so it is lost if the token does not hold it now.
 */
static void release_lock(struct keeping *k, bool was_held)
{
	int64_t keep_ms;

	k->backend->cancel_fd = -1;
	k->event.error = (struct error){ 0 };
	reset_timeouts(k);
	switch (release_once(k, &keep_ms, &k->event.error)) {
	case OUTCOME_HELD:
		if (!k->backend->session || !keep_ms)
			send_and_exit(k, KEEPER_RELEASED);
		k->event.last = k->event.keeps = true;
		send_event(k, KEEPER_RELEASED);
		retain_lock(k, keep_ms);
		return;
	case OUTCOME_LOST:
		if (was_held)
			send_and_exit(k, KEEPER_LOST);
		view_lock(k);
		send_and_exit(k, KEEPER_BUSY);
	case OUTCOME_BUSY:
	case OUTCOME_ERROR:
		break;
	}
	send_and_exit(k, KEEPER_FAILED);
}

/* ---- the daemon ---- */

/* The daemon signals its process this long before the lease ends: as kill-after of `run`. */
#define NOTICE_MS 5000

/*
 * ---- the watchdog of --pid ----
 *
 * A process beside the daemon, which sends no request. When the daemon is killed, or hangs until
 * the lease is about to end, the watchdog sends TERM to the process that the lock is held for. It
 * has copies of the daemon's descriptors, so that a lock that lives with them outlives the daemon
 * until that process has ended.
 */

static void terminate_process(const struct keeping *k, const char *why)
{
	pidfd_signal(k->s->run->process, SIGTERM);
	system_log(LOG_ERR, k->request.name, "lock lost: %s; process %d got TERM", why,
		   (int)k->s->run->process->pid);
}

/* When to signal the process of --pid if the lease is not renewed. */
static struct lease_stop notice(const struct keeping *k)
{
	return lease_stop(shared_lease(k->s->shared), NOTICE_MS);
}

static int64_t term_at(const struct keeping *k)
{
	return notice(k).term_ms;
}

/*
 * A daemon hangs that has not sent the signal after half of the notice. A second TERM must not
 * follow it.
 */
static int64_t hangs_at(const struct keeping *k)
{
	const struct lease_stop stop = notice(k);

	return stop.term_ms + (stop.kill_ms - stop.term_ms) / 2;
}

/* Run the watchdog. daemon: a byte in this pipe: a clean end; end of file: it was killed. */
static void watch_daemon(const struct keeping *k, int daemon)
{
	const struct pidfd *process = k->s->run->process;
	enum { PROCESS, DAEMON, TIMER, POLLED };
	struct pollfd fds[POLLED] = {
		[PROCESS] = { .fd = process->fd, .events = POLLIN },
		[DAEMON] = { .fd = daemon, .events = POLLIN },
		[TIMER] = { .fd = clock_timer_open(), .events = POLLIN },
	};
	char byte;

	while (!pidfd_ended(process) && clock_boot_ms() < hangs_at(k)) {
		clock_timer_set(fds[TIMER].fd, hangs_at(k));
		poll(fds, POLLED, clock_poll_timeout(hangs_at(k)));
		if (!fds[DAEMON].revents)
			continue;
		if (read(daemon, &byte, 1) == 1)
			return;
		/* The copies of its descriptors stay open here. */
		terminate_process(k, "its keeper was killed");
		while (!pidfd_ended(process))
			poll(&fds[PROCESS], 1, -1);
		return;
	}
	if (!pidfd_ended(process))
		terminate_process(k, "its keeper hangs, and the lease is about to end");
}

/* Start the watchdog of --pid. Returns 0, or -1 with k->event.error. */
static int start_watchdog(struct keeping *k)
{
	int ends[2];
	pid_t pid;

	if (!k->s->run->process || !k->s->run->kill_on_lost)
		return 0;
	if (pipe2(ends, O_CLOEXEC))
		return error_set(&k->event.error, ERROR_INTERNAL, errno, "pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "dlock-watchdog");
		close(ends[1]);
		/* The sockets belong to the daemon alone. */
		close(k->listener);
		close(k->fd);
		watch_daemon(k, ends[0]);
		_exit(0);
	}
	close(ends[0]);
	k->watchdog = ends[1];
	return pid > 0 ? 0
		       : error_set(&k->event.error, ERROR_INTERNAL, errno,
				   "cannot start a process");
}

/* ---- renewals, and runs that join ---- */

/* Let a daemon without a process hold for this long from now. */
static void end_after(struct keeping *k, int64_t ttl_ms)
{
	k->until_ms = clock_boot_ms() + ttl_ms;
	k->self.until_ms = clock_wall_ms() + ttl_ms;
	change_text(k);
}

/*
 * Renew for a query, with ttl_ms as the hold's TTL from now on. A daemon without a process holds
 * for this long from now; with keep_end a later end stays, because runs that have joined rely on
 * it.
 */
static void extend_hold(struct keeping *k, int64_t ttl_ms, bool keep_end, struct grant *grant,
			struct keeper_reply *reply)
{
	k->own_ms = ttl_ms;
	if (k->until_ms != CLOCK_NEVER && !(keep_end && k->until_ms > clock_boot_ms() + ttl_ms))
		end_after(k, ttl_ms);
	reply->outcome = renew_once(k, grant, &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	publish_lease(k, grant);
	reply->lease_ms = k->until_ms == CLOCK_NEVER ? 0 : ttl_ms;
}

/* Return the remaining ms of the hold, for a run that enforces its end; 0: it has no end. */
static int64_t lease_left(const struct keeping *k)
{
	int64_t end_ms = clock_earlier(shared_lease(k->s->shared).end_ms, k->until_ms);
	int64_t left_ms = end_ms - clock_boot_ms();

	if (end_ms == CLOCK_NEVER)
		return 0;
	return left_ms > 0 ? left_ms : 1;
}

/*
 * Renew for a query, if the hold covers its mode. Only `dlock renew` makes a hold shorter, and only
 * while no run has joined.
 */
static void answer_renewal(struct keeping *k, const struct keeper_query *query, struct grant *grant,
			   struct keeper_reply *reply)
{
	const bool asks = query->verb == KEEPER_VERB_RENEW, nests = query->verb == KEEPER_VERB_NEST;
	const struct request asked = { .mode = query->mode, .slots = query->slots };
	int64_t ttl_ms = k->own_ms;

	reply->outcome = OUTCOME_HELD;
	if (nests || query->verb == KEEPER_VERB_JOIN)
		reply->outcome = hold_mode_covers(k->request.mode, k->request.slots, &asked,
						  &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	if ((asks && query->ttl_ms) || (nests && query->ttl_ms > ttl_ms))
		ttl_ms = query->ttl_ms;
	extend_hold(k, ttl_ms, !asks || k->members, grant, reply);
	if (reply->outcome != OUTCOME_HELD)
		return;
	reply->fence = grant->fence;
	reply->ttl_ms = grant->ttl_ms ? grant->ttl_ms : k->own_ms;
	/* A nested acquisition prints its end; a run enforces that of the hold. */
	if (nests)
		reply->ttl_ms = reply->lease_ms;
	else if (!asks)
		reply->lease_ms = lease_left(k);
}

/* ---- callers ---- */

/* The connection of a run that has joined: it stays silent, and ends with the run. */
#define JOINED (UINT64_C(1) << 32)

/* Add fd to the epoll, or change its entry. Returns 0, or -1 with *err. */
static int watch_fd(const struct keeping *k, int how, int fd, uint64_t joined, struct error *err)
{
	struct epoll_event watched = { .events = joined ? EPOLLRDHUP : EPOLLIN,
				       .data.u64 = (uint64_t)fd | joined };

	return epoll_ctl(k->callers, how, fd, &watched)
		       ? error_set(err, ERROR_INTERNAL, errno, "epoll")
		       : 0;
}

static void accept_caller(const struct keeping *k)
{
	const int fd = keeper_socket_accept(k->listener);
	struct error ignored;

	if (fd >= 0 && watch_fd(k, EPOLL_CTL_ADD, fd, 0, &ignored))
		close(fd);
}

/* Reply to JOIN. If the hold is shared, the connection stays open. */
static void share_hold(struct keeping *k, struct keeper_reply *reply, int fd)
{
	if (reply->outcome == OUTCOME_HELD && watch_fd(k, EPOLL_CTL_MOD, fd, JOINED, &reply->error))
		reply->outcome = OUTCOME_ERROR;
	if (ipc_send(fd, reply, sizeof(*reply), MSG_DONTWAIT, k->hold_fd) == IPC_DONE &&
	    reply->outcome == OUTCOME_HELD)
		k->members++;
	else
		close(fd);
}

/* ---- the daemon ---- */

/* Become a daemon: socket, no terminal, nothing inherited. Ends the process on failure. */
static void become_daemon(struct keeping *k, struct grant *grant)
{
	struct error *err = &k->event.error, ignored;

	k->callers = epoll_create1(EPOLL_CLOEXEC);
	k->listener = keeper_socket_listen(k->request.token, err);
	if (k->listener < 0 || watch_fd(k, EPOLL_CTL_ADD, k->listener, 0, err) ||
	    (chdir("/") && error_set(err, ERROR_INTERNAL, errno, "cannot enter /")) ||
	    start_watchdog(k)) {
		hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
		send_and_exit(k, KEEPER_FAILED);
	}
	umask(077);
	k->own_ms = k->request.ttl_ms;
	if (!k->s->run->process)
		end_after(k, k->own_ms);
	/* Store the end of the hold in the record, and maybe the pid of this process. */
	renew_once(k, grant, err);
	send_event(k, KEEPER_DETACHED);
	close(k->fd);
	k->fd = -1;
}

/* Answer a query, and close fd unless a run has joined. Returns as answer_caller(). */
static bool answer_query(struct keeping *k, struct grant *grant, const struct keeper_query *query,
			 int fd)
{
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };
	struct request any = k->request;
	int64_t keep_ms = 0;

	switch (query->verb) {
	case KEEPER_VERB_RELEASE:
		reply.outcome = release_once(k, &keep_ms, &reply.error);
		break;
	case KEEPER_VERB_VERIFY:
		any.mode = HOLD_ANY;
		reply.outcome = hold_verify(k->backend, &any, &reply.fence, &reply.error);
		break;
	case KEEPER_VERB_JOIN:
		/* A daemon that is leaving frees the lock as soon as it can. */
		if (!k->leaving)
			answer_renewal(k, query, grant, &reply);
		share_hold(k, &reply, fd);
		return k->leaving || reply.outcome != OUTCOME_LOST;
	default:
		answer_renewal(k, query, grant, &reply);
		break;
	}
	/* Close the socket first: the caller may check for it after the answer. */
	if (query->verb == KEEPER_VERB_RELEASE && reply.outcome == OUTCOME_HELD)
		end_daemon(k);
	ipc_send(fd, &reply, sizeof(reply), MSG_DONTWAIT, -1);
	close(fd);
	if (k->listener >= 0)
		return reply.outcome != OUTCOME_LOST;
	if (!k->backend->session || !keep_ms)
		_exit(0);
	retain_lock(k, keep_ms);
	return true;
}

/*
 * Accept a caller, answer a query, or notice the end of a run that has joined. False: the hold is
 * lost. Does not return if the query ends the hold.
 */
static bool answer_caller(struct keeping *k, struct grant *grant)
{
	static const struct keeper_reply lost = { .outcome = OUTCOME_LOST };
	struct epoll_event event;
	struct keeper_query query;
	enum ipc_result received;
	int fd;

	if (epoll_wait(k->callers, &event, 1, 0) != 1)
		return true;
	fd = (int)event.data.u64;
	if (fd == k->listener) {
		accept_caller(k);
		return true;
	}
	if (event.data.u64 & JOINED) {
		close(fd);
		k->members--;
		return true;
	}
	received = ipc_receive(fd, &query, sizeof(query), MSG_DONTWAIT, NULL);
	/* The second try may succeed, and the query is not lost. */
	if (received == IPC_FAILED)
		received = ipc_receive(fd, &query, sizeof(query), MSG_DONTWAIT, NULL);
	if (received == IPC_LATER)
		return true;
	query.token[TOKEN_SIZE - 1] = '\0';
	query.name[NAME_MAX_BYTES] = '\0';
	if (received == IPC_DONE && strcmp(query.token, k->request.token) != 0)
		ipc_send(fd, &lost, sizeof(lost), MSG_DONTWAIT, -1);
	/* Without an answer the caller asks the backend: for another lock or backend. */
	else if (received == IPC_DONE && !strcmp(query.name, k->request.name) &&
		 query.backend == k->s->identity)
		return answer_query(k, grant, &query, fd);
	close(fd);
	return true;
}

/*
 * Return when a daemon must act (CLOCK_BOOTTIME): at its end, or when its process must be signalled
 * because the lease is about to end. CLOCK_NEVER for a keeper that is no daemon.
 */
static int64_t next_deadline(const struct keeping *k)
{
	return k->listener < 0 ? k->until_ms : clock_earlier(k->until_ms, term_at(k));
}

/* The lock is lost: signal the process that the daemon holds it for, and end the daemon. */
static void __attribute__((noreturn)) lose_and_exit(struct keeping *k)
{
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0,
			  clock_boot_ms() >= next_deadline(k) ? "its lease is about to end"
							      : NOT_HELD);
	/* First the signal, because the work must end at once. */
	if (k->s->run->process && k->s->run->kill_on_lost)
		terminate_process(k, k->event.error.message);
	else
		send_event(k, KEEPER_LOST);
	/* First the socket, because closing a session takes time. */
	end_daemon(k);
	backend_close(k->backend);
	_exit(0);
}

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
	send_event(k, KEEPER_HELD);
	for (;;) {
		switch (wake) {
		case WAKE_RELEASE:
			/* The command may have ended already: with a minimum hold. */
			release_lock(k, true);
			return true;
		case WAKE_DETACH:
			become_daemon(k, grant);
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
		wake = sleep_until(k, clock_boot_ms() + OFFER_CHECK_MS, false);
	}
	if (!atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
		return true;
	send_event(k, KEEPER_WITHDRAWN);
	hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
	return false;
}

/* Send the holder once, where a wait is shown every second, and with --once-per at each try. */
static void report_waiting(struct keeping *k)
{
	const bool shown = supervisor_reports(k->s, LEVEL_STEP) ||
			   k->s->hooks->tick_ms != CLOCK_NEVER;

	if (!k->viewed_ms || k->s->run->once_ms ||
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
	const enum if_down if_down = k->s->run->if_down;

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

	if (k->event.error.kind == ERROR_CANCELLED && !atomic_load(&k->s->shared->engaged))
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
		reset_timeouts(k);
		if (atomic_load(&k->s->shared->engaged)) {
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
	struct shared *shared = k->s->shared;

	atomic_store(&shared->engaged, 1);
	if (atomic_load(&shared->offer) == OFFER_CLOSED)
		send_and_exit(k, KEEPER_BUSY);
}

/* Return the time that is left for a request of the wait. */
static int64_t wait_left(const struct keeping *k)
{
	return k->s->limit_ms - (clock_boot_ms() - LATE_REQUEST_MS);
}

static enum outcome try_once(struct keeping *k, struct grant *grant)
{
	const struct backend_ops *ops = k->backend->ops;
	struct error *err = &k->event.error;

	k->backend->cancel_fd = k->fd;
	limit_calls(k, wait_left(k));
	if (!atomic_load(&k->s->shared->engaged)) {
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

	for (;;) {
		switch (try_once(k, grant)) {
		case OUTCOME_HELD:
			k->backend->cancel_fd = -1;
			reset_timeouts(k);
			k->hold_fd = grant->hold_fd;
			publish_lease(k, grant);
			return;
		case OUTCOME_BUSY:
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
			break;
		case OUTCOME_LOST:	/* never of acquire() */
		case OUTCOME_ERROR:
			/* A refused fence is that of a hold. */
			acquire_failed(k, in_line && grant->fence < BACKEND_FENCE_END,
				       &down_since_ms, &pause_ms);
			break;
		}
	}
}

/* Acquire, wait, and offer the lock; end the process if the supervisor does not take it. */
static void acquire_lock(struct keeping *k, struct grant *grant)
{
	enum wake wake;

	for (;;) {
		try_until_held(k, grant);
		if (offer_lock(k, grant))
			return;
		do {
			wake = sleep_until(k, CLOCK_NEVER, false);
			if (gives_up(wake))
				send_and_exit(k, KEEPER_RELEASED);
		} while (wake != WAKE_RETRY);
	}
}

/*
 * ---- a hold of another process ----
 *
 * A `dlock run` with a valid token joins the hold of another process, such as that of `dlock
 * acquire`. The nested run's keeper renews the hold every third of its TTL while the command runs,
 * publishes the lease's end for guard and supervisor, and neither acquires nor releases the lock.
 *
 * The keeper asks the daemon of the hold, if there is one, through its socket:
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

/*
 * Ask the daemon: any verb but RENEW and RELEASE. True: *outcome is the answer. False: there is no
 * daemon (*outcome LOST), or it does not answer (ERROR with k->event.error).
 */
static bool ask_daemon(struct keeping *k, enum keeper_verb verb, struct grant *grant,
		       enum outcome *outcome)
{
	const int64_t asked_ms = clock_boot_ms();
	int64_t patience_ms = 2 * k->backend->timeout_ms;
	struct error *err = &k->event.error;
	struct keeper_reply reply;
	int asked;

	/* Leave time for another query. */
	if (grant->ttl_ms)
		patience_ms = clock_earlier(patience_ms, grant->ttl_ms / 4 + 1);
	asked = keeper_socket_ask(verb, &k->request, k->s->identity, &reply,
				  verb == KEEPER_VERB_JOIN ? &k->share_fd : NULL, patience_ms, err);
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

/* Verify the hold for a run that joins it, and renew it. */
static enum outcome try_to_join(struct keeping *k, struct grant *grant)
{
	const bool session = k->backend->session;
	enum outcome outcome;

	if (ask_daemon(k, KEEPER_VERB_JOIN, grant, &outcome))
		return outcome;
	/* Only the daemon can answer for a hold that lives with it. */
	if (outcome == OUTCOME_ERROR && session)
		return outcome;
	outcome = verify_here(k, grant);
	/* An outer run ends this one when it loses the lock; this one only verifies. */
	if (outcome != OUTCOME_HELD || (session && token_is_of_run(k->request.token)))
		return outcome;
	if (!session)
		return renew_here(k, grant);
	error_set(&k->event.error, ERROR_REFUSED, 0, "held already, with this token, by a "
		  "process that cannot be asked from here (it does not answer, or belongs to "
		  "another host, user or container), so that the command would not be protected");
	return OUTCOME_ERROR;
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

/*
 * For `dlock acquire` with a token: verify the hold, renew it for the longer of the requested TTL
 * and its own, write the fence to shared memory, send the result, and end the process. A lease that
 * has no end or lives with another process, which renews it, is not extended.
 */
static void __attribute__((noreturn)) nest_and_exit(struct keeping *k)
{
	const int64_t ttl_ms = k->request.ttl_ms;
	struct grant grant = { 0 };
	enum outcome outcome;

	if (!ask_daemon(k, KEEPER_VERB_NEST, &grant, &outcome) && outcome != OUTCOME_ERROR) {
		outcome = verify_here(k, &grant);
		if (outcome == OUTCOME_HELD && !k->backend->session)
			outcome = renew_for(k, 0, &grant);
		if (outcome == OUTCOME_HELD && grant.ttl_ms && grant.ttl_ms < ttl_ms)
			outcome = renew_for(k, ttl_ms, &grant);
	}
	atomic_store(&k->s->shared->fence, grant.fence);
	k->event.lease_ms = grant.ttl_ms;
	send_and_exit(k, keeper_event_of(outcome));
}

/* Join the hold, and send the result. Ends the process if it cannot be joined. */
static void join_hold(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	/* Renewals keep the hold's own TTL. */
	k->request.ttl_ms = 0;
	outcome = try_to_join(k, grant);
	if (outcome != OUTCOME_HELD)
		send_and_exit(k, keeper_event_of(outcome));
	/* The mode was checked when the hold was joined. */
	k->request.mode = HOLD_ANY;
	publish_lease(k, grant);
	atomic_store(&k->s->shared->fence, grant->fence);
	k->hold_fd = k->share_fd;
	/* The next renewal counts from now: a daemon's lease may have begun long ago. */
	grant->sent_ms = clock_boot_ms();
	send_event(k, KEEPER_HELD);
}

/* The command's tree is dead: send whether the lock was held until now, and end the process. */
static void __attribute__((noreturn)) end_joined_and_exit(struct keeping *k)
{
	struct grant unused = { 0 };
	enum keeper_event_type type;

	reset_timeouts(k);
	k->event.error = (struct error){ 0 };
	type = keeper_event_of(renew_joined(k, &unused, true));
	/* BUSY: it is held in another mode. */
	send_and_exit(k, type == KEEPER_HELD || type == KEEPER_BUSY ? KEEPER_RELEASED : type);
}

/* ---- when the others are dead ---- */

/*
 * End without a release after supervisor and guard were killed, and the command with the guard: the
 * command's leftovers may still run, so the lease must lapse.
 */
static void __attribute__((noreturn)) abandon_and_exit(struct keeping *k)
{
	const pid_t command = atomic_load(&k->s->shared->command);

	k->abandoned = true;
	if (!command && k->mode != KEEPER_JOIN)
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

	eventfd_write(k->s->lost_fd, 1);
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
	return grant->ttl_ms ? grant->ttl_ms : k->s->request.ttl_ms;
}

/* Return when to renew after a renewal at start_ms (CLOCK_BOOTTIME). */
static int64_t next_renewal(const struct keeping *k, const struct grant *grant, int64_t start_ms)
{
	return k->s->run->no_renew ? CLOCK_NEVER
				      : lease_renew_at(start_ms, renewal_period(k, grant));
}

/*
 * Return the deadline of a renewal: when the command must be dead, because the release comes next,
 * or when a daemon must signal its process.
 */
static int64_t renewal_deadline(const struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->s->shared);

	return k->listener >= 0 ? next_deadline(k)
				: lease_stop(lease, k->s->run->kill_after_ms).kill_ms;
}

/* Renew once, or verify with --no-renew. */
static enum outcome renew_or_verify(struct keeping *k, struct grant *grant, bool verify)
{
	/* The daemon's answer to a verification has no lease. */
	struct grant as_before = *grant;

	k->event.error = (struct error){ 0 };
	if (k->mode == KEEPER_JOIN)
		return renew_joined(k, verify ? &as_before : grant, verify);
	return verify ? verify_here(k, grant) : renew_once(k, grant, &k->event.error);
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
	if (!limit_calls(k, renewal_deadline(k) - clock_boot_ms())) {
		k->trouble = true;
		return true;
	}
	switch (renew_or_verify(k, grant, verify)) {
	case OUTCOME_HELD:
		if (!verify)
			publish_lease(k, grant);
		if (k->trouble)
			send_event(k, KEEPER_RENEWED);
		k->trouble = false;
		*next_ms = next_renewal(k, grant, asked_ms);
		return true;
	case OUTCOME_ERROR:
		if (!k->trouble)
			send_event(k, KEEPER_TROUBLE);
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
		lose_and_exit(k);
	if (is_retained(k))
		_exit(0);
	lose_lock(k);
	if (k->mode == KEEPER_JOIN)
		send_and_exit(k, KEEPER_LOST);
	release_lock(k, true);
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
		until_ms = clock_earlier(renew_ms, next_deadline(k));
		if (grant->event_ms)
			until_ms = clock_earlier(until_ms, grant->event_ms);
		/* While renewals fail, events wait for the next one. */
		wake = sleep_until(k, until_ms, !k->trouble);
		if (grant->event_ms && clock_boot_ms() >= grant->event_ms && wake == WAKE_TIME)
			wake = WAKE_EVENT;
		switch (wake) {
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
				renew_ms = clock_earlier(renew_ms, next_event_ms);
			break;
		case WAKE_QUERY:
			if (!answer_caller(k, grant))
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
			release_lock(k, true);
		else if (clock_boot_ms() >= next_deadline(k) ||
			 (clock_boot_ms() >= renew_ms && !renew_lease(k, grant, &renew_ms)))
			handle_loss(k);
	}
}

/* ---- from the start ---- */

void keeper_main(const struct supervisor *s, enum keeper_mode mode, int fd)
{
	static struct keeping k = {
		.listener = -1, .timer = -1, .watchdog = -1,
		.until_ms = CLOCK_NEVER, .share_fd = -1,
	};
	struct grant grant = s->local_grant;

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
	close(s->guard_pipe[1]);
	/* Of a local lock that the supervisor has acquired: to adopt, or to keep. */
	k.backend = s->backend;
	k.hold_fd = grant.hold_fd;
	if (!k.backend)
		k.backend = backend_open(s->run->driver, s->run->uri,
					 mode == KEEPER_ACQUIRE ? &k.request : NULL,
					 &k.event.error);
	if (!k.backend)
		send_and_exit(&k, KEEPER_FAILED);
	k.timeout_ms = k.backend->timeout_ms;
	k.connect_timeout_ms = k.backend->connect_timeout_ms;
	atomic_store(&s->shared->session, k.backend->session);
	switch (mode) {
	case KEEPER_ACQUIRE:
		acquire_lock(&k, &grant);
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
	hold_and_exit(&k, &grant);
}
