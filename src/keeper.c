/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "lease.h"
#include "shared.h"

/* An offer that the supervisor does not take: the next waiter must not wait for
 * it longer than 5 s in all (SPEC, 2.7), the way there and back included. */
#define OFFER_MS 3000

/* Pauses between attempts to get back in line after a connection was lost. */
#define RECONNECT_FIRST_MS 50
#define RECONNECT_LAST_MS 2000

enum order_type { ORDER_RELEASE, ORDER_RETRY };

struct order {
	enum order_type type;
	int64_t keep_ms;
};

/* What the supervisor has said last. */
enum command { COMMAND_NONE, COMMAND_RELEASE, COMMAND_RETRY, COMMAND_ORPHANED };

struct keeping {
	const struct keeper_plan *plan;
	struct backend *backend;
	int fd;			/* to the supervisor */
	bool orphaned;		/* the supervisor is dead; the guard's end is our order */
	int64_t keep_ms;
	struct keeper_event event;	/* being sent; static, for it is large */
};

static void tell(struct keeping *k, enum keeper_event_type type)
{
	k->event.type = type;
	k->event.at_ms = clock_boot_ms();
	send(k->fd, &k->event, sizeof(k->event), MSG_NOSIGNAL);
}

static void finish(struct keeping *k, enum keeper_event_type type)
{
	tell(k, type);
	_exit(0);
}

static void fail(struct keeping *k)
{
	finish(k, KEEPER_FAILED);
}

/*
 * Sleeps until the supervisor says something, the backend's descriptor becomes
 * readable (*event) or the clock says until_ms. Once the supervisor is dead, the
 * end of the guard counts as an order to release.
 */
static enum command rest(struct keeping *k, int64_t until_ms, bool *event)
{
	enum { ORDERS, GUARD, BACKEND, POLLED };
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned ? -1 : k->fd, .events = POLLIN },
		[GUARD] = { .fd = k->orphaned ? k->plan->guard_pipe[0] : -1,
			    .events = POLLIN },
		[BACKEND] = { .fd = event ? k->backend->ops->event_fd(k->backend) : -1,
			      .events = POLLIN },
	};
	struct order order;

	poll(fds, POLLED, clock_poll_timeout(until_ms));
	if (event)
		*event = fds[BACKEND].revents != 0;
	if (fds[GUARD].revents)
		return COMMAND_RELEASE;
	if (!fds[ORDERS].revents)
		return COMMAND_NONE;
	if (recv(k->fd, &order, sizeof(order), 0) != (ssize_t)sizeof(order)) {
		k->orphaned = true;
		return COMMAND_ORPHANED;
	}
	if (order.type == ORDER_RETRY)
		return COMMAND_RETRY;
	k->keep_ms = order.keep_ms;
	return COMMAND_RELEASE;
}

/*
 * Gives back and ends. was_held: it was held for all we know, so that "not the
 * holder" says that it was lost.
 */
static void release(struct keeping *k, bool was_held)
{
	const struct backend_ops *ops = k->backend->ops;
	int64_t keep_ms = k->orphaned ? 0 : k->keep_ms;

	k->backend->cancel_fd = -1;
	switch (ops->release(k->backend, k->plan->request, keep_ms, &k->event.error)) {
	case OUTCOME_HELD:
		finish(k, KEEPER_RELEASED);
		break;
	case OUTCOME_ERROR:
		fail(k);
		break;
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		finish(k, was_held ? KEEPER_LOST : KEEPER_BUSY);
		break;
	}
	_exit(0);
}

static void publish_lease(struct keeping *k, const struct grant *grant)
{
	struct shared *shared = k->plan->shared;
	int64_t end_ms = CLOCK_NEVER;

	if (grant->ttl_ms)
		end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	/* The TTL first: who reads the new end must not see it with an old TTL. */
	atomic_store(&shared->lease_ttl_ms, grant->ttl_ms);
	atomic_store(&shared->lease_end_ms, end_ms);
}

/* The lock is not ours any more: wake the guard, and leave only to release. */
static void lost(struct keeping *k)
{
	static const uint64_t one = 1;

	if (write(k->plan->lost_fd, &one, sizeof(one)) < 0)
		atomic_store(&k->plan->shared->lease_end_ms, 0);
	tell(k, KEEPER_LOST);
	while (rest(k, CLOCK_NEVER, NULL) != COMMAND_RELEASE)
		;
	release(k, true);
}

/* What one failed renewal leads to: word of it, once, and another try soon. */
static int64_t renewal_failed(struct keeping *k, bool *trouble, int64_t ttl_ms)
{
	if (!*trouble)
		tell(k, KEEPER_TROUBLE);
	*trouble = true;
	return clock_boot_ms() + lease_retry_ms(ttl_ms);
}

/* Renews until told to release. */
static void hold(struct keeping *k, struct grant *grant)
{
	const struct backend_ops *ops = k->backend->ops;
	int64_t ttl_ms = grant->ttl_ms, renew_ms = CLOCK_NEVER, again_ms;
	bool renewing = ttl_ms && !k->plan->no_renew, trouble = false, event;

	if (renewing)
		renew_ms = lease_renew_at(grant->sent_ms, ttl_ms);
	for (;;) {
		if (rest(k, renew_ms, &event) == COMMAND_RELEASE)
			release(k, true);
		if (event) {
			again_ms = ops->event(k->backend);
			if (again_ms < renew_ms)
				renew_ms = again_ms;
		}
		if (clock_boot_ms() < renew_ms)
			continue;
		switch (k->plan->no_renew
			? ops->verify(k->backend, k->plan->request, &k->event.error)
			: ops->renew(k->backend, k->plan->request, grant, &k->event.error)) {
		case OUTCOME_HELD:
			if (trouble)
				tell(k, KEEPER_RENEWED);
			trouble = false;
			if (renewing) {
				publish_lease(k, grant);
				renew_ms = lease_renew_at(grant->sent_ms, grant->ttl_ms);
			} else {
				renew_ms = CLOCK_NEVER;
			}
			break;
		case OUTCOME_LOST:
		case OUTCOME_BUSY:
			lost(k);
			break;
		case OUTCOME_ERROR:
			renew_ms = renewal_failed(k, &trouble, ttl_ms);
			break;
		}
	}
}

/*
 * Offers the lock to the supervisor. false: it did not take it and has been told
 * so; the lock was given back. Does not return when the supervisor is dead.
 */
static bool offer(struct keeping *k)
{
	struct shared *shared = k->plan->shared;
	int64_t until_ms = clock_boot_ms() + OFFER_MS;
	int made = OFFER_MADE;

	atomic_store(&shared->offer, OFFER_MADE);
	tell(k, KEEPER_HELD);
	while (atomic_load(&shared->offer) == OFFER_MADE && clock_boot_ms() < until_ms) {
		/* Taking is silent; look at it now and then, and for good at the end. */
		switch (rest(k, clock_boot_ms() + OFFER_MS / 20, NULL)) {
		case COMMAND_RELEASE:
			release(k, true);
			break;
		case COMMAND_ORPHANED:
			if (atomic_load(&shared->offer) != OFFER_TAKEN)
				release(k, true);
			return true;
		case COMMAND_RETRY:
		case COMMAND_NONE:
			break;
		}
	}
	if (!atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
		return true;
	tell(k, KEEPER_WITHDRAWN);
	k->backend->ops->release(k->backend, k->plan->request, 0, &k->event.error);
	return false;
}

/* Sleeps between two tries; true when it is to be given up. */
static bool await_turn(struct keeping *k, int64_t retry_ms)
{
	const struct backend_ops *ops = k->backend->ops;
	enum command command;
	int64_t again_ms;
	bool event;

	do {
		command = rest(k, retry_ms, &event);
		if (command == COMMAND_RELEASE || command == COMMAND_ORPHANED)
			return true;
		if (event) {
			again_ms = ops->event(k->backend);
			if (again_ms < retry_ms)
				retry_ms = again_ms;
		}
	} while (clock_boot_ms() < retry_ms);
	return false;
}

/*
 * A try failed. Somebody who stands in line already goes on for one TTL, for a
 * server may restart or fail over; what never worked fails at once.
 */
static void acquire_failed(struct keeping *k, bool in_line, int64_t *down_since_ms,
			   int64_t *pause_ms)
{
	int64_t now = clock_boot_ms();

	if (k->event.error.kind == ERROR_CANCELLED)
		release(k, false);
	if (!*down_since_ms) {
		*down_since_ms = now;
		*pause_ms = RECONNECT_FIRST_MS;
	}
	if (!in_line || now - *down_since_ms > k->plan->request->ttl_ms) {
		struct error why = k->event.error;

		/* What a lost reply may have left behind must not outlive us. */
		k->backend->cancel_fd = -1;
		if (atomic_load(&k->plan->shared->engaged))
			k->backend->ops->release(k->backend, k->plan->request, 0,
						 &k->event.error);
		k->event.error = why;
		fail(k);
	}
	if (*pause_ms == RECONNECT_FIRST_MS)
		tell(k, KEEPER_RETRYING);
	if (await_turn(k, now + *pause_ms))
		release(k, false);
	*pause_ms = *pause_ms * 2 > RECONNECT_LAST_MS ? RECONNECT_LAST_MS : *pause_ms * 2;
}

/* Tries and waits until held. Returns to hold; ends the process in other cases. */
static void acquire(struct keeping *k, struct grant *grant)
{
	const struct request *request = k->plan->request;
	int64_t down_since_ms = 0, pause_ms = 0;
	bool in_line = false;

	for (;;) {
		k->backend->cancel_fd = k->fd;
		switch (k->backend->ops->acquire(k->backend, request, grant,
						 &k->event.error)) {
		case OUTCOME_HELD:
			k->backend->cancel_fd = -1;
			k->event.fence = grant->fence;
			publish_lease(k, grant);
			return;
		case OUTCOME_BUSY:
			in_line = true;
			down_since_ms = 0;
			k->event.holder = grant->holder;
			k->event.age_ms = grant->age_ms;
			k->event.ahead = grant->ahead;
			if (!request->queue)
				finish(k, KEEPER_BUSY);
			tell(k, KEEPER_WAITING);
			if (await_turn(k, grant->retry_ms))
				release(k, false);
			break;
		case OUTCOME_LOST:
		case OUTCOME_ERROR:
			acquire_failed(k, in_line, &down_since_ms, &pause_ms);
			break;
		}
	}
}

static void verify(struct keeping *k)
{
	switch (k->backend->ops->verify(k->backend, k->plan->request, &k->event.error)) {
	case OUTCOME_HELD:
		finish(k, KEEPER_HELD);
		break;
	case OUTCOME_ERROR:
		fail(k);
		break;
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		finish(k, KEEPER_LOST);
		break;
	}
}

/* The user's terminal and pipes are none of ours, a library's words no output. */
static void drop_standard_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

static void keeper_main(const struct keeper_plan *plan, int fd)
{
	static struct keeping k;
	struct grant grant = { 0 };

	k.plan = plan;
	k.fd = fd;
	k.keep_ms = plan->keep_ms;
	prctl(PR_SET_NAME, "dlock-keeper");
	/* A group of its own: what stops or ends dlock's job leaves us to clean up. */
	setpgid(0, 0);
	drop_standard_streams();
	if (plan->guard_pipe[1] >= 0)
		close(plan->guard_pipe[1]);

	k.backend = backend_open(plan->driver, plan->uri, &k.event.error);
	if (!k.backend)
		fail(&k);
	k.backend->engaged = &plan->shared->engaged;
	if (plan->mode == KEEPER_VERIFY)
		verify(&k);
	if (plan->mode == KEEPER_RELEASE)
		release(&k, true);
	for (;;) {
		acquire(&k, &grant);
		if (offer(&k))
			break;
		while (rest(&k, CLOCK_NEVER, NULL) != COMMAND_RETRY)
			if (k.orphaned)
				_exit(0);
	}
	hold(&k, &grant);
}

int keeper_start(struct keeper *keeper, const struct keeper_plan *plan, struct error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		error_set(err, ERROR_INTERNAL, errno, "socketpair");
		return -1;
	}
	keeper->pid = fork();
	if (keeper->pid < 0) {
		keeper->pid = 0;
		error_set(err, ERROR_INTERNAL, errno, "fork");
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (keeper->pid == 0) {
		close(ends[0]);
		keeper_main(plan, ends[1]);
	}
	close(ends[1]);
	keeper->fd = ends[0];
	return 0;
}

bool keeper_event(struct keeper *keeper, struct keeper_event *event)
{
	ssize_t length;

	if (!keeper->pid)
		return false;
	length = recv(keeper->fd, event, sizeof(*event), MSG_DONTWAIT);
	if (length == (ssize_t)sizeof(*event))
		return true;
	if (length < 0 && errno == EAGAIN)
		return false;
	*event = (struct keeper_event){ .type = KEEPER_GONE };
	keeper_kill(keeper);
	return true;
}

static void give_order(const struct keeper *keeper, struct order order)
{
	if (keeper->pid)
		send(keeper->fd, &order, sizeof(order), MSG_NOSIGNAL);
}

void keeper_release(const struct keeper *keeper, int64_t keep_ms)
{
	give_order(keeper, (struct order){ .type = ORDER_RELEASE, .keep_ms = keep_ms });
}

void keeper_retry(const struct keeper *keeper)
{
	give_order(keeper, (struct order){ .type = ORDER_RETRY });
}

void keeper_kill(struct keeper *keeper)
{
	if (!keeper->pid)
		return;
	kill(keeper->pid, SIGKILL);
	waitpid(keeper->pid, NULL, 0);
	close(keeper->fd);
	keeper->pid = 0;
	keeper->fd = -1;
}
