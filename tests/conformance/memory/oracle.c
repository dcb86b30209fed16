/* SPDX-License-Identifier: MIT */
/*
 * oracle [-egsu] URI MEMORY: plays random sequences of calls on a backend and on the backend in
 * memory (memory.c), through the contract of lock/backend.h, and compares what comes of each call,
 * and the rows after it. A difference is printed as the shortest sequence that shows it.
 * oracle -m SOCKET [FAULT] is the process that has the memory.
 *
 *	-e	entries: a fence is given when a client enters the queue, as with a session.
 *	-u	unordered: the backend has no queue, and shows no waiters. Two clients never
 *		wait at once, and nobody asks for the lock while one waits.
 *	-g	ghosts: what a client had that has died stays for a while, also that of a session.
 *		Here a waiter leaves the queue before it dies.
 *	-s	sleepers: waiters sleep in the server, for 10 s at least unless they are woken.
 *
 * ORACLE_SEQUENCES is how many sequences are played (500), and ORACLE_SEED the seed of the first
 * one; each next one has the next seed. Each client is an object of its own in this process. After
 * a call each waiter that was woken, or whose time has come, acquires again, as a keeper does.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/token.h"
#include "lock/uri.h"
#include "memory.h"

#define CLIENTS 4
#define CALLS_MOST 14
/* Redisson's shared holds have 30 s at most. */
#define TTL_MS 15000
/* A lease that is to end, and the pause in which it ends on both sides. */
#define SHORT_MS 300
#define LAPSE_US 450000
/*
 * So long may a backend take until its rows are right: less than HOLD_RETRY_MS, so that no
 * wake-up may be lost.
 */
#define SETTLE_MS 4000
/* A waiter that knows of a longer lease may look only after HOLD_RETRY_MS. */
#define LAPSE_SETTLE_MS (HOLD_RETRY_MS + 2000)
/* With -s: MariaDB tries for 2 s to wake a sleeper, which fails at times on a busy machine. */
#define SLEEPER_SETTLE_MS 8000
/* How long acquire_once() of a local backend may sleep. */
#define SLEEP_US 3000

enum call_kind {
	CALL_ACQUIRE, CALL_WAIT, CALL_RELEASE, CALL_RENEW, CALL_VERIFY, CALL_BREAK, CALL_DIE,
	CALL_KEEP, CALL_RENEW_OTHER, CALL_RELEASE_OTHER, CALL_REOPEN, CALL_LAPSE, CALL_KINDS
};

static const struct {
	const char *name;
	int weight;
	bool lease;		/* only where any process with the token may renew and release */
} call_types[CALL_KINDS] = {
	[CALL_ACQUIRE] = { "acquires", 60, false },
	[CALL_WAIT] = { "waits", 60, false },
	[CALL_RELEASE] = { "releases", 40, false },
	[CALL_RENEW] = { "renews", 16, false },
	[CALL_VERIFY] = { "is verified", 10, false },
	[CALL_BREAK] = { "breaks the lock", 10, false },
	[CALL_DIE] = { "dies", 12, false },
	[CALL_KEEP] = { "releases with a minimum hold", 8, true },
	[CALL_RENEW_OTHER] = { "is renewed by another process", 8, true },
	[CALL_RELEASE_OTHER] = { "is released by another process", 8, true },
	[CALL_REOPEN] = { "goes on in a new process", 8, true },
	[CALL_LAPSE] = { "loses its lease", 1, true },
};

struct call {
	enum call_kind kind;
	int client;
	enum hold_mode mode;
	int slots;
};

struct client {
	struct backend *backend;	/* NULL: not opened yet */
	enum { CLIENT_IDLE, CLIENT_WAITS, CLIENT_HOLDS } state;
	int life;			/* it has died so often */
	struct request request;
	char token[TOKEN_SIZE], text[HOLDER_TEXT_SIZE];
	uint64_t fence;
	int64_t retry_ms;
	int place;			/* waiting: in the order in which they came */
};

/* One of the two sides. */
struct side {
	const struct backend_driver *driver;
	struct uri uri;
	struct backend *observer;	/* the other process, for show and break */
	struct client clients[CLIENTS];
	char name[64];
	uint64_t fence;			/* the largest one given */
	uint64_t other_fence;		/* the largest one when the last mode of holds began */
	enum hold_mode mode;		/* of the hold that was given last */
	int places;
	struct error err;
	const char *outcome;
	char rows[4096];
};

static struct side memory, real;
static bool entries, unordered, ghosts, sleepers;

static void give_up(const struct side *side, const char *what)
{
	fprintf(stderr, "oracle: %s: %s: %s\n", side->uri.scheme, what, side->err.message);
	exit(2);
}

/* A module limits the memory of a process that plays one run of dlock; this one plays thousands. */
static void lift_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_DATA, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_DATA, &limit);
}

static struct backend *open_backend(struct side *side)
{
	struct backend *backend = backend_open(side->driver, &side->uri, NULL, &side->err);

	if (!backend)
		give_up(side, "open");
	lift_limit();
	return backend;
}

static void write_text(struct client *client, int number, const char *note)
{
	struct holder holder = { .ttl_ms = TTL_MS };

	snprintf(holder.command, sizeof(holder.command), "c%d.%d", number, client->life);
	snprintf(holder.note, sizeof(holder.note), "%s", note);
	holder_encode(&holder, client->text);
}

/* A new process with a new token. */
static void start_client(struct side *side, int number)
{
	struct client *client = &side->clients[number];

	backend_close(client->backend);
	*client = (struct client){ .backend = open_backend(side), .life = client->life + 1 };
	if (token_make_random(client->token, &side->err))
		give_up(side, "token");
	write_text(client, number, "");
	client->request = (struct request){ .name = side->name, .token = client->token,
					    .ttl_ms = TTL_MS, .text = client->text };
}

static const char *name_outcome(enum outcome outcome)
{
	static const char *const names[] = { "HELD", "BUSY", "LOST", "ERROR" };

	return names[outcome];
}

/* Signals end the sleep of a local backend, and go on until they are stopped. */
static void interrupt_sleep(int every_us)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, every_us }, { 0, every_us } }, NULL);
}

/*
 * Does a new fence grow? With a session or -e it is given when the client enters the queue, and
 * waiters that may hold at once hold in any order.
 */
static bool fence_grows(struct side *side, enum hold_mode mode, uint64_t fence)
{
	if (!(real.observer->session || entries) || mode == HOLD_EXCLUSIVE || mode != side->mode)
		side->other_fence = side->fence;
	side->mode = mode;
	if (fence > side->fence)
		side->fence = fence;
	return fence > side->other_fence;
}

/* One try. A client that holds already repeats its call, as after a lost reply. */
static const char *acquire_once(struct side *side, struct client *client)
{
	const bool held = client->state == CLIENT_HOLDS;
	struct grant grant = { .hold_fd = -1 };
	enum outcome outcome;

	interrupt_sleep(side->driver->local ? SLEEP_US : 0);
	outcome = hold_acquire(client->backend, &client->request, &grant, &side->err);
	interrupt_sleep(0);
	if (outcome == OUTCOME_ERROR) {
		/* It is not known whether a row is left. */
		client->backend->ops->release(client->backend, &client->request,
					      &(struct error){ 0 });
		client->state = CLIENT_IDLE;
	} else if (outcome == OUTCOME_BUSY) {
		client->state = client->request.queue ? CLIENT_WAITS : CLIENT_IDLE;
		client->retry_ms = grant.retry_ms;
	} else if (outcome == OUTCOME_HELD) {
		client->state = CLIENT_HOLDS;
		if (held && grant.fence == client->fence)
			return "HELD";
		if (!fence_grows(side, client->request.mode, grant.fence))
			return "HELD, with a fence that does not grow";
		client->fence = grant.fence;
	}
	return name_outcome(outcome);
}

static bool somebody_waits(const struct side *side)
{
	for (int i = 0; i < CLIENTS; i++)
		if (side->clients[i].state == CLIENT_WAITS)
			return true;
	return false;
}

static const char *call_acquire(struct side *side, struct client *client, const struct call *call)
{
	const char *outcome;

	if (client->state == CLIENT_WAITS || (unordered && somebody_waits(side)) ||
	    (client->state == CLIENT_HOLDS && real.observer->session))
		return "-";
	if (client->state == CLIENT_IDLE) {
		client->request.mode = call->mode;
		client->request.slots = call->slots;
		client->request.queue = call->kind == CALL_WAIT;
		client->place = ++side->places;
	}
	outcome = acquire_once(side, client);
	/* A process that does not wait ends. */
	if (client->state == CLIENT_IDLE)
		start_client(side, call->client);
	return outcome;
}

static const char *call_release(struct side *side, struct client *client, int number,
				int64_t keep_ms)
{
	const struct holder self = { .command = "kept", .ttl_ms = TTL_MS };
	enum outcome outcome = hold_release(client->backend, &client->request, &self, keep_ms, 0,
					    &side->err);

	/* A process that has lost its hold ends. Nobody uses the token of a minimum hold again. */
	if (keep_ms || (outcome == OUTCOME_LOST && client->state == CLIENT_HOLDS))
		start_client(side, number);
	client->state = CLIENT_IDLE;
	return name_outcome(outcome);
}

static const char *call_renew(struct side *side, struct client *client, int number, int64_t ttl_ms)
{
	struct grant grant = { .hold_fd = -1 };
	struct request request = client->request;
	enum outcome outcome;

	request.ttl_ms = ttl_ms;
	write_text(client, number, "renewed");
	outcome = hold_renew(client->backend, &request, &grant, &side->err);
	if (outcome == OUTCOME_LOST)
		start_client(side, number);
	return name_outcome(outcome);
}

static const char *call_other(struct side *side, struct client *client, enum call_kind kind)
{
	struct grant grant = { .hold_fd = -1 };
	struct request request = client->request;

	request.text = NULL;
	request.ttl_ms = 0;
	if (kind == CALL_VERIFY)
		return name_outcome(hold_verify(side->observer, &request, &grant.fence,
						&side->err));
	if (kind == CALL_RENEW_OTHER)
		return name_outcome(hold_renew_other(side->observer, &request, &grant, &side->err));
	return name_outcome(hold_release_other(side->observer, &request, &side->err));
}

static const char *call_break(struct side *side)
{
	struct rows view = { 0 };
	const int failed = hold_show(side->observer, side->name, "", &view, &side->err) ||
			   hold_break(side->observer, side->name, &view, &side->err) ==
				   OUTCOME_ERROR;

	rows_finish(&view);
	return failed ? "ERROR" : "done";
}

/* A session ends with its client, but memory has no sessions. */
static const char *call_die(struct side *side, struct client *client, int number)
{
	const bool ends = real.observer->session && !ghosts && side == &memory;

	if ((ends && client->state != CLIENT_IDLE) || (ghosts && client->state == CLIENT_WAITS))
		client->backend->ops->release(client->backend, &client->request, &side->err);
	start_client(side, number);
	return "done";
}

static const char *call_reopen(struct side *side, struct client *client)
{
	backend_close(client->backend);
	client->backend = open_backend(side);
	return "done";
}

/* What comes of a call; "-" for one that nobody makes in this state. */
static const char *make_call(struct side *side, const struct call *call)
{
	struct client *client = &side->clients[call->client];
	const bool session = real.observer->session;

	if (call->kind == CALL_ACQUIRE || call->kind == CALL_WAIT)
		return call_acquire(side, client, call);
	if (call->kind == CALL_BREAK)
		return call_break(side);
	if (call->kind == CALL_DIE)
		return call_die(side, client, call->client);
	if (call->kind == CALL_VERIFY)
		return call_other(side, client, call->kind);
	if (client->state == CLIENT_IDLE && session)
		return "-";
	if (call->kind == CALL_RELEASE)
		return call_release(side, client, call->client, 0);
	if (client->state != CLIENT_HOLDS)
		return "-";
	if (call->kind == CALL_REOPEN)
		return call_reopen(side, client);
	if (call->kind == CALL_RENEW)
		return call_renew(side, client, call->client, 2 * TTL_MS);
	if (call->kind == CALL_LAPSE)
		return call_renew(side, client, call->client, SHORT_MS);
	if (call->kind == CALL_KEEP)
		return call_release(side, client, call->client, TTL_MS);
	return call_other(side, client, call->kind);
}

/* ---- what is there afterwards */

static int compare_lines(const void *a, const void *b)
{
	return strcmp(a, b);
}

#define LINE 400

static void describe_row(const struct side *side, const struct row *row, bool holds,
			 char line[static LINE])
{
	const int64_t left_ms = real.observer->session || !holds ? 0 : row->left_ms;
	char mode[TEXT_DIGITS_SIZE];
	int number = 0, life = 0;
	bool wrong;

	sscanf(row->holder.command, "c%d.%d", &number, &life);
	wrong = number >= 0 && number < CLIENTS && side->clients[number].life == life &&
		row->fence && row->fence != side->clients[number].fence;
	snprintf(line, LINE, "%s %s %s%s%s %d%s", holds ? "holds" : "waits",
		 hold_mode_text(row->mode, row->slots, mode), row->holder.command,
		 row->holder.note[0] ? " " : "", row->holder.note,
		 (int)((left_ms + TTL_MS / 2) / TTL_MS), wrong ? ", with a wrong fence" : "");
}

/* The rows in words, without times and fences, which differ. */
static void print_rows(struct side *side)
{
	struct rows view = { 0 };
	char lines[2 * CLIENTS + CALLS_MOST][LINE];
	size_t count = 0;

	if (hold_show(side->observer, side->name, "", &view, &side->err))
		give_up(side, "show");
	for (size_t i = 0; i < view.hold_count && count < sizeof(lines) / LINE; i++)
		describe_row(side, &view.holds[i], true, lines[count++]);
	qsort(lines, count, LINE, compare_lines);
	for (size_t i = 0; i < view.waiter_count && count < sizeof(lines) / LINE; i++)
		if (!unordered)
			describe_row(side, &view.waiters[i], false, lines[count++]);
	side->rows[0] = '\0';
	for (size_t i = 0; i < count; i++)
		snprintf(side->rows + strlen(side->rows), sizeof(side->rows) - strlen(side->rows),
			 "%s%s", i ? ", " : "", lines[i]);
	rows_finish(&view);
}

/* Was the client woken, or has its time come? One of a local backend sleeps in acquire_once(). */
static bool is_due(const struct side *side, struct client *client)
{
	struct pollfd ready = { .fd = -1, .events = POLLIN };

	if (side->driver->local)
		return true;
	ready.fd = client->backend->ops->fd(client->backend);
	if (client->backend->woken || poll(&ready, 1, 0) > 0)
		client->retry_ms = clock_earlier(client->retry_ms,
						 client->backend->ops->event(client->backend));
	return client->retry_ms <= clock_boot_ms();
}

/* Let waiters that are due acquire, in the order in which they came. False: none was. */
static bool drive_waiters(struct side *side)
{
	bool driven = false;

	for (int place = 1; place <= side->places; place++)
		for (int i = 0; i < CLIENTS; i++) {
			struct client *client = &side->clients[i];

			if (client->state != CLIENT_WAITS || client->place != place ||
			    !is_due(side, client))
				continue;
			acquire_once(side, client);
			driven = true;
		}
	return driven;
}

/* Wait until both sides have the same rows. False: they do not get them. */
static bool await_same_rows(const struct call *call)
{
	const int64_t settle_ms = call->kind == CALL_LAPSE ? LAPSE_SETTLE_MS : SETTLE_MS;
	const int64_t end_ms = clock_boot_ms() + (sleepers ? SLEEPER_SETTLE_MS : settle_ms);

	for (;;) {
		while (drive_waiters(&memory))
			;
		drive_waiters(&real);
		print_rows(&memory);
		print_rows(&real);
		if (!strcmp(memory.rows, real.rows))
			return true;
		if (clock_boot_ms() > end_ms)
			return false;
		usleep(2000);
	}
}

/* ---- sequences */

static void print_call(int number, const struct call *call)
{
	char mode[TEXT_DIGITS_SIZE];

	printf("  %d  c%d %s", number, call->client, call_types[call->kind].name);
	if (call->kind == CALL_ACQUIRE || call->kind == CALL_WAIT)
		printf(" (%s)", hold_mode_text(call->mode, call->slots, mode));
	printf(": %s", memory.outcome);
	if (strcmp(memory.outcome, real.outcome) != 0)
		printf(" %s, but %s: %s %s", memory.err.message, real.uri.scheme, real.outcome,
		       real.err.message);
	printf("\n");
}

static int played;

static void start_side(struct side *side)
{
	snprintf(side->name, sizeof(side->name), "%s-%d-%d",
		 side == &real ? "real" : "memory", getpid(), played);
	side->places = 0;
	/* An object is for one lock. */
	backend_close(side->observer);
	side->observer = open_backend(side);
	for (int i = 0; i < CLIENTS; i++) {
		side->clients[i].life = 0;
		start_client(side, i);
	}
}

static void finish_side(struct side *side)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (side->clients[i].state != CLIENT_IDLE)
			call_release(side, &side->clients[i], i, 0);
		backend_close(side->clients[i].backend);
		side->clients[i] = (struct client){ 0 };
	}
	call_break(side);
}

/* Play the calls. Returns how many agree: all of them, or those before the difference. */
static int play_calls(const struct call *calls, int count, bool print)
{
	bool same = true;
	int i;

	played++;
	start_side(&memory);
	start_side(&real);
	for (i = 0; i < count && same; i++) {
		real.err = memory.err = (struct error){ 0 };
		memory.outcome = make_call(&memory, &calls[i]);
		real.outcome = make_call(&real, &calls[i]);
		if (calls[i].kind == CALL_LAPSE && strcmp(real.outcome, "-") != 0)
			usleep(LAPSE_US);
		same = !strcmp(memory.outcome, real.outcome) && await_same_rows(&calls[i]);
		if (print)
			print_call(i + 1, &calls[i]);
	}
	if (print && !same)
		printf("     memory has: %s\n     %s has: %s\n", memory.rows, real.uri.scheme,
		       real.rows);
	finish_side(&memory);
	finish_side(&real);
	return same ? count : i - 1;
}

/* xorshift64*: the same numbers from the same seed on every machine. */
static uint64_t random_state;

static int pick_number(int below)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (int)((random_state * UINT64_C(0x2545f4914f6cdd1d) >> 33) % (uint64_t)below);
}

static bool is_possible(const struct call *call)
{
	return !(call_types[call->kind].lease && real.observer->session) &&
	       !(call->mode == HOLD_SHARED && !(real.observer->can & BACKEND_SHARED)) &&
	       !(call->mode == HOLD_SLOT && !(real.observer->can & BACKEND_SLOTS));
}

static struct call make_random(void)
{
	struct call call = { 0 };
	int sum = 0, chosen;

	do {
		sum = 0;
		for (int i = 0; i < CALL_KINDS; i++)
			sum += call_types[i].weight;
		chosen = pick_number(sum);
		for (call.kind = 0; chosen >= call_types[call.kind].weight; call.kind++)
			chosen -= call_types[call.kind].weight;
		call.client = pick_number(CLIENTS);
		call.mode = (enum hold_mode)pick_number(HOLD_SLOT + 1);
		call.slots = call.mode == HOLD_SLOT ? 2 + !pick_number(8) : 0;
	} while (!is_possible(&call));
	return call;
}

/* Drop each call without which there still is a difference. Returns how many are left. */
static int shorten_calls(struct call *calls, int count)
{
	struct call fewer[CALLS_MOST];
	int agreed;

	for (int i = count - 1; i >= 0; i--) {
		memcpy(fewer, calls, sizeof(fewer));
		memmove(&fewer[i], &fewer[i + 1], (size_t)(count - i - 1) * sizeof(*fewer));
		agreed = play_calls(fewer, count - 1, false);
		if (agreed == count - 1)
			continue;
		memcpy(calls, fewer, sizeof(fewer));
		count = i = agreed + 1;
	}
	return count;
}

static bool play_random(unsigned long seed)
{
	struct call calls[CALLS_MOST];
	int count, agreed;

	random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
	pick_number(1);
	count = 3 + pick_number(CALLS_MOST - 2);
	for (int i = 0; i < count; i++)
		calls[i] = make_random();
	agreed = play_calls(calls, count, false);
	if (agreed == count)
		return true;
	count = shorten_calls(calls, agreed + 1);
	printf("seed %lu: %s: and memory differ in %d calls:\n", seed, real.uri.scheme, count);
	if (play_calls(calls, count, true) == count)
		printf("     only at times\n");
	return false;
}

/* ---- the program */

static void open_side(struct side *side, const char *uri)
{
	if (uri_parse(&side->uri, uri, &side->err))
		give_up(side, uri);
	side->driver = backend_find(&side->uri, &side->err);
	if (!side->driver)
		give_up(side, uri);
	side->observer = open_backend(side);
	if (side->observer->ops->setup &&
	    side->observer->ops->setup(side->observer, NULL, &side->err))
		give_up(side, "setup");
}

static void ignore_signal(int number)
{
	(void)number;
}

static unsigned long read_number(const char *variable, unsigned long otherwise)
{
	const char *text = getenv(variable);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

int main(int argc, char *argv[])
{
	const unsigned long count = read_number("ORACLE_SEQUENCES", 500);
	const unsigned long first = read_number("ORACLE_SEED", 1);
	const struct sigaction action = { .sa_handler = ignore_signal };
	int option, differ = 0;

	while ((option = getopt(argc, argv, "egmsu")) >= 0) {
		if (option == 'm')
			return memory_serve(argv[optind],
					    argc > optind + 1 ? argv[optind + 1] : "");
		entries = entries || option == 'e';
		unordered = unordered || option == 'u';
		ghosts = ghosts || option == 'g';
		sleepers = sleepers || option == 's';
	}
	if (argc != optind + 2) {
		fprintf(stderr, "usage: oracle [-egsu] URI MEMORY | oracle -m SOCKET [FAULT]\n");
		return 2;
	}
	open_side(&real, argv[optind]);
	open_side(&memory, argv[optind + 1]);
	sigaction(SIGALRM, &action, NULL);
	for (unsigned long seed = first; seed < first + count && !differ; seed++)
		differ = !play_random(seed);
	printf("%lu sequences from seed %lu: %s\n", count, first,
	       differ ? "a difference" : "the same");
	return differ;
}
