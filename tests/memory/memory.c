/* SPDX-License-Identifier: MIT */
/*
 * memory:///SOCKET: a backend whose rows are in the memory of one process, for tests. It is the
 * smallest one that keeps the contract of lock/backend.h; docs/backend.md takes the reader through
 * it.
 *
 * The process knows nothing of locks. It lends its table to one client at a time, and takes it back
 * as a whole, or not at all if the client dies. So what a client does between begin() and commit()
 * is one atomic step.
 *
 * Rows are in the order in which they came. The first one that waits for a lock may hold as soon as
 * the rows that hold it leave room; the others wait behind it. A waiter listens at a socket in the
 * kernel's abstract namespace, whose name follows from the row's id. Others wake the waiter there,
 * and see there that it has died.
 *
 * The steps of tests/model/line.pml: try is mem_acquire() with watch_first(), which evicts; take is
 * take(), release is change(), and call_first is wake_waiters().
 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "base/sha256.h"
#include "lock/hold.h"
#include "lock/hold_mode.h"
#include "lock/name.h"
#include "lock/uri.h"
#include "lock/view.h"

/* The table fits into the buffer of a socket, so that sending it does not block. */
#define ROWS 140

struct entry {
	struct row row;			/* but its text */
	char name[NAME_MAX_BYTES + 1];
	char text[HOLDER_TEXT_SIZE];
	int64_t since_ms, end_ms;	/* CLOCK_BOOTTIME */
	/* The first waiter, which could take the lock, is removed then; 0: there is no room. */
	int64_t late_ms;
};

struct table {
	char fault[8];
	uint64_t fence;			/* the last one given */
	size_t count;
	struct entry entries[ROWS];
};

struct mem {
	struct backend base;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int wake_fd;			/* where a waiter is woken; -1: it does not wait */
	/* Between begin() and commit(): */
	int server;			/* the connection */
	char id[ROW_ID_SIZE];
	struct entry *mine;		/* the row with this id; NULL: there is none */
	struct entry *first;		/* of those that wait for the lock; NULL: none does */
	struct entry *hold;		/* of those that hold it, the one that ends first */
	int held;			/* how many hold it */
	bool pruned;			/* a row of it was dead */
};

/* That of the server; in a client, the copy that it has borrowed. */
static struct table table;

/* ---- the server */

/* Change nothing unless all of it comes within a second or two. */
static bool receive_table(int fd)
{
	static struct table received;
	const struct timeval most = { .tv_sec = 1 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	if (recv(fd, &received, sizeof(received), MSG_WAITALL) != (ssize_t)sizeof(received))
		return false;
	table = received;
	return true;
}

int memory_serve(const char *path, const char *fault)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	int client;

	snprintf(table.fault, sizeof(table.fault), "%s", fault);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, ROWS))
		return 1;
	while ((client = accept(listener, NULL, NULL)) >= 0) {
		send(client, &table, sizeof(table), MSG_NOSIGNAL);
		if (receive_table(client))
			send(client, "", 1, MSG_NOSIGNAL);
		close(client);
	}
	return 1;
}

/* ---- transactions */

/* A row's id: the SHA-256 of its token in hex digits. */
static void make_id(const char *token, char id[static ROW_ID_SIZE])
{
	unsigned char digest[SHA256_SIZE];

	sha256(token, strlen(token), digest);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		snprintf(id + 2 * i, 3, "%02x", digest[i]);
}

/* A socket that is bound to the address of a waiter, or connected to it. -1: that was refused. */
static int open_address(const char *id, int (*how)(int, const struct sockaddr *, socklen_t))
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path + 1, id, ROW_ID_SIZE);
	if (!how(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	close(fd);
	return -1;
}

/* Does the waiter live? If it does, wake it if asked to. */
static bool reach_waiter(const struct entry *waiter, bool wake)
{
	const int fd = open_address(waiter->row.id, connect);

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
		if (!strcmp(e->name, name) && !e->row.holds && woken < 2)
			woken += reach_waiter(e, true);
}

static void remove_entry(struct entry *entry)
{
	memmove(entry, entry + 1, (size_t)(table.entries + --table.count - entry) * sizeof(*entry));
}

/* Remove the ended holds and the dead waiters of this lock; "": of all locks. */
static void remove_dead(struct mem *mem, const char *name)
{
	mem->pruned = false;
	for (struct entry *e = table.entries + table.count; e-- > table.entries;) {
		if (name[0] && strcmp(e->name, name) != 0)
			continue;
		if (e->row.holds ? e->end_ms > clock_boot_ms()
				 : !strcmp(e->row.id, mem->id) || reach_waiter(e, false))
			continue;
		mem->pruned = true;
		remove_entry(e);
	}
}

static void find_rows(struct mem *mem, const char *name)
{
	mem->mine = mem->first = mem->hold = NULL;
	mem->held = 0;
	for (struct entry *e = table.entries; e < table.entries + table.count; e++) {
		if (strcmp(e->name, name) != 0)
			continue;
		if (!strcmp(e->row.id, mem->id))
			mem->mine = e;
		if (e->row.holds && (!mem->held++ || e->end_ms < mem->hold->end_ms))
			mem->hold = e;
		if (!e->row.holds && !mem->first)
			mem->first = e;
	}
}

/* End a transaction in which nothing changes. Returns -1, for its caller to return. */
static int roll_back(struct mem *mem)
{
	close(mem->server);
	return -1;
}

/* Borrow the table, and find the rows of a lock. Returns 0, or -1 and sets *err. */
static int begin(struct mem *mem, const char *name, int cancel_fd, struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + mem->base.timeout_ms;

	mem->server = net_connect_unix(mem->path, deadline_ms, cancel_fd, err);
	if (mem->server < 0)
		return -1;
	if (net_wait(mem->server, POLLIN, deadline_ms, cancel_fd, err))
		return roll_back(mem);
	fcntl(mem->server, F_SETFL, 0);
	if (!receive_table(mem->server) || table.count == ROWS) {
		error_set(err, ERROR_UNAVAILABLE, errno, "no table comes");
		return roll_back(mem);
	}
	remove_dead(mem, name);
	find_rows(mem, name);
	return 0;
}

/* Give the table back. Returns the outcome when it is taken, otherwise ERROR and sets *err. */
static enum outcome commit(struct mem *mem, enum outcome outcome, struct error *err)
{
	char taken;

	send(mem->server, &table, sizeof(table), MSG_NOSIGNAL);
	if (recv(mem->server, &taken, 1, 0) != 1) {
		error_set(err, ERROR_UNAVAILABLE, errno, "the table is not taken");
		outcome = OUTCOME_ERROR;
	}
	roll_back(mem);
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
	snprintf(mem->path, sizeof(mem->path), "%s", uri->path);
	mem->wake_fd = -1;
	return &mem->base;
}

static void mem_close(struct backend *backend)
{
	if (backend)
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
	struct entry *last = &table.entries[table.count++];

	*last = (struct entry){ .row = { .mode = request->mode, .slots = request->slots },
				.since_ms = clock_boot_ms() };
	strcpy(last->row.id, mem->id);
	strcpy(last->name, request->name);
	strcpy(last->text, request->text);
	find_rows(mem, request->name);
}

/* Remove the first waiter if there has been room for it for HOLD_LATE_MS, and it has not looked. */
static void watch_first(struct mem *mem, const char *name)
{
	mem->mine->late_ms = 0;
	if (!mem->first || mem->first == mem->mine || !has_room(mem, &mem->first->row))
		return;
	if (!mem->first->late_ms)
		mem->first->late_ms = clock_boot_ms() + HOLD_LATE_MS;
	if (mem->first->late_ms > clock_boot_ms())
		return;
	remove_entry(mem->first);
	mem->pruned = true;
	find_rows(mem, name);
}

static void take(struct entry *mine)
{
	const uint64_t now_us = (uint64_t)clock_read_us(CLOCK_REALTIME);

	/* So fences grow when the server is started anew, and when the clock is set back. */
	table.fence = table.fence < now_us ? now_us : table.fence + 1;
	mine->row.fence = table.fence;
	mine->row.holds = true;
	mine->since_ms = clock_boot_ms();
}

/* One try of the row that is ours: HELD or BUSY, or ERROR if --slots disagree. */
static enum outcome try_lock(struct mem *mem, const struct request *request, struct grant *grant,
			     struct error *err)
{
	int64_t end_ms;

	if (mem->held && mem->hold->row.slots &&
	    !hold_mode_slots_agree(mem->hold->row.slots, request, err))
		return OUTCOME_ERROR;
	if (!mem->mine->row.holds && has_room(mem, &mem->mine->row) &&
	    (mem->mine == mem->first || !strcmp(table.fault, "barge")))
		take(mem->mine);
	if (mem->mine->row.holds) {
		mem->mine->end_ms = grant->sent_ms + request->ttl_ms;
		grant->ttl_ms = request->ttl_ms;
		grant->fence = mem->mine->row.fence;
		return OUTCOME_HELD;
	}
	end_ms = mem->mine == mem->first ? mem->hold->end_ms : mem->first->late_ms;
	grant->retry_ms = hold_look_at(end_ms ? end_ms - clock_boot_ms() : -1, true, false);
	return OUTCOME_BUSY;
}

static enum outcome mem_acquire(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct mem *mem = (struct mem *)backend;
	enum outcome outcome;

	make_id(request->token, mem->id);
	if (request->queue && mem->wake_fd < 0)
		mem->wake_fd = open_address(mem->id, bind);
	grant->sent_ms = clock_boot_ms();
	if (begin(mem, request->name, backend->cancel_fd, err))
		return OUTCOME_ERROR;
	if (!mem->mine)
		enter_queue(mem, request);
	watch_first(mem, request->name);
	outcome = try_lock(mem, request, grant, err);
	if (outcome == OUTCOME_ERROR || (outcome == OUTCOME_BUSY && !request->queue))
		remove_entry(mem->mine);
	/* There may be room for one more. */
	if (mem->pruned || (outcome == OUTCOME_HELD && request->mode != HOLD_EXCLUSIVE))
		wake_waiters(request->name);
	return commit(mem, outcome, err);
}

/*
 * Let a hold end in ms, with text as its record unless that is NULL. With ms 0 remove the row, and
 * with ms -1 only if it holds. HELD: it held.
 */
static enum outcome change(struct mem *mem, const char *name, int64_t ms, const char *text,
			   struct error *err)
{
	const int64_t end_ms = clock_boot_ms() + ms;
	bool held, sooner;

	if (begin(mem, name, -1, err))
		return OUTCOME_ERROR;
	held = mem->mine && mem->mine->row.holds;
	sooner = held && end_ms < mem->mine->end_ms;
	if (held && ms > 0) {
		mem->mine->end_ms = end_ms;
		if (text)
			strcpy(mem->mine->text, text);
	} else if (held ? strcmp(table.fault, "forget") || !mem->first : mem->mine && !ms) {
		remove_entry(mem->mine);
	}
	if (sooner || ms <= 0)
		wake_waiters(name);
	return commit(mem, held ? OUTCOME_HELD : OUTCOME_LOST, err);
}

static enum outcome mem_renew(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct mem *mem = (struct mem *)backend;

	make_id(request->token, mem->id);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	return change(mem, request->name, request->ttl_ms, request->text, err);
}

static enum outcome mem_release(struct backend *backend, const struct request *request,
				struct error *err)
{
	struct mem *mem = (struct mem *)backend;

	make_id(request->token, mem->id);
	return change(mem, request->name, request->keep_ms, request->text, err);
}

static enum outcome mem_break(struct backend *backend, const char *name, const struct row *row,
			      struct error *err)
{
	struct mem *mem = (struct mem *)backend;

	strcpy(mem->id, row->id);
	return change(mem, name, -1, NULL, err);
}

static int mem_show(struct backend *backend, const struct request *request, struct rows *rows,
		    struct error *err)
{
	struct mem *mem = (struct mem *)backend;
	struct row *row;

	make_id(request->token, mem->id);
	if (begin(mem, "", -1, err))
		return -1;
	roll_back(mem);
	for (struct entry *e = table.entries; e < table.entries + table.count; e++) {
		if (!request->name) {
			name_list_add(&rows->names, e->name, strlen(e->name));
		} else if (!strcmp(request->name, e->name)) {
			row = rows_add(rows, e->text, strlen(e->text));
			e->row.text = row->text;
			*row = e->row;
			row->mine = !strcmp(row->id, mem->id);
			row->age_ms = clock_boot_ms() - e->since_ms;
			row->left_ms = row->holds ? e->end_ms - clock_boot_ms() : -1;
		}
	}
	return 0;
}

static int mem_fd(struct backend *backend)
{
	return ((struct mem *)backend)->wake_fd;
}

static int64_t mem_event(struct backend *backend)
{
	char woken;

	return recv(((struct mem *)backend)->wake_fd, &woken, 1, 0) < 0 ? CLOCK_NEVER : 0;
}

static int mem_setup(struct backend *backend, char **plan, struct error *err)
{
	(void)backend;
	(void)err;
	if (plan)
		*plan = memory_copy("");
	return 0;
}

static int mem_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct rows rows = { 0 };

	if (mem_show(backend, &(struct request){ .token = "" }, &rows, err))
		return -1;
	findings_add(findings, FINDING_OK, "server", NULL, "%zu locks", rows.names.count);
	rows_finish(&rows);
	return 0;
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
	.setup = mem_setup,
	.check = mem_check,
	.break_hold = mem_break,
};
