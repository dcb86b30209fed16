/* SPDX-License-Identifier: MIT */
#include "supervisor.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pidfd.h"
#include "base/signals.h"
#include "lock/uri.h"
#include "environment.h"
#include "keeper_socket.h"

/* Waits for the keeper to say that it is a daemon. 0, or -1 with *err. */
static int await_detached(struct supervisor *s, struct acquire_result *result,
			  struct error *err)
{
	struct keeper_event event;

	for (;;) {
		supervisor_sleep(s, CLOCK_NEVER);
		signals_drain(s->signals);
		while (supervisor_hear(s, &event)) {
			switch (event.type) {
			case KEEPER_DETACHED:
				result->keeper = event.keeper_pid;
				return 0;
			case KEEPER_LOST:
			case KEEPER_FAILED:
				*err = event.error;
				return -1;
			case KEEPER_GONE:
				return error_set(err, ERROR_INTERNAL, 0,
						 "the keeper process was killed");
			default:
				break;
			}
		}
	}
}

/* The lock is held: leaves a keeper behind, or the lease alone. */
static int settle(struct supervisor *s, struct acquire_result *result, struct error *err)
{
	int64_t end_ms = shared_lease(s->shared).end_ms;
	bool daemon = s->process || s->run->driver->local || s->shared->session;

	result->fence = s->fence;
	if (!s->process)
		result->lease_ms = end_ms == CLOCK_NEVER ? s->run->ttl_ms
							 : end_ms - clock_boot_ms();
	if (!daemon) {
		/* The keeper would renew, and the lease is to stand alone. */
		keeper_kill(&s->keeper);
		return 0;
	}
	if (s->run->driver->local &&
	    supervisor_start_keeper(s, KEEPER_ADOPT, err))
		return -1;
	if (!s->run->driver->local)
		keeper_detach(&s->keeper);
	return await_detached(s, result, err);
}

/*
 * One more acquisition of the hold that token has, for ttl_ms at least. OUTCOME_LOST: it has
 * none.
 */
static enum outcome acquire_again(struct supervisor *s, int64_t ttl_ms,
				  struct acquire_result *result, struct error *err)
{
	struct keeper_query query = { .verb = KEEPER_VERB_AGAIN, .ttl_ms = ttl_ms,
				      .backend = uri_identity(s->run->uri),
				      .mode = s->run->mode, .slots = s->run->slots };
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };
	struct request request = s->request;
	struct backend *backend;
	struct grant grant = { 0 };
	enum outcome outcome;

	memcpy(query.token, s->token, TOKEN_SIZE);
	strncpy(query.name, s->run->name, NAME_MAX_BYTES);
	switch (keeper_socket_ask(&query, &reply, 2 * s->timeout_ms, err)) {
	case 0:
		*err = reply.error;
		result->fence = reply.fence;
		result->lease_ms = reply.lease_ms;
		return reply.outcome;
	case -1:
		return OUTCOME_ERROR;
	default:
		break;
	}
	backend = backend_open(s->run->driver, s->run->uri, err);
	if (!backend)
		return OUTCOME_ERROR;
	request.ttl_ms = ttl_ms;
	outcome = backend->ops->again(backend, &request, &grant, err);
	backend_close(backend);
	result->fence = grant.fence;
	result->lease_ms = grant.ttl_ms;
	return outcome;
}

static void acquire_new(struct supervisor *s, struct acquire_result *result)
{
	struct error err = { 0 };

	if (token_make(s->token, &err)) {
		supervisor_fail(s, &err);
		return;
	}
	if (supervisor_obtain(s) != OBTAINED_YES)
		return;
	supervisor_say_acquired(s);
	if (settle(s, result, &err)) {
		keeper_kill(&s->keeper);
		supervisor_fail(s, &err);
		return;
	}
	s->result->end = RUN_EXITED;
}

void supervise_acquire(const struct acquire_request *acquire, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result)
{
	enum outcome outcome = OUTCOME_LOST;
	struct error err = { 0 };
	struct supervisor s;

	*result = (struct acquire_result){ .fence = 0 };
	if (supervisor_init(&s, &acquire->run, hooks, signals, &result->run, acquire->command,
			    &err)) {
		supervisor_fail(&s, &err);
		return;
	}
	s.process = acquire->process;
	s.term_on_lost = acquire->term_on_lost;
	s.without_command = true;
	/* status shows the process that the lock is held for, as this one ends soon. */
	s.request.self.pid = acquire->process ? acquire->process->pid : getppid();
	/* Only the backend knows whether the token is one of this lock. */
	if (environment_token(acquire->run.name, s.token))
		outcome = acquire_again(&s, acquire->again_ttl_ms, result, &err);
	if (outcome == OUTCOME_ERROR || outcome == OUTCOME_BUSY) {
		supervisor_fail(&s, &err);
	} else if (outcome == OUTCOME_HELD) {
		s.result->facts.fence = result->fence;
		supervisor_tell(&s, EVENT_JOINED, SAY_STEP, "held already; counted once more");
		result->run.end = RUN_EXITED;
	} else {
		acquire_new(&s, result);
	}
	memcpy(result->token, s.token, TOKEN_SIZE);
	if (result->run.age_ms >= 0)
		result->run.age_ms = clock_boot_ms() - result->run.age_ms;
	backend_close(s.backend);
}
