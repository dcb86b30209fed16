/* SPDX-License-Identifier: MIT */
/*
 * waiters N SECONDS HANDOVERS URI SERVER REQUESTS: measures a server's work for N waiters behind
 * one holder, more than there is memory for as processes of dlock. Each waiter is an object of the
 * backend, with the connections and requests of a keeper (lock/backend.h), and up to EACH of them
 * share a process; one of a local backend, which sleeps in acquire(), has its own. SERVER is the
 * server's pid (0: none), and REQUESTS a shell command that prints how many requests it has had.
 *
 * Once all N wait, they rest for SECONDS. Then each gets the lock and releases it, HANDOVERS times
 * in all, in several rounds if N is less. Prints
 *
 *	N US REQUESTS CPU_US SERVER_MB REST_REQUESTS/S/WAITER REST_CPU_PERCENT FAILED
 *
 * US, REQUESTS and the server's CPU_US are for one hand-over, without what the server does in this
 * time for waiters at rest. FAILED is how many requests of waiters failed, and were repeated.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "backends/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench.h"
#include "lock/hold.h"
#include "lock/token.h"

/*
 * The waiters take turns at entering the queue, one of each process, a few at a time. So neighbours
 * in the queue have different processes, as one of them may wait until the other one has tried.
 */
#define EACH 250
#define PROCESSES_LEAST 16
#define AT_ONCE 4
#define RENEW_MS (BACKEND_TTL_MS / 3)
#define ALL_SECONDS 480
/* From a request that failed to the next one. */
#define FAILED_MS 500
/* From the last entry to the first measurement. A local waiter reports before it enters. */
#define SETTLE_MS 100

/* What a process of waiters is to do, and what it reports. */
enum order { ORDER_JOIN = 'j', ORDER_LEAVE = 'l' };
enum report { REPORT_JOINED = 'j', REPORT_HANDED = 'h', REPORT_FAILED = 'f' };

struct waiter {
	struct backend *backend;
	char token[TOKEN_SIZE];
	enum { WAITER_OUT, WAITER_WAITS, WAITER_HOLDS } state;
	int64_t retry_ms;
};

/* A process of waiters. */
struct process {
	pid_t pid;
	int gate;			/* for orders */
};

/* The memory that all processes share. */
struct progress {
	atomic_int handed;		/* so many waiters have got the lock */
	atomic_int failed;		/* requests of those that wait */
	int64_t ended_ns;		/* when the last one of the round got it */
};

/* The server's counters: how they have changed in a time. */
struct sample {
	double s, requests, cpu_us;
};

struct result {
	struct sample rest, handed;	/* while all wait, and while the lock is handed over */
	double us, memory_mb;
};

static const struct backend_driver *driver;
static struct uri uri;
static char text[HOLDER_TEXT_SIZE];
static struct progress *progress;
static int quota;			/* hand-overs of a round */
static int reports[2];
static struct process *processes;
static int process_count;
static pid_t server;
static const char *requests;

static void send_byte(int fd, int byte)
{
	if (write(fd, &(char){ (char)byte }, 1) != 1)
		exit_failed("write");
}

static void exit_error(const char *what, const struct error *err)
{
	fprintf(stderr, "waiters: %s: %s\n", what, err->message);
	send_byte(reports[1], REPORT_FAILED);
	exit(1);
}

/* ---- one waiter */

static struct request make_request(const struct waiter *waiter)
{
	return (struct request){ .name = "bench", .token = waiter->token, .queue = true,
				 .ttl_ms = BACKEND_TTL_MS, .text = text };
}

static void open_waiter(struct waiter *waiter)
{
	struct error err = { 0 };
	struct rlimit limit;

	waiter->backend = backend_open(driver, &uri, NULL, &err);
	if (!waiter->backend || token_make_random(waiter->token, &err))
		exit_error("open", &err);
	/* A module limits the memory of a process that plays one run of dlock. */
	getrlimit(RLIMIT_DATA, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_DATA, &limit);
}

static void acquire(struct waiter *waiter)
{
	const struct request request = make_request(waiter);
	struct grant grant = { .hold_fd = -1 };
	struct error err = { 0 };
	const enum outcome outcome = hold_acquire(waiter->backend, &request, &grant, &err);

	if (outcome == OUTCOME_ERROR && waiter->state != WAITER_WAITS)
		exit_error("acquire", &err);
	waiter->state = outcome == OUTCOME_HELD ? WAITER_HOLDS : WAITER_WAITS;
	waiter->retry_ms = grant.retry_ms;
	/* One that had an answer goes on. */
	if (outcome == OUTCOME_ERROR) {
		waiter->retry_ms = clock_boot_ms() + FAILED_MS;
		atomic_fetch_add(&progress->failed, 1);
	}
}

static void release(struct waiter *waiter)
{
	const struct request request = make_request(waiter);
	struct error err = { 0 };

	if (waiter->backend->ops->release(waiter->backend, &request, &err) == OUTCOME_ERROR)
		exit_error("release", &err);
	waiter->state = WAITER_OUT;
}

/* ---- a process of waiters */

/* Try. One that gets the lock passes it on, unless it is the last one of the round. */
static void try_once(struct waiter *waiter)
{
	acquire(waiter);
	if (waiter->state != WAITER_HOLDS)
		return;
	if (atomic_fetch_add(&progress->handed, 1) + 1 < quota) {
		release(waiter);
	} else {
		progress->ended_ns = now_ns();
		send_byte(reports[1], REPORT_HANDED);
	}
}

/* Sleep until a waiter is woken or due, and let it try, or until the parent writes to gate. */
static void serve(struct waiter *waiters, int count, int gate)
{
	struct pollfd fds[EACH + 1] = { { gate, POLLIN, 0 } };
	int64_t until_ms = CLOCK_NEVER;
	struct waiter *next = NULL;

	for (int i = 0; i < count; i++) {
		struct backend *backend = waiters[i].backend;
		const bool waits = waiters[i].state == WAITER_WAITS;

		fds[i + 1].fd = waits && backend->ops->fd ? backend->ops->fd(backend) : -1;
		fds[i + 1].events = POLLIN;
		if (waits)
			until_ms = clock_earlier(until_ms,
						 backend->woken ? 0 : waiters[i].retry_ms);
	}
	poll(fds, (nfds_t)count + 1, clock_poll_timeout(until_ms));
	for (int i = 0; i < count; i++) {
		struct waiter *waiter = &waiters[i];

		if (waiter->state != WAITER_WAITS)
			continue;
		if (fds[i + 1].revents || waiter->backend->woken)
			waiter->retry_ms = clock_earlier(waiter->retry_ms,
				waiter->backend->ops->event(waiter->backend));
		if (!next || waiter->retry_ms < next->retry_ms)
			next = waiter;
	}
	/* One at a time: the regular tries of the others must not delay one that is woken. */
	if (next && next->retry_ms <= clock_boot_ms())
		try_once(next);
}

static void __attribute__((noreturn)) waiters_main(int gate)
{
	struct waiter waiters[EACH] = { 0 };
	struct pollfd order = { gate, POLLIN, 0 };
	int count = 0;
	char byte;

	for (;;) {
		serve(waiters, count, gate);
		if (poll(&order, 1, 0) < 1)
			continue;
		if (read(gate, &byte, 1) != 1 || byte == ORDER_LEAVE)
			break;
		open_waiter(&waiters[count]);
		/* It sleeps in there. */
		if (driver->local)
			send_byte(reports[1], REPORT_JOINED);
		try_once(&waiters[count++]);
		if (!driver->local)
			send_byte(reports[1], REPORT_JOINED);
	}
	/* What is left of one whose release fails ends by itself. */
	for (int i = 0; i < count; i++) {
		const struct request request = make_request(&waiters[i]);

		if (waiters[i].state != WAITER_OUT)
			waiters[i].backend->ops->release(waiters[i].backend, &request,
							 &(struct error){ 0 });
		backend_close(waiters[i].backend);
	}
	exit(0);
}

/* ---- the process that measures, and has the lock first */

static void renew(struct waiter *holder)
{
	const struct request request = make_request(holder);
	struct grant grant = { .hold_fd = -1 };
	struct error err = { 0 };

	if (hold_renew(holder->backend, &request, &grant, &err) != OUTCOME_HELD)
		exit_error("renew", &err);
	holder->retry_ms = clock_boot_ms() + RENEW_MS;
}

/* Wait for a report, or until until_ms: then false. Renews in the meantime. */
static bool await_report(struct waiter *holder, int64_t until_ms)
{
	struct pollfd report = { reports[0], POLLIN, 0 };
	char byte;

	while (poll(&report, 1, clock_poll_timeout(
			clock_earlier(until_ms, holder->retry_ms))) < 1) {
		if (until_ms <= clock_boot_ms())
			return false;
		if (holder->retry_ms <= clock_boot_ms())
			renew(holder);
	}
	if (read(reports[0], &byte, 1) != 1 || byte == REPORT_FAILED)
		exit(1);
	return true;
}

static void fill_queue(struct waiter *holder, int count)
{
	int joined = 0;

	open_waiter(holder);
	acquire(holder);
	holder->retry_ms = driver->local ? CLOCK_NEVER : clock_boot_ms() + RENEW_MS;
	for (int i = 0; i < count; i++) {
		send_byte(processes[i % process_count].gate, ORDER_JOIN);
		if (i >= AT_ONCE)
			joined += await_report(holder, CLOCK_NEVER);
	}
	while (joined < count)
		joined += await_report(holder, CLOCK_NEVER);
	await_report(holder, clock_boot_ms() + SETTLE_MS + (driver->local ? count / 4 : 0));
	if (holder->state != WAITER_HOLDS || atomic_load(&progress->handed)) {
		fprintf(stderr, "waiters: the first one does not hold\n");
		exit(1);
	}
}

/* Add the counters as they are now: sign is -1 at the start of the time, and 1 at its end. */
static void add_sample(struct sample *sum, double sign)
{
	if (!server)
		return;
	/* What the question costs the server is before or after the time. */
	if (sign < 0)
		sum->requests -= ask_number(requests);
	sum->s += sign * (double)now_ns() / 1e9;
	sum->cpu_us += sign * measure_usage(&server, 1, 0).cpu_us;
	if (sign > 0)
		sum->requests += ask_number(requests);
}

/* Measure the waiters for as many seconds. */
static void measure_rest(struct waiter *holder, int seconds, struct result *result)
{
	add_sample(&result->rest, -1);
	await_report(holder, clock_boot_ms() + seconds * INT64_C(1000));
	add_sample(&result->rest, 1);
	result->memory_mb = measure_usage(&server, 1, 1).pss_kb / 1024;
}

static void hand_over(struct waiter *holder, struct result *result)
{
	int64_t began_ns;

	add_sample(&result->handed, -1);
	began_ns = now_ns();
	release(holder);
	holder->retry_ms = CLOCK_NEVER;
	await_report(holder, CLOCK_NEVER);
	result->us += (double)(progress->ended_ns - began_ns) / 1e3;
	add_sample(&result->handed, 1);
}

static void start_process(struct process *process)
{
	int gate[2];

	if (pipe2(gate, O_CLOEXEC))
		exit_failed("pipe");
	process->pid = fork();
	if (process->pid < 0)
		exit_failed("fork");
	if (!process->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		waiters_main(gate[0]);
	}
	close(gate[0]);
	process->gate = gate[1];
}

static void play_round(int count, int seconds, struct result *result)
{
	struct waiter holder = { 0 };

	atomic_store(&progress->handed, 0);
	for (int i = 0; i < process_count; i++)
		start_process(&processes[i]);
	fill_queue(&holder, count);
	if (seconds && server)
		measure_rest(&holder, seconds, result);
	hand_over(&holder, result);
	for (int i = 0; i < process_count; i++) {
		if (driver->local)
			kill(processes[i].pid, SIGKILL);
		else
			send_byte(processes[i].gate, ORDER_LEAVE);
		close(processes[i].gate);
	}
	for (int i = 0; i < process_count; i++)
		if (driver->local)
			waitpid(processes[i].pid, NULL, 0);
		else
			reap_program(processes[i].pid, "waiters");
	backend_close(holder.backend);
}

static void choose_processes(int count)
{
	process_count = driver->local ? count : (count + EACH - 1) / EACH;
	if (process_count < PROCESSES_LEAST)
		process_count = count < PROCESSES_LEAST ? count : PROCESSES_LEAST;
	processes = calloc((size_t)process_count, sizeof(*processes));
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!processes || progress == MAP_FAILED)
		exit_failed("memory");
}

int main(int argc, char *argv[])
{
	const int count = argc == 7 ? atoi(argv[1]) : 0;
	struct holder self = { .pid = getpid(), .ttl_ms = BACKEND_TTL_MS };
	struct result result = { 0 };
	struct error err = { 0 };
	double handed = 0, requests_s = 0, load = 0;

	if (count < 1)
		return 2;
	quota = atoi(argv[3]) < count ? atoi(argv[3]) : count;
	server = atoi(argv[5]);
	requests = argv[6];
	alarm(ALL_SECONDS);
	if (pipe(reports))
		exit_failed("pipe");
	driver = uri_parse(&uri, argv[4], &err) ? NULL : backend_find(&uri, &err);
	if (!driver)
		exit_error(argv[4], &err);
	holder_encode(&self, text);
	choose_processes(count);
	for (int left = atoi(argv[3]); left > 0; left -= quota) {
		play_round(count, left > quota ? 0 : atoi(argv[2]), &result);
		handed += quota;
	}
	if (result.rest.s > 0) {
		requests_s = result.rest.requests / result.rest.s;
		load = result.rest.cpu_us / result.rest.s;
	}
	printf("%d %.0f %.2f %.0f %.0f %.3f %.2f %d\n", count, result.us / handed,
	       (result.handed.requests - requests_s * result.handed.s) / handed,
	       (result.handed.cpu_us - load * result.handed.s) / handed, result.memory_mb,
	       requests_s / count, load / 1e4, atomic_load(&progress->failed));
	return 0;
}
