/* SPDX-License-Identifier: MIT */
/*
 * waiters N SECONDS HANDOVERS URI REQUESTS: measures the server's work for a holder and N waiters
 * on one lock, more than a machine has memory for as processes. Each is an object of the backend in
 * this one process, with the connections and requests of a keeper (lock/backend.h). REQUESTS is a
 * shell command that prints how many requests the server has had. Prints
 *
 *	N REQUESTS/S/WAITER REQUESTS/HAND-OVER US/HAND-OVER
 */
#include <sys/epoll.h>
#include <sys/resource.h>

#include "backends/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench.h"
#include "lock/hold.h"
#include "lock/holder.h"
#include "lock/token.h"

#define TTL_MS 600000
#define EVENTS 64

struct waiter {
	struct backend *backend;
	char token[TOKEN_SIZE];
	int fd;
	int64_t retry_ms;
};

static const struct backend_driver *driver;
static struct uri uri;
static char text[HOLDER_TEXT_SIZE];
static int epoll_fd;

static void exit_error(const char *what, const struct error *err)
{
	fprintf(stderr, "waiters: %s: %s\n", what, err->message);
	exit(1);
}

static double count_requests(const char *command)
{
	FILE *answer = popen(command, "re");
	double number;

	if (!answer || fscanf(answer, "%lf", &number) != 1)
		exit_failed(command);
	pclose(answer);
	return number;
}

static struct request make_request(const struct waiter *waiter)
{
	return (struct request){ .name = "bench", .token = waiter->token, .ttl_ms = TTL_MS,
				 .queue = true, .text = text };
}

static void open_waiter(struct waiter *waiter)
{
	struct error err = { 0 };

	waiter->fd = -1;
	waiter->backend = backend_open(driver, &uri, NULL, &err);
	if (!waiter->backend || token_make_random(waiter->token, &err))
		exit_error("open", &err);
}

/* Let epoll watch the descriptor that the backend names now. */
static void watch(struct waiter *waiter)
{
	const int fd = waiter->backend->ops->fd(waiter->backend);
	struct epoll_event input = { .events = EPOLLIN, .data.ptr = waiter };

	if (fd != waiter->fd && fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &input))
		exit_failed("epoll_ctl");
	waiter->fd = fd;
}

/* Returns whether it holds the lock. */
static bool acquire(struct waiter *waiter)
{
	const struct request request = make_request(waiter);
	struct grant grant = { .hold_fd = -1 };
	struct error err = { 0 };

	switch (hold_acquire(waiter->backend, &request, &grant, &err)) {
	case OUTCOME_HELD:
		return true;
	case OUTCOME_BUSY:
		waiter->retry_ms = grant.retry_ms;
		if (waiter->backend->woken)
			waiter->retry_ms = waiter->backend->ops->event(waiter->backend);
		watch(waiter);
		return false;
	default:
		exit_error("acquire", &err);
	}
	return false;
}

static void release(struct waiter *waiter)
{
	const struct request request = make_request(waiter);
	struct error err = { 0 };

	if (waiter->backend->ops->release(waiter->backend, &request, &err) != OUTCOME_HELD)
		exit_error("release", &err);
	backend_close(waiter->backend);
	waiter->backend = NULL;
}

/* Do what the waiters have to do until until_ms. Returns the one that got the lock, or NULL. */
static struct waiter *serve(struct waiter *waiters, int count, int64_t until_ms)
{
	struct epoll_event events[EVENTS];
	int64_t next_ms = until_ms;
	int ready;

	for (int i = 1; i < count; i++)
		if (waiters[i].backend)
			next_ms = clock_earlier(next_ms, waiters[i].retry_ms);
	ready = epoll_wait(epoll_fd, events, EVENTS, clock_poll_timeout(next_ms));
	for (int i = 0; i < ready; i++) {
		struct waiter *waiter = events[i].data.ptr;

		waiter->retry_ms = clock_earlier(waiter->retry_ms,
						 waiter->backend->ops->event(waiter->backend));
	}
	for (int i = 1; i < count; i++)
		if (waiters[i].backend && waiters[i].retry_ms <= clock_boot_ms() &&
		    acquire(&waiters[i]))
			return &waiters[i];
	return NULL;
}

/* Returns the one that gets the lock after holder has released it. */
static struct waiter *hand_over(struct waiter *waiters, int count, struct waiter *holder)
{
	const int64_t until_ms = clock_boot_ms() + 60000;
	struct waiter *next = NULL;

	release(holder);
	while (!next && clock_boot_ms() < until_ms)
		next = serve(waiters, count, until_ms);
	if (next)
		return next;
	fprintf(stderr, "waiters: nobody got the lock\n");
	exit(1);
}

int main(int argc, char *argv[])
{
	const int count = argc == 6 ? atoi(argv[1]) + 1 : 0;
	struct rlimit files;
	struct holder self = { .pid = getpid(), .ttl_ms = TTL_MS };
	struct waiter *waiters, *holder;
	struct error err = { 0 };
	double before, waited, handed;
	int64_t until_ms, start_ns;

	if (count < 2)
		return 2;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	driver = uri_parse(&uri, argv[4], &err) ? NULL : backend_find(&uri, &err);
	if (!driver)
		exit_error(argv[4], &err);
	holder_encode(&self, text);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	holder = waiters = calloc((size_t)count, sizeof(*waiters));
	for (int i = 0; i < count; i++) {
		open_waiter(&waiters[i]);
		if (acquire(&waiters[i]) != (i == 0))
			exit_failed("not the first holds");
		/* A waiter that tries no more for a minute is dead. */
		serve(waiters, i, 0);
	}
	until_ms = clock_boot_ms() + atoi(argv[2]) * INT64_C(1000);
	before = count_requests(argv[5]);
	while (clock_boot_ms() < until_ms)
		serve(waiters, count, until_ms);
	waited = count_requests(argv[5]) - before;
	before += waited;
	start_ns = now_ns();
	for (int i = 0; i < atoi(argv[3]); i++)
		holder = hand_over(waiters, count, holder);
	start_ns = now_ns() - start_ns;
	handed = count_requests(argv[5]) - before;
	release(holder);
	printf("%d %.3f %.2f %.0f\n", count - 1, waited / atoi(argv[2]) / (count - 1),
	       handed / atoi(argv[3]), (double)start_ns / 1e3 / atoi(argv[3]));
	return 0;
}
