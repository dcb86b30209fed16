/* SPDX-License-Identifier: MIT */
/*
 * memory:///NAME: a backend whose rows are in the memory of one process, for tests. It is the
 * smallest one that keeps the contract of lock/backend.h; docs/backend.md takes the reader through
 * it.
 *
 * The process knows nothing of locks. It lends its table to one client at a time, and takes it back
 * as a whole, or not at all if the client dies: the table is one message of a SOCK_SEQPACKET. So
 * what a client does between begin_change() and commit_change() is one atomic step.
 *
 * Rows are in the order in which they came. The first one that waits for a lock may hold as soon as
 * the rows that hold it leave room; the others wait behind it. A waiter listens at a socket whose
 * name is the row's id. Others wake the waiter there, and see there that it has died.
 *
 * The steps of tests/model/line.pml: try is mem_acquire() with watch_first(), which evicts; take is
 * take_lock(), release is mem_release(), and call_first is wake_waiters().
 */
#include "memory.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/hold.h"
#include "lock/name.h"
#include "lock/uri.h"

/* The table fits into the buffer of a socket, so that sending it does not block. */
#define ROWS 140

struct entry {
	struct row row; /* as shown, but for its times */
	bool holds; /* false: waits */
	char name[NAME_MAX_BYTES + 1];
	int64_t since_ms, end_ms;	/* CLOCK_BOOTTIME */
};

struct mem {
	struct backend base;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	/*
	 * Where a waiter is woken; -1: it does not wait. Only event() reads it, so `woken` of the
	 * contract is never needed.
	 */
	int wake_fd;
	struct hold_late late;
	/* Between begin_change() and commit_change(): */
	int server;			/* the connection */
	char id[ROW_ID_SIZE];
	struct entry *mine;		/* the row with this id; NULL: there is none */
	struct entry *first;		/* of those that wait for the lock; NULL: none does */
	struct entry *hold;		/* of those that hold it, the one that ends first */
	int held;			/* how many hold it */
	bool pruned;			/* a row was removed */
};

/* That of the server; in a client, the copy that it has borrowed. */
static struct {
	char fault[8];
	uint64_t fence;			/* the last one given */
	size_t count;
	struct entry entries[ROWS];
} table;

/*
 * A socket that is bound to a name in the kernel's abstract namespace, or connected to it. -1: that
 * was refused.
 */
static int open_socket(const char *name, int type, bool binds)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct sockaddr *const to = (const struct sockaddr *)&address;
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path + 1, name, sizeof(address.sun_path) - 2);
	if (!(binds ? bind(fd, to, sizeof(address)) : connect(fd, to, sizeof(address))))
		return fd;
	close(fd);
	return -1;
}

/* ---- the server */

int memory_serve(const char *name, const char *fault)
{
	const int listener = open_socket(name, SOCK_SEQPACKET, true);
	const struct timeval most = { .tv_sec = 1 };
	int client;

	strncpy(table.fault, fault, sizeof(table.fault) - 1);
	listen(listener, ROWS);
	while ((client = accept(listener, NULL, NULL)) >= 0) {
		send(client, &table, sizeof(table), MSG_NOSIGNAL);
		/* A client that is stopped gives nothing back. */
		setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
		if (recv(client, &table, sizeof(table), 0) == (ssize_t)sizeof(table))
			send(client, "", 1, MSG_NOSIGNAL);
		close(client);
	}
	return 1;
}

/* ---- transactions */

/* Does the waiter live? If it does, wake it if asked to. */
static bool reach_waiter(const struct entry *waiter, bool wake)
{
	const int fd = open_socket(waiter->row.id, SOCK_DGRAM, false);

	if (fd >= 0 && wake && strcmp(table.fault, "deaf") != 0)
		send(fd, "", 1, 0);
	close(fd);
	return fd >= 0;
}

/* Wake the first waiter, which may take the lock, and the second one, which watches the first. */
static void wake_waiters(const char *name)
{
	int woken = 0;

	for (struct entry *e = table.entries; e < table.entries + table.count; e++)
		if (!strcmp(e->name, name) && !e->holds && woken < 2)
			woken += reach_waiter(e, true);
}

/* Has the hold ended, or has the waiter died? */
static bool is_dead(const struct mem *mem, const struct entry *entry)
{
	return entry->holds ? entry->end_ms <= clock_boot_ms()
			    : strcmp(entry->row.id, mem->id) && !reach_waiter(entry, false);
}

static void remove_entry(struct mem *mem, struct entry *entry)
{
	memmove(entry, entry + 1, (size_t)(table.entries + --table.count - entry) * sizeof(*entry));
	mem->pruned = true;
}

/* Find the rows of a lock that matter, and remove those that are dead. */
static void find_rows(struct mem *mem, const char *name)
{
	mem->mine = mem->first = mem->hold = NULL;
	mem->held = 0;
	for (size_t i = 0; i < table.count; i++) {
		struct entry *e = &table.entries[i];

		if (strcmp(e->name, name) != 0)
			continue;
		if (is_dead(mem, e)) {
			remove_entry(mem, e);
			i--;
			continue;
		}
		if (!strcmp(e->row.id, mem->id))
			mem->mine = e;
		if (!e->holds && !mem->first)
			mem->first = e;
		if (e->holds && (!mem->held++ || e->end_ms < mem->hold->end_ms))
			mem->hold = e;
	}
}

/*
 * Borrow the table, and find the rows of the request. Its token says which one is ours, or without
 * a token mem->id. Returns 0, or -1 and sets *err.
 */
static int begin_change(struct mem *mem, const struct request *request, int cancel_fd,
			struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + mem->base.timeout_ms;
	int failed;

	if (request->token)
		row_id(request->token, mem->id);
	mem->pruned = false;
	mem->server = open_socket(mem->name, SOCK_SEQPACKET, false);
	failed = mem->server >= 0 && net_wait(mem->server, POLLIN, deadline_ms, cancel_fd, err);
	if (!failed && (recv(mem->server, &table, sizeof(table), 0) != (ssize_t)sizeof(table) ||
			table.count == ROWS))
		failed = error_set(err, ERROR_UNAVAILABLE, errno, "no table comes");
	if (failed)
		close(mem->server);
	else
		find_rows(mem, request->name ? request->name : "");
	return failed;
}

/* Give the table back. Returns the outcome when it is taken, otherwise ERROR and sets *err. */
static enum outcome commit_change(struct mem *mem, enum outcome outcome, struct error *err)
{
	char taken;

	send(mem->server, &table, sizeof(table), MSG_NOSIGNAL);
	if (recv(mem->server, &taken, 1, 0) != 1) {
		error_set(err, ERROR_UNAVAILABLE, errno, "the table is not taken");
		outcome = OUTCOME_ERROR;
	}
	close(mem->server);
	return outcome;
}

/* ---- the backend */

static struct backend *mem_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { URI_COMMON_PARAMS, NULL };
	struct mem *mem;

	if (uri_check_params(uri, known, err))
		return NULL;
	mem = memory_new(1, sizeof(*mem));
	mem->base.can = BACKEND_SHARED | BACKEND_SLOTS;
	strncpy(mem->name, uri->path, sizeof(mem->name) - 1);
	mem->wake_fd = -1;
	return &mem->base;
}

static void mem_close(struct backend *backend)
{
	close(((struct mem *)backend)->wake_fd);
	free(backend);
}

/* Do the rows that hold leave room for this one? */
static bool has_room(const struct mem *mem, const struct row *row)
{
	return !mem->held || (row->mode != HOLD_EXCLUSIVE && row->mode == mem->hold->row.mode &&
			      (row->mode != HOLD_SLOT || mem->held < row->slots));
}

/* Add our row as the last one of the queue. */
static void enter_queue(struct mem *mem, const struct request *request)
{
	mem->mine = &table.entries[table.count++];
	*mem->mine = (struct entry){ .row = { .mode = request->mode, .slots = request->slots },
				     .since_ms = clock_boot_ms() };
	strcpy(mem->mine->row.id, mem->id);
	strcpy(mem->mine->name, request->name);
	holder_decode(&mem->mine->row.holder, request->text, strlen(request->text));
	if (!mem->first)
		mem->first = mem->mine;
}

/*
 * Watch the first waiter while there is room for it, and remove it when it is late. Returns when to
 * look again.
 */
static int64_t watch_first(struct mem *mem, const char *name)
{
	const bool able = mem->first && mem->first != mem->mine &&
			  has_room(mem, &mem->first->row);
	const int64_t late_ms = hold_watch_late(&mem->late, able ? mem->first->row.id : "");

	if (!late_ms) {
		remove_entry(mem, mem->first);
		find_rows(mem, name);
	}
	return clock_earlier(late_ms, hold_retry_at(mem->held ? mem->hold->end_ms - clock_boot_ms()
						    : -1, mem->mine != mem->first, false));
}

/* Take the lock for our row if it may hold, or extend the lease that it has. False: it waits. */
static bool take_lock(const struct mem *mem, const struct request *request, struct grant *grant)
{
	struct entry *mine = mem->mine;

	if (!mine->holds) {
		if (!has_room(mem, &mine->row) ||
		    (mine != mem->first && strcmp(table.fault, "barge") != 0))
			return false;
		mine->holds = true;
		mine->row.fence = table.fence = hold_next_fence(table.fence);
		mine->since_ms = grant->sent_ms;
	}
	mine->end_ms = grant->sent_ms + request->ttl_ms;
	grant->fence = mine->row.fence;
	return true;
}

static enum outcome mem_acquire(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct mem *mem = (struct mem *)backend;
	bool held;

	if (begin_change(mem, request, backend->cancel_fd, err))
		return OUTCOME_ERROR;
	if (mem->held && !hold_mode_slots_agree(mem->hold->row.slots, request, err))
		return commit_change(mem, OUTCOME_ERROR, err);
	if (request->queue && mem->wake_fd < 0)
		mem->wake_fd = open_socket(mem->id, SOCK_DGRAM | SOCK_NONBLOCK, true);
	if (!mem->mine)
		enter_queue(mem, request);
	grant->retry_ms = watch_first(mem, request->name);
	held = take_lock(mem, request, grant);
	/* There may be room for one more. */
	if (mem->pruned || (held && request->mode != HOLD_EXCLUSIVE))
		wake_waiters(request->name);
	if (!held && !request->queue)
		remove_entry(mem, mem->mine);
	return commit_change(mem, held ? OUTCOME_HELD : OUTCOME_BUSY, err);
}

/* A hold stays for keep_ms, and everything else goes. */
static enum outcome mem_release(struct backend *backend, const struct request *request,
				struct error *err)
{
	struct mem *mem = (struct mem *)backend;
	bool held;

	if (begin_change(mem, request, -1, err))
		return OUTCOME_ERROR;
	held = mem->mine && mem->mine->holds;
	if (held && request->keep_ms) {
		mem->mine->end_ms = clock_boot_ms() + request->keep_ms;
		if (request->text)
			holder_decode(&mem->mine->row.holder, request->text, strlen(request->text));
	} else if (held ? strcmp(table.fault, "forget") || !mem->first : mem->mine != NULL) {
		remove_entry(mem, mem->mine);
	}
	/* The lock is free, or may be sooner than the first waiter expects. */
	wake_waiters(request->name);
	return commit_change(mem, held ? OUTCOME_HELD : OUTCOME_LOST, err);
}

static enum outcome mem_renew(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct request kept = *request;

	(void)grant;
	kept.keep_ms = request->ttl_ms;
	return mem_release(backend, &kept, err);
}

static enum outcome mem_break(struct backend *backend, const char *name, const struct row *row,
			      struct error *err)
{
	strcpy(((struct mem *)backend)->id, row->id);
	return mem_release(backend, &(struct request){ .name = name }, err);
}

static int mem_show(struct backend *backend, const struct request *request, struct rows *rows,
		    struct error *err)
{
	struct mem *mem = (struct mem *)backend;
	struct row *row;

	if (begin_change(mem, request, -1, err))
		return -1;
	close(mem->server);
	for (struct entry *e = table.entries; e < table.entries + table.count; e++) {
		if (!request->name && !is_dead(mem, e))
			name_list_add(&rows->names, e->name, strlen(e->name));
		if (!request->name || strcmp(e->name, request->name) != 0)
			continue;
		row = rows_add(rows, e->holds, "", 0);
		*row = e->row;
		row->mine = e == mem->mine;
		row->age_ms = clock_boot_ms() - e->since_ms;
		row->left_ms = e->holds ? e->end_ms - clock_boot_ms() : -1;
	}
	return 0;
}

static int mem_fd(struct backend *backend)
{
	return ((struct mem *)backend)->wake_fd;
}

static int64_t mem_event(struct backend *backend)
{
	return recv(((struct mem *)backend)->wake_fd, NULL, 0, 0) < 0 ? CLOCK_NEVER : 0;
}

const struct backend_ops memory_ops = {
	.open = mem_open,
	.close = mem_close,
	.acquire = mem_acquire,
	.renew = mem_renew,
	.release = mem_release,
	.show = mem_show,
	.fd = mem_fd,
	.event = mem_event,
	.break_hold = mem_break,
};
