/* SPDX-License-Identifier: MIT */
/* The daemon of `dlock acquire`: its watchdog, its socket, its renewals. */
#include "keeper_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/system_log.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "keeper_socket.h"

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
	pidfd_signal(k->job->run->process, SIGTERM);
	system_log(LOG_ERR, k->request.name, "lock lost: %s; process %d got TERM", why,
		   (int)k->job->run->process->pid);
}

/* When to signal the process of --pid if the lease is not renewed. */
static struct lease_stop notice(const struct keeping *k)
{
	return lease_stop(shared_lease(k->job->shared), NOTICE_MS);
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
	const struct pidfd *process = k->job->run->process;
	enum { PROCESS, DAEMON, TIMER, POLLED };
	struct pollfd fds[POLLED] = {
		[PROCESS] = { .fd = process->fd, .events = POLLIN },
		[DAEMON] = { .fd = daemon, .events = POLLIN },
		[TIMER] = { .fd = clock_timer_open(), .events = POLLIN },
	};
	char byte;

	while (!fds[DAEMON].revents && !pidfd_ended(process) && clock_boot_ms() < hangs_at(k)) {
		clock_timer_set(fds[TIMER].fd, hangs_at(k));
		poll(fds, POLLED, clock_poll_timeout(hangs_at(k)));
	}
	if (pidfd_ended(process) || (fds[DAEMON].revents && read(daemon, &byte, 1) == 1))
		return;
	terminate_process(k, fds[DAEMON].revents ? "its keeper was killed" : "its keeper hangs, "
			  "and the lease is about to end");
	/* The copies of its descriptors stay open here. */
	while (!pidfd_ended(process))
		poll(&fds[PROCESS], 1, -1);
}

/* Start the watchdog of --pid. Returns 0, or -1 with k->event.error. */
static int start_watchdog(struct keeping *k)
{
	int ends[2];
	pid_t pid;

	if (!k->job->run->process || !k->job->run->kill_on_lost)
		return 0;
	if (pipe2(ends, O_CLOEXEC))
		return error_set(&k->event.error, ERROR_INTERNAL, errno, "pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "dlock-watchdog");
		close(ends[1]);
		/* The sockets belong to the daemon alone. */
		close(k->daemon.listener);
		close(k->fd);
		watch_daemon(k, ends[0]);
		_exit(0);
	}
	close(ends[0]);
	k->daemon.watchdog = ends[1];
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

/* Return the remaining ms of the hold, for a run that enforces its end; 0: it has no end. */
static int64_t lease_left(const struct keeping *k)
{
	int64_t end_ms = clock_earlier(shared_lease(k->job->shared).end_ms, k->until_ms);
	int64_t left_ms = end_ms - clock_boot_ms();

	if (end_ms == CLOCK_NEVER)
		return 0;
	return left_ms > 0 ? left_ms : 1;
}

/*
 * Renew for a query, if the hold covers its mode, with the hold's TTL or a longer one. Only `dlock
 * renew` makes a hold shorter. A daemon without a process holds for this TTL from now; a later end
 * stays for runs that have joined, because they rely on it.
 */
static void answer_renewal(struct keeping *k, const struct keeper_query *query, struct grant *grant,
			   struct keeper_reply *reply)
{
	const bool asks = query->verb == KEEPER_VERB_RENEW, nests = query->verb == KEEPER_VERB_NEST;
	const bool shortens = asks && !k->daemon.members;
	const struct request asked = { .mode = query->mode, .slots = query->slots };
	int64_t *const ttl_ms = &k->daemon.own_ms;

	reply->outcome = hold_mode_covers(k->request.mode, k->request.slots, &asked, &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	if (query->ttl_ms && (asks || query->ttl_ms > *ttl_ms))
		*ttl_ms = query->ttl_ms;
	if (k->until_ms != CLOCK_NEVER && (shortens || k->until_ms < clock_boot_ms() + *ttl_ms))
		end_after(k, *ttl_ms);
	reply->outcome = renew_once(k, grant, &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	publish_lease(k, grant);
	reply->fence = grant->fence;
	/* Who asks for an end gets that of the daemon; a run enforces that of the lease, too. */
	reply->lease_ms = !asks && !nests ? lease_left(k)
			  : k->until_ms == CLOCK_NEVER ? 0 : *ttl_ms;
	reply->ttl_ms = nests || !grant->ttl_ms ? *ttl_ms : grant->ttl_ms;
}

/* ---- callers ---- */

/* The connection of a run that has joined: it stays silent, and ends with the run. */
#define JOINED (UINT64_C(1) << 32)

/* Add fd to the epoll, or change its entry. */
static int watch_fd(const struct keeping *k, int how, int fd, uint64_t joined, struct error *err)
{
	struct epoll_event watched = { .events = joined ? EPOLLRDHUP : EPOLLIN,
				       .data.u64 = (uint64_t)fd | joined };

	return epoll_ctl(k->daemon.callers, how, fd, &watched)
		       ? error_set(err, ERROR_INTERNAL, errno, "epoll")
		       : 0;
}

static void accept_caller(const struct keeping *k)
{
	const int fd = keeper_socket_accept(k->daemon.listener);
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
		k->daemon.members++;
	else
		close(fd);
}

/* ---- the daemon ---- */

void become_daemon(struct keeping *k, struct grant *grant)
{
	struct error *err = &k->event.error, ignored;

	k->daemon.callers = epoll_create1(EPOLL_CLOEXEC);
	k->daemon.listener = keeper_socket_listen(k->request.token, err);
	if (k->daemon.listener < 0 || watch_fd(k, EPOLL_CTL_ADD, k->daemon.listener, 0, err) ||
	    (chdir("/") && error_set(err, ERROR_INTERNAL, errno, "cannot enter /")) ||
	    start_watchdog(k)) {
		hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
		send_and_exit(k, KEEPER_FAILED);
	}
	k->stage = STAGE_DAEMON;
	umask(077);
	k->daemon.own_ms = k->request.ttl_ms;
	if (!k->job->run->process)
		end_after(k, k->daemon.own_ms);
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
	if (k->daemon.listener >= 0)
		return reply.outcome != OUTCOME_LOST;
	if (!k->backend->session || !keep_ms)
		_exit(0);
	retain_lock(k, keep_ms);
	return true;
}

bool answer_caller(struct keeping *k, struct grant *grant)
{
	static const struct keeper_reply lost = { .outcome = OUTCOME_LOST };
	struct epoll_event event;
	struct keeper_query query;
	enum ipc_result received;
	int fd;

	if (epoll_wait(k->daemon.callers, &event, 1, 0) != 1)
		return true;
	fd = (int)event.data.u64;
	if (fd == k->daemon.listener) {
		accept_caller(k);
		return true;
	}
	if (event.data.u64 & JOINED) {
		close(fd);
		k->daemon.members--;
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
		 query.backend == k->job->identity)
		return answer_query(k, grant, &query, fd);
	close(fd);
	return true;
}

int64_t next_deadline(const struct keeping *k)
{
	return k->stage != STAGE_DAEMON ? k->until_ms : clock_earlier(k->until_ms, term_at(k));
}

void lose_and_exit(struct keeping *k)
{
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0,
			  clock_boot_ms() >= next_deadline(k) ? "its lease is about to end"
							      : NOT_HELD);
	/* First the signal, because the work must end at once. */
	if (k->job->run->process && k->job->run->kill_on_lost)
		terminate_process(k, k->event.error.message);
	else
		send_event(k, KEEPER_LOST);
	/* First the socket, because closing a session takes time. */
	end_daemon(k);
	backend_close(k->backend);
	_exit(0);
}
