/* SPDX-License-Identifier: MIT */
/* Acquiring, waiting, renewing and releasing. backend.c explains how it works. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "etcd.h"
#include "lock/hold.h"
#include "lock/lease.h"

/*
 * A holder that did not wait watches its entry after this time. Until then its command starts
 * without a request in its way, and many commands end before that.
 */
#define WATCH_AFTER_MS 20
/* From the end of a broken watch to the next one. */
#define WATCH_AGAIN_MS 1000
/* How often a step is repeated when the lease or the leader has changed. */
#define MOST_TRIES     3

/* ---- the watch ---- */

/* Write a request for the ends of an entry, "": of all, that are later than the last reply. */
static char *watch_entry(const struct etcd_backend *etcd, const char *id)
{
	char *key = etcd_key(&etcd->own, id);
	char *request = memory_format(
		"{\"create_request\":{\"key\":\"%s\",\"range_end\":\"%s\",\"prev_kv\":true,"
		"\"filters\":[\"NOPUT\"],\"start_revision\":\"%" PRIu64 "\"}}",
		key, *id ? "" : etcd->own.end, etcd->revision + 1);

	free(key);
	return request;
}

void etcd_watch_close(struct etcd_backend *etcd)
{
	if (http_is_open(&etcd->watch))
		epoll_ctl(etcd->set_fd, EPOLL_CTL_DEL, etcd->watch.stream.fd, NULL);
	http_close(&etcd->watch);
}

/* Begin a watch of this body on the member in use. Returns at once. */
static void open_watch(struct etcd_backend *etcd, const char *json)
{
	/* A connection that is being made reports its end as input, too. */
	struct epoll_event events = { .events = EPOLLIN | EPOLLOUT };
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	struct error ignored;
	int fd;

	etcd_watch_close(etcd);
	if (!http_is_open(&etcd->main) ||
	    getpeername(etcd->main.stream.fd, (struct sockaddr *)&address, &length))
		return;
	fd = net_connect_begin((struct sockaddr *)&address, length, &ignored);
	if (fd < 0)
		return;
	http_begin(&etcd->watch, fd, etcd->encrypted ? &etcd->tls : NULL,
		   etcd->hosts[etcd->at].name);
	http_post(&etcd->watch, etcd->authority, "/v3/watch", etcd->auth, json, ETCD_MOST_EVENT);
	epoll_ctl(etcd->set_fd, EPOLL_CTL_ADD, fd, &events);
}

/* Watch our entry, which others may remove, and the one that blocks it; NULL: none does. */
static void begin_watch(struct etcd_backend *etcd, const struct etcd_entry *blocker)
{
	struct etcd_own *own = &etcd->own;
	char *ours = watch_entry(etcd, own->entry.id), *other, *both;

	own->counts = blocker && blocker->mode == HOLD_SLOT && own->entry.mode == HOLD_SLOT;
	own->member = etcd->at;
	snprintf(own->watched, sizeof(own->watched), "%s", blocker ? blocker->id : "");
	other = blocker ? watch_entry(etcd, own->counts ? "" : blocker->id) : memory_copy("");
	both = memory_format("%s%s", ours, other);
	open_watch(etcd, both);
	free(ours);
	free(other);
	free(both);
}

/* Does this deletion of a key concern us? */
static bool take_deletion(struct etcd_backend *etcd, struct json_object *event)
{
	struct etcd_own *own = &etcd->own;
	const uint64_t created = (uint64_t)etcd_number(event, "/prev_kv/create_revision");

	/* Slots are counted. An entry whose creation was compacted may be any. */
	if (!own->counts || !created || created == own->entry.created)
		return true;
	if (created > own->entry.created ||
	    (uint64_t)etcd_number(event, "/kv/mod_revision") <= own->seen)
		return false;
	return --own->before < own->entry.slots;
}

/* Read a line of the watch. Returns whether to check our entry. */
static bool take_line(struct etcd_backend *etcd, const char *line)
{
	struct json_object *message = json_tokener_parse(line);
	struct json_object *events;
	const size_t count = etcd_array(message, "/result/events", &events);
	/* Canceled, because what it asks for was compacted. */
	bool concerns = etcd_get(message, "/result/canceled");

	for (size_t i = 0; i < count; i++)
		concerns |= take_deletion(etcd, json_object_array_get_idx(events, i));
	json_object_put(message);
	return concerns;
}

int64_t etcd_event(struct backend *backend)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct epoll_event events = { .events = 0 };
	struct etcd_own *own = &etcd->own;
	struct error ignored;
	char *line;
	int state;

	if (!http_is_open(&etcd->watch)) {
		if (own->held)
			begin_watch(etcd, NULL);
		return CLOCK_NEVER;
	}
	state = http_step(&etcd->watch, &ignored);
	while ((line = http_take_line(&etcd->watch)))
		own->woken |= take_line(etcd, line);
	if (state) {
		etcd_watch_close(etcd);
		return own->woken ? 0 : clock_boot_ms() + WATCH_AGAIN_MS;
	}
	events.events = (uint32_t)etcd->watch.stream.wanted;
	epoll_ctl(etcd->set_fd, EPOLL_CTL_MOD, etcd->watch.stream.fd, &events);
	return own->woken ? 0 : CLOCK_NEVER;
}

/* ---- leases ---- */

/* Returns the TTL of a lease in seconds for ms. */
static int64_t in_seconds(int64_t ms)
{
	return (ms + 999) / 1000;
}

/*
 * Was our lease extended at own.sent_ms? The last reply, which needed a majority, proves it. False:
 * it does not, which *err says, and the lease has to be extended again.
 */
static bool is_proven(struct etcd_backend *etcd, struct error *err)
{
	struct etcd_own *own = &etcd->own;

	if (own->sent_ms && (!own->sent_term || own->sent_term == etcd->term))
		return true;
	own->sent_ms = 0;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: a new leader does not know the lease yet",
		  etcd->label);
	return false;
}

/* Note that our lease was extended by the last request, which was sent at sent_ms. */
static int note_extended(struct etcd_backend *etcd, int64_t sent_ms, uint64_t term,
			 const char *path, struct error *err)
{
	struct etcd_own *own = &etcd->own;

	own->granted_s = clock_earlier(etcd_number(etcd->reply, path), LEASE_SHOWN_MS / 1000);
	own->sent_term = term;
	own->sent_ms = own->granted_s > 0 ? sent_ms : 0;
	if (own->sent_ms)
		return 0;
	etcd->status = ETCD_NOT_FOUND;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: its lease has ended", etcd->label);
}

/* Extend the lease of our entry; as grant_lease(). */
static int extend_lease(struct etcd_backend *etcd, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	/* Without a term, none is the same as that of the next reply. */
	const uint64_t term = etcd->term ? etcd->term : UINT64_MAX;

	etcd->own.sent_ms = 0;
	if (etcd_call_lease(etcd, "/v3/lease/keepalive", etcd->own.entry.lease, err))
		return -1;
	return note_extended(etcd, sent_ms, term, "/result/TTL", err);
}

/*
 * Grant a lease for our entry, or extend it if it was granted before. lease 0: the server numbers
 * it. Sets own.sent_ms, sent_term and granted_s. Returns 0, or -1 and sets *err; with status
 * ETCD_NOT_FOUND the member knows no such lease.
 */
static int grant_lease(struct etcd_backend *etcd, int64_t lease, int64_t ttl_ms, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	struct etcd_own *own = &etcd->own;
	char *json = memory_format("{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}",
				   in_seconds(ttl_ms), lease);
	const int failed = etcd_call(etcd, "/v3/lease/grant", json, err);

	/* An earlier request, whose reply was lost, has been granted. */
	if (failed && !strstr(err->message, "lease already exists"))
		return -1;
	own->asked_s = in_seconds(ttl_ms);
	own->entry.lease = failed ? lease : etcd_number(etcd->reply, "/ID");
	/* A majority has granted it, so it needs no proof. */
	return failed ? extend_lease(etcd, err) : note_extended(etcd, sent_ms, 0, "/TTL", err);
}

static int revoke_lease(struct etcd_backend *etcd, int64_t lease, struct error *err)
{
	return etcd_call_lease(etcd, "/v3/lease/revoke", lease, err) &&
			       etcd->status != ETCD_NOT_FOUND
		       ? -1
		       : 0;
}

/* ---- our entry ---- */

static enum outcome report_lost(const struct etcd_backend *etcd, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: its key was removed, or the lease has ended",
		  etcd->label);
	return OUTCOME_LOST;
}

/*
 * Does our entry hold? Reads this part of the queue, with a change of our entry or NULL, in a step
 * that needs a majority. ETCD_OWN is enough if it has held before. HELD, LOST or ERROR.
 */
static enum outcome read_hold(struct etcd_backend *etcd, enum etcd_part part, char *change,
			      struct error *err)
{
	struct etcd_own *own = &etcd->own;
	struct etcd_queue queue;

	if (etcd_read(etcd, part, change, &queue, err))
		return OUTCOME_ERROR;
	own->held = queue.mine >= 0 && etcd_queue_blocker(&queue, queue.mine) < 0;
	etcd_queue_free(&queue);
	return own->held ? OUTCOME_HELD : report_lost(etcd, err);
}

/* Move our entry, which holds, to a lease of this TTL. HELD, LOST or ERROR. */
static enum outcome move_entry(struct etcd_backend *etcd, int64_t ttl_ms, const char *text,
			       struct error *err)
{
	const int64_t before = etcd->own.entry.lease;
	enum outcome outcome;

	if (grant_lease(etcd, 0, ttl_ms, err))
		return OUTCOME_ERROR;
	outcome = read_hold(etcd, ETCD_OWN, etcd_put(&etcd->own, text), err);
	/* Otherwise it ends by itself. */
	if (outcome == OUTCOME_HELD)
		revoke_lease(etcd, before, &(struct error){ 0 });
	return outcome;
}

/* Was the lease asked for with another TTL than the request has? */
static bool has_other_ttl(const struct etcd_own *own, const struct request *request)
{
	return (own->asked_s ? own->asked_s : own->granted_s) != in_seconds(request->ttl_ms);
}

static void take_hold(struct etcd_backend *etcd, struct grant *grant)
{
	struct etcd_own *own = &etcd->own;

	own->held = true;
	grant->sent_ms = own->sent_ms;
	grant->ttl_ms = own->granted_s * 1000;
	grant->fence = own->entry.created;
	grant->event_ms = http_is_open(&etcd->watch) ? 0 : clock_boot_ms() + WATCH_AFTER_MS;
}

/* ---- acquiring ---- */

/* When to extend the lease of a waiter, which may be shorter than it asked for. */
static int64_t renew_at(const struct etcd_own *own, const struct request *request)
{
	return lease_renew_at(own->sent_ms, clock_earlier(request->ttl_ms, own->granted_s * 1000));
}

/* Grant a lease, or extend it when it is time. */
static int ensure_lease(struct etcd_backend *etcd, const struct request *request, struct error *err)
{
	struct etcd_own *own = &etcd->own;

	if (!own->entry.lease)
		return grant_lease(etcd, own->number, request->ttl_ms, err);
	return clock_boot_ms() < renew_at(own, request) ? 0 : extend_lease(etcd, err);
}

/* Does entry i hold? HELD, BUSY, or ERROR: it disagrees with the holders. */
static enum outcome judge_entry(const struct etcd_queue *queue, ptrdiff_t i,
				const struct request *request, struct error *err)
{
	/* Only the first entry holds for certain. */
	if (i && !hold_mode_slots_agree(queue->entries[0].slots, request, err))
		return OUTCOME_ERROR;
	return etcd_queue_blocker(queue, i) < 0 ? OUTCOME_HELD : OUTCOME_BUSY;
}

/* Read the queue. Returns what our entry does, or one that would be made: HELD, BUSY or ERROR. */
static enum outcome look_first(struct etcd_backend *etcd, const struct request *request,
			       struct etcd_queue *queue, struct error *err)
{
	if (etcd_read(etcd, ETCD_UNTIL, NULL, queue, err))
		return OUTCOME_ERROR;
	queue->entries[queue->count] = (struct etcd_entry){ .mode = request->mode,
							    .slots = request->slots };
	return judge_entry(queue, queue->mine < 0 ? queue->count : queue->mine, request, err);
}

/*
 * Does the watch run, and is the entry before ours that it watches still there, and ours? Reads
 * only these two, whatever the length of the queue. False: the queue has to be read.
 */
static bool is_at_rest(struct etcd_backend *etcd)
{
	struct etcd_own *own = &etcd->own;
	struct error ignored = { 0 };
	struct etcd_queue queue;
	char *key, *other;
	bool there;

	if (!own->entry.created || own->woken || own->counts || !own->watched[0] ||
	    !http_is_open(&etcd->watch))
		return false;
	key = etcd_key(own, own->watched);
	other = memory_format("{\"request_range\":{\"key\":\"%s\",\"keys_only\":true,"
			      "\"max_create_revision\":\"%" PRIu64 "\"}}", key, own->entry.created);
	free(key);
	if (etcd_read(etcd, ETCD_OWN, other, &queue, &ignored))
		return false;
	there = queue.mine >= 0 &&
		json_object_get_boolean(etcd_get(etcd->reply, "/succeeded")) &&
		etcd_get(etcd->reply, "/responses/0/response_range/kvs");
	etcd_queue_free(&queue);
	/* The watch is at the member that has answered. */
	return there && own->member == etcd->at;
}

/*
 * Make or write our entry, and read in the same step what may block it. The entry before an
 * exclusive one does, whatever it is.
 */
static int write_entry(struct etcd_backend *etcd, const struct request *request,
		       struct etcd_queue *queue, struct error *err)
{
	struct etcd_own *own = &etcd->own;

	own->woken = false;
	own->watched[0] = '\0';
	own->entry.taken_ms = clock_wall_ms();
	if (!own->entry.created) {
		own->entry.mode = request->mode;
		own->entry.slots = request->slots;
	}
	if (own->entry.mode != HOLD_EXCLUSIVE)
		return etcd_read(etcd, ETCD_UNTIL, etcd_put(own, request->text), queue, err);
	if (etcd_read(etcd, ETCD_LAST, etcd_put(own, request->text), queue, err))
		return -1;
	if (!queue->others)
		return 0;
	/* The key before ours is none of this lock. */
	etcd_queue_free(queue);
	return etcd_read(etcd, ETCD_UNTIL, NULL, queue, err);
}

/* Wait for the end of the entry that blocks ours. */
static void wait_turn(struct etcd_backend *etcd, const struct request *request,
		      const struct etcd_queue *queue, struct grant *grant)
{
	const ptrdiff_t blocked_by = etcd_queue_blocker(queue, queue->mine);
	const struct etcd_entry *blocker = &queue->entries[blocked_by];
	struct etcd_own *own = &etcd->own;

	grant->retry_ms = renew_at(own, request);
	own->before = queue->mine;
	own->seen = etcd->revision;
	if (http_is_open(&etcd->watch) && own->member == etcd->at &&
	    !strcmp(own->watched, blocker->id))
		return;
	begin_watch(etcd, blocker);
	/* Nothing has shown yet that the watch works. */
	grant->retry_ms = clock_earlier(grant->retry_ms, hold_retry_at(-1, 0, false));
}

/* Act on what our entry does. LOST: it is not there, or its lease has to be extended first. */
static enum outcome follow_entry(struct etcd_backend *etcd, const struct request *request,
				 const struct etcd_queue *queue, struct grant *grant,
				 struct error *err)
{
	enum outcome outcome = queue->mine < 0 ? report_lost(etcd, err)
					       : judge_entry(queue, queue->mine, request, err);
	struct etcd_own *own = &etcd->own;

	if (outcome == OUTCOME_BUSY && request->queue) {
		wait_turn(etcd, request, queue, grant);
	} else if (outcome == OUTCOME_BUSY) {
		if (revoke_lease(etcd, own->entry.lease, err))
			return OUTCOME_ERROR;
		etcd_forget(own);
	} else if (outcome == OUTCOME_HELD) {
		if (!is_proven(etcd, err))
			return OUTCOME_LOST;
		/* An earlier acquisition of this token was renewed with another TTL. */
		if (has_other_ttl(own, request))
			outcome = move_entry(etcd, request->ttl_ms, request->text, err);
		if (outcome == OUTCOME_HELD)
			take_hold(etcd, grant);
	}
	return outcome;
}

/*
 * Try once. One that was not woken reads first, and writes when it holds; so does one that does not
 * wait. LOST: the lease or the entry has changed, which *err says.
 */
static enum outcome try_once(struct etcd_backend *etcd, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	enum outcome outcome = OUTCOME_HELD;
	struct etcd_queue queue = { .mine = -1 };
	/* What a long queue costs the server for each of its waiters must not grow with it. */
	const bool rests = is_at_rest(etcd);
	int failed;

	if (!rests && (own->entry.created ? !own->woken : !request->queue))
		outcome = look_first(etcd, request, &queue, err);
	if (outcome == OUTCOME_ERROR ||
	    (outcome == OUTCOME_BUSY && queue.mine < 0 && !request->queue)) {
		etcd_queue_free(&queue);
		return outcome;
	}
	failed = ensure_lease(etcd, request, err);
	if (rests && !failed) {
		grant->retry_ms = renew_at(own, request);
		return OUTCOME_BUSY;
	}
	if (!failed && (queue.mine < 0 || outcome != OUTCOME_BUSY)) {
		etcd_queue_free(&queue);
		failed = write_entry(etcd, request, &queue, err);
	}
	if (!failed) {
		outcome = follow_entry(etcd, request, &queue, grant, err);
	} else if (etcd->status == ETCD_NOT_FOUND) {
		/* The lease has ended, and our entry with it. */
		own->entry.lease = 0;
		own->entry.created = 0;
		outcome = OUTCOME_LOST;
	} else {
		outcome = OUTCOME_ERROR;
	}
	etcd_queue_free(&queue);
	return outcome;
}

enum outcome etcd_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	enum outcome outcome;
	int tries = 0;

	etcd_begin(etcd);
	etcd_name(etcd, request);
	etcd->own.held = false;
	do
		outcome = try_once(etcd, request, grant, err);
	while (outcome == OUTCOME_LOST && ++tries < MOST_TRIES);
	return outcome == OUTCOME_LOST ? OUTCOME_ERROR : outcome;
}

/* ---- renewing ---- */

/* Extend the lease once. HELD, LOST or ERROR; BUSY: another try may prove it. */
static enum outcome renew_once(struct etcd_backend *etcd, const struct request *request,
			       struct error *err)
{
	struct etcd_own *own = &etcd->own;
	enum outcome outcome;
	char *put = NULL;

	if (!extend_lease(etcd, err)) {
		if (has_other_ttl(own, request))
			return move_entry(etcd, request->ttl_ms, request->text, err);
	} else if (etcd->status != ETCD_NOT_FOUND) {
		return OUTCOME_ERROR;
	}
	if (request->text && own->sent_ms)
		put = etcd_put(own, request->text);
	outcome = read_hold(etcd, ETCD_OWN, put, err);
	return outcome == OUTCOME_HELD && !is_proven(etcd, err) ? OUTCOME_BUSY : outcome;
}

enum outcome etcd_renew(struct backend *backend, const struct request *request, struct grant *grant,
			struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	enum outcome outcome = OUTCOME_HELD;
	int tries = 0;

	etcd_begin(etcd);
	etcd_name(etcd, request);
	etcd->own.woken = false;
	if (!etcd->own.held)
		outcome = read_hold(etcd, ETCD_UNTIL, NULL, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	do
		outcome = renew_once(etcd, request, err);
	while (outcome == OUTCOME_BUSY && ++tries < MOST_TRIES);
	if (outcome == OUTCOME_HELD)
		take_hold(etcd, grant);
	return outcome == OUTCOME_BUSY ? OUTCOME_ERROR : outcome;
}

/* ---- releasing ---- */

enum outcome etcd_release(struct backend *backend, const struct request *request, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct etcd_own *own = &etcd->own;
	enum outcome outcome = OUTCOME_HELD;
	struct error left = { 0 };
	bool held;

	etcd_begin(etcd);
	etcd_name(etcd, request);
	etcd_watch_close(etcd);
	if (!own->held)
		outcome = read_hold(etcd, ETCD_UNTIL, NULL, err);
	held = outcome == OUTCOME_HELD;
	/* The reply to that may have been lost, which says nothing about the release. */
	backend->resent = false;
	if (held && request->keep_ms > 0)
		return move_entry(etcd, request->keep_ms, request->text, err);
	if (outcome != OUTCOME_ERROR && own->entry.created)
		outcome = etcd_delete(etcd, err);
	if (outcome == OUTCOME_ERROR)
		return outcome;
	if (!held || outcome == OUTCOME_LOST)
		outcome = report_lost(etcd, err);
	/* With it goes an entry that a late request would make. */
	if (revoke_lease(etcd, own->entry.lease ? own->entry.lease : own->number, &left) &&
	    outcome == OUTCOME_LOST) {
		*err = left;
		return OUTCOME_ERROR;
	}
	etcd_forget(own);
	return outcome;
}
