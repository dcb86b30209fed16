/* SPDX-License-Identifier: MIT */
/*
 * The keeper that `dlock acquire` leaves behind: it becomes a daemon, and answers the commands that
 * come to its socket (keeper_socket.h).
 */
#include "keeper_join.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/pidfd.h"
#include "base/system_log.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "lock/uri.h"
#include "shared.h"
#include "watchdog.h"

/* How long before the lease ends a daemon tells its process: as kill-after of `run`. */
#define NOTICE_MS 5000

static int start_watchdog(struct keeping *k)
{
	const struct watchdog_plan plan = {
		.process = k->plan->process, .shared = k->plan->shared,
		.notice_ms = NOTICE_MS, .close_fds = { k->listener, k->fd },
		.name = k->request.name,
	};

	if (!k->plan->process || !k->plan->term_on_lost)
		return 0;
	k->watchdog = watchdog_start(&plan, &k->event.error);
	return k->watchdog < 0 ? -1 : 0;
}

void keeping_detach(struct keeping *k, struct grant *grant)
{
	k->listener = keeper_socket_listen(k->request.token, &k->event.error);
	/* A descriptor of the caller's would keep its pipes open. */
	fds_close_inherited();
	if (k->listener < 0 || start_watchdog(k)) {
		struct error why = k->event.error;

		hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
		k->event.error = why;
		keeping_finish(k, KEEPER_FAILED);
	}
	umask(077);
	if (chdir("/"))
		keeping_finish(k, KEEPER_FAILED);
	k->own_ms = k->request.ttl_ms;
	if (!k->plan->process)
		keeping_end_after(k, k->own_ms);
	/* The record has the end of the hold, and this process's number may be stored with it. */
	keeping_renew_once(k, grant, &k->event.error);
	k->event.keeper_pid = getpid();
	keeping_tell(k, KEEPER_DETACHED);
	close(k->fd);
	k->fd = -1;
}

bool keeping_answer(struct keeping *k, struct grant *grant)
{
	const struct request *request = &k->request;
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };
	struct keeper_query query;
	struct request asked = *request;
	int64_t keep_ms = 0;
	int fd = keeper_socket_hear(k->listener, &k->caller, &query);

	if (fd < 0)
		return true;
	if (strcmp(query.token, request->token) != 0) {
		keeper_socket_answer(fd, &reply);
		return true;
	}
	/* It is about another lock or backend: without an answer the caller asks that backend. */
	if (strcmp(query.name, request->name) != 0 ||
	    query.backend != uri_identity(k->plan->uri)) {
		close(fd);
		return true;
	}
	switch (query.verb) {
	case KEEPER_VERB_RELEASE:
		reply.outcome = keeping_release_once(k, &keep_ms, &reply.error);
		break;
	case KEEPER_VERB_RENEW:
		keeping_extend(k, query.ttl_ms ? query.ttl_ms : k->own_ms, keeping_has_members(k),
			       grant, &reply);
		break;
	case KEEPER_VERB_VERIFY:
		asked.mode = HOLD_ANY;
		reply.outcome = hold_verify(k->backend, &asked, &reply.error);
		break;
	case KEEPER_VERB_NEST:
		keeping_nest_answer(k, &query, grant, &reply);
		break;
	case KEEPER_VERB_JOIN:
		return keeping_join_answer(k, &query, grant, fd) != OUTCOME_LOST;
	case KEEPER_VERB_STAY:
		return keeping_stay_answer(k, grant, fd) != OUTCOME_LOST;
	}
	if (query.verb == KEEPER_VERB_RELEASE && reply.outcome == OUTCOME_HELD) {
		/* The socket is gone before the caller reads the answer, and may look for it. */
		keeping_end_daemon(k);
		keeper_socket_answer(fd, &reply);
		if (!k->backend->session || !keep_ms)
			_exit(0);
		keeping_keep(k, keep_ms);
	}
	keeper_socket_answer(fd, &reply);
	return reply.outcome != OUTCOME_LOST;
}

int64_t keeping_deadline(const struct keeping *k)
{
	if (k->listener < 0)
		return CLOCK_NEVER;
	return clock_earlier(k->until_ms,
			     lease_stop(shared_lease(k->plan->shared), NOTICE_MS).term_ms);
}

void keeping_lose_daemon(struct keeping *k)
{
	const bool told = k->plan->process && k->plan->term_on_lost;

	/* First the signal: nothing may stand between a loss and the end of the work. */
	if (told)
		pidfd_signal(k->plan->process, SIGTERM);
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, clock_boot_ms() >= keeping_deadline(k)
			  ? "its lease is about to end" : KEEPING_GONE);
	if (told)
		system_log(LOG_ERR, k->request.name, "lock lost: %s; process %d got TERM",
			   k->event.error.message, (int)k->plan->process->pid);
	else
		keeping_log(k, KEEPER_LOST);
	/* First the socket, for closing a session takes time, and nobody must wait for it. */
	keeping_end_daemon(k);
	backend_close(k->backend);
	_exit(0);
}
