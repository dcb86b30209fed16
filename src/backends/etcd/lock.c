/* SPDX-License-Identifier: MIT */
/* Acquiring, waiting, renewing and releasing. backend.c explains how it works. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "etcd.h"
#include "lock/hold.h"
#include "lock/lease.h"

/*
 * A holder that did not wait watches its entry after this time. Until then its command starts
 * without a request in its way, and many commands end before that.
 */
#define WATCH_AFTER_MS 20
/* The least time between two watches, one of which has broken. */
#define WATCH_AGAIN_MS 1000

/* ---- the watch ---- */

/* Add a request for the ends of a key or range that are later than the last reply. */
static char *add_watch(char *requests, const struct etcd_backend *etcd, const char *key,
		       const char *more)
{
	char *longer = memory_format(
		"%s{\"create_request\":{\"key\":\"%s\",%s\"filters\":[\"NOPUT\"],"
		"\"start_revision\":\"%" PRIu64 "\"}}",
		requests, key, more, etcd->revision + 1);

	free(requests);
	return longer;
}

/* Watch our entry, which others may remove, and the one with the id blocker if that is not "". */
static void begin_watch(struct etcd_backend *etcd, const char *blocker, bool counts)
{
	struct etcd_own *own = &etcd->own;
	char *requests = memory_copy(""), *path, *other;
	size_t length;

	if (counts) {
		other = memory_format("\"range_end\":\"%s\",\"prev_kv\":true,", own->end);
		requests = add_watch(requests, etcd, own->first, other);
		free(other);
	} else {
		requests = add_watch(requests, etcd, own->key, "");
	}
	if (!counts && blocker[0]) {
		path = etcd_decode(own->first, &length);
		other = memory_format("%s%s", path, blocker);
		free(path);
		path = etcd_encode(other, strlen(other));
		requests = add_watch(requests, etcd, path, "");
		free(path);
		free(other);
	}
	snprintf(own->watched, sizeof(own->watched), "%s", blocker);
	own->counts = counts;
	own->member = etcd->at;
	own->begun_ms = clock_boot_ms();
	etcd_watch(etcd, requests);
}

/* Does this deletion of a key concern us? */
static bool take_deletion(struct etcd_backend *etcd, struct json_object *event)
{
	struct etcd_own *own = &etcd->own;
	const uint64_t created = (uint64_t)etcd_number(event, "/prev_kv/create_revision");

	/* Slots are counted. An entry whose creation was compacted may be any. */
	if (!own->counts || !created || created == own->created)
		return true;
	if (created > own->created || (uint64_t)etcd_number(event, "/kv/mod_revision") <= own->seen)
		return false;
	return --own->before < own->slots;
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
			begin_watch(etcd, "", false);
		return CLOCK_NEVER;
	}
	state = http_step(&etcd->watch, &ignored);
	while ((line = http_take_line(&etcd->watch)))
		own->woken |= take_line(etcd, line);
	if (state) {
		etcd_watch_close(etcd);
		return own->woken ? 0 : own->begun_ms + WATCH_AGAIN_MS;
	}
	events.events = (uint32_t)etcd->watch.stream.wanted;
	epoll_ctl(etcd->set_fd, EPOLL_CTL_MOD, etcd->watch.stream.fd, &events);
	return own->woken ? 0 : CLOCK_NEVER;
}

/* ---- leases ---- */

static enum outcome report_lost(const struct etcd_backend *etcd, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: its key was removed, or the lease has ended",
		  etcd->label);
	return OUTCOME_LOST;
}

/*
 * Move our entry to a lease of its own for ttl_s, which purpose names, with own.text. HELD, LOST or
 * ERROR.
 */
static enum outcome move_entry(struct etcd_backend *etcd, const char *token, const char *purpose,
			       int64_t ttl_s, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	const int64_t lease = etcd_lease(own, token, purpose), before = own->lease;

	if (etcd_grant(etcd, lease, ttl_s, err) ||
	    etcd_call(etcd, "/v3/kv/txn",
		      etcd_transaction(own->key, own->created, etcd_put(own, lease),
				       etcd_range(own, own->created)), err))
		return OUTCOME_ERROR;
	if (!json_object_get_boolean(etcd_get(etcd->reply, "/succeeded")))
		return report_lost(etcd, err);
	own->lease = lease;
	own->asked_s = ttl_s;
	/* Otherwise it ends by itself. */
	if (before != lease)
		etcd_revoke(etcd, before, &(struct error){ 0 });
	return OUTCOME_HELD;
}

/* Write the purpose of a lease for another TTL than the first one. Returns purpose. */
static const char *name_ttl(int64_t ttl_s, char purpose[static TEXT_DIGITS_SIZE + 1])
{
	purpose[0] = '/';
	text_digits(purpose + 1, (uint64_t)ttl_s);
	return purpose;
}

/* ---- acquiring ---- */

/* When to extend the lease of a waiter, which may be shorter than it asked for. */
static int64_t renew_at(const struct etcd_own *own, const struct request *request)
{
	return lease_renew_at(own->sent_ms, clock_earlier(request->ttl_ms, own->granted_s * 1000));
}

/* Extend the lease of a waiter when it is time, or grant one. */
static int ensure_lease(struct etcd_backend *etcd, const struct request *request, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	int64_t ttl_s = 0;

	if (own->lease && clock_boot_ms() < renew_at(own, request))
		return 0;
	if (own->lease && etcd_extend(etcd, own->lease, &ttl_s, err))
		return -1;
	if (ttl_s > 0)
		return 0;
	/* It has ended, and our entry with it. */
	own->created = 0;
	own->lease = 0;
	if (etcd_grant(etcd, etcd_lease(own, request->token, ""), etcd_seconds(request->ttl_ms),
		       err))
		return -1;
	own->lease = etcd_lease(own, request->token, "");
	own->asked_s = etcd_seconds(request->ttl_ms);
	return 0;
}

/* Would a new entry hold? HELD, BUSY or ERROR. */
static enum outcome check_room(struct etcd_backend *etcd, const struct request *request,
			       struct error *err)
{
	enum outcome outcome = OUTCOME_HELD;
	struct etcd_queue queue;
	struct etcd_entry *mine;

	if (etcd_queue_fetch(etcd, 0, &queue, err))
		return OUTCOME_ERROR;
	if (queue.count && !hold_mode_slots_agree(queue.entries[0].slots, request, err))
		outcome = OUTCOME_ERROR;
	mine = &queue.entries[queue.count];
	*mine = (struct etcd_entry){ .mode = request->mode, .slots = request->slots };
	if (outcome == OUTCOME_HELD && etcd_queue_find(&queue, etcd->own.id) < 0 &&
	    etcd_queue_blocker(&queue, queue.count) >= 0)
		outcome = OUTCOME_BUSY;
	etcd_queue_free(&queue);
	return outcome;
}

/* Read the queue, and make or write our entry in the same step. */
static int write_entry(struct etcd_backend *etcd, struct etcd_queue *queue, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	char *put;

	own->taken_ms = clock_wall_ms();
	put = etcd_put(own, own->created ? 0 : own->lease);
	if (etcd_call(etcd, "/v3/kv/txn",
		      etcd_transaction(own->key, own->created, put, etcd_range(own, own->created)),
		      err))
		return -1;
	etcd_queue_read(etcd, etcd_last_range(etcd), queue);
	return 0;
}

/*
 * Read the queue until our entry. One that was not woken reads first, and writes when it holds.
 * Sets *i to the index of our entry, -1: it is gone. Returns 0, or -1 and sets *err; with etcd.status
 * ETCD_NOT_FOUND the lease has ended.
 */
static int find_position(struct etcd_backend *etcd, struct etcd_queue *queue, ptrdiff_t *i,
			 struct error *err)
{
	struct etcd_own *own = &etcd->own;

	if (own->created && !own->woken) {
		if (etcd_queue_fetch(etcd, own->created, queue, err))
			return -1;
		*i = etcd_queue_find(queue, own->id);
		if (*i >= 0 && etcd_queue_blocker(queue, *i) >= 0)
			return 0;
		etcd_queue_free(queue);
	}
	own->woken = false;
	if (write_entry(etcd, queue, err))
		return -1;
	*i = etcd_queue_find(queue, own->id);
	return 0;
}

static void take_hold(struct etcd_backend *etcd, struct grant *grant)
{
	struct etcd_own *own = &etcd->own;

	own->held = true;
	grant->sent_ms = own->sent_ms;
	grant->ttl_ms = own->granted_s * 1000;
	grant->fence = own->created;
	grant->event_ms = http_is_open(&etcd->watch) ? 0 : clock_boot_ms() + WATCH_AFTER_MS;
}

/* Wait for the end of the entry that blocks ours. */
static enum outcome wait_turn(struct etcd_backend *etcd, const struct request *request,
			      const struct etcd_queue *queue, ptrdiff_t i, struct grant *grant)
{
	const struct etcd_entry *blocker = &queue->entries[etcd_queue_blocker(queue, i)];
	const bool counts = request->mode == HOLD_SLOT && blocker->mode == HOLD_SLOT;
	struct etcd_own *own = &etcd->own;

	grant->retry_ms = renew_at(own, request);
	own->before = i;
	own->seen = etcd->revision;
	if (http_is_open(&etcd->watch) && own->member == etcd->at && own->counts == counts &&
	    (counts || !strcmp(own->watched, blocker->id)))
		return OUTCOME_BUSY;
	begin_watch(etcd, blocker->id, counts);
	/* Nothing has shown yet that the watch works. */
	grant->retry_ms = clock_earlier(grant->retry_ms, hold_retry_at(-1, false, false));
	return OUTCOME_BUSY;
}

/* Decide by the queue. Returns false if the lease has to be extended first. */
static bool decide(struct etcd_backend *etcd, const struct request *request,
		   const struct etcd_queue *queue, ptrdiff_t i, struct grant *grant,
		   enum outcome *outcome, struct error *err)
{
	const struct etcd_entry *entry = &queue->entries[i];
	const int64_t want_s = etcd_seconds(request->ttl_ms);
	char purpose[TEXT_DIGITS_SIZE + 1];
	struct etcd_own *own = &etcd->own;

	own->created = entry->created;
	own->mode = entry->mode;
	own->slots = entry->slots;
	*outcome = OUTCOME_ERROR;
	/* Only the first entry holds for certain. */
	if (i && !hold_mode_slots_agree(queue->entries[0].slots, request, err))
		return true;
	if (etcd_queue_blocker(queue, i) >= 0) {
		*outcome = OUTCOME_BUSY;
		if (request->queue)
			wait_turn(etcd, request, queue, i, grant);
		else if (etcd_revoke(etcd, own->lease, err))
			*outcome = OUTCOME_ERROR;
		else
			etcd_forget(own);
		return true;
	}
	if (entry->lease != own->lease || !etcd_is_proven(etcd)) {
		own->asked_s = entry->lease == own->lease ? own->asked_s : 0;
		own->lease = entry->lease;
		own->sent_ms = 0;
		return false;
	}
	*outcome = OUTCOME_HELD;
	/* An earlier acquisition of this token was renewed with another TTL. */
	if ((own->asked_s ? own->asked_s : own->granted_s) != want_s)
		*outcome = move_entry(etcd, request->token, name_ttl(want_s, purpose), want_s, err);
	if (*outcome == OUTCOME_HELD)
		take_hold(etcd, grant);
	return true;
}

/* Try once. Returns true when *outcome is known; false: the lease or the entry has changed. */
static bool try_once(struct etcd_backend *etcd, const struct request *request, struct grant *grant,
		     enum outcome *outcome, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	struct etcd_queue queue;
	bool decided = false;
	ptrdiff_t i;

	*outcome = OUTCOME_ERROR;
	if (ensure_lease(etcd, request, err))
		return true;
	if (find_position(etcd, &queue, &i, err)) {
		own->lease = etcd->status == ETCD_NOT_FOUND ? 0 : own->lease;
		return etcd->status != ETCD_NOT_FOUND;
	}
	if (i >= 0)
		decided = decide(etcd, request, &queue, i, grant, outcome, err);
	else
		own->created = 0;
	etcd_queue_free(&queue);
	return decided;
}

enum outcome etcd_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct etcd_own *own = &etcd->own;
	enum outcome outcome;

	etcd_begin(etcd);
	etcd_name(etcd, request);
	own->held = false;
	if (!own->created) {
		own->mode = request->mode;
		own->slots = request->slots;
	}
	etcd_set_text(own, request->text);
	if (!request->queue && !own->created) {
		outcome = check_room(etcd, request, err);
		if (outcome != OUTCOME_HELD)
			return outcome;
	}
	for (int tries = 0; tries < ETCD_MOST_TRIES; tries++)
		if (try_once(etcd, request, grant, &outcome, err))
			return outcome;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: its entry in the queue does not stay",
		  etcd->label);
	return OUTCOME_ERROR;
}

/* ---- renewing ---- */

/* Find the entry of a token that another process has made. HELD, or LOST: it does not hold. */
static enum outcome find_entry(struct etcd_backend *etcd, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	struct etcd_queue queue;
	struct etcd_entry *entry;
	bool holds;
	ptrdiff_t i;

	if (own->held)
		return OUTCOME_HELD;
	if (etcd_queue_fetch(etcd, 0, &queue, err))
		return OUTCOME_ERROR;
	i = etcd_queue_find(&queue, own->id);
	holds = i >= 0 && etcd_queue_blocker(&queue, i) < 0;
	own->created = i < 0 ? 0 : queue.entries[i].created;
	if (i >= 0) {
		entry = &queue.entries[i];
		own->mode = entry->mode;
		own->slots = entry->slots;
		own->taken_ms = entry->taken_ms;
		own->lease = entry->lease;
		free(own->text);
		own->text = entry->text;
		entry->text = NULL;
	}
	own->held = holds;
	etcd_queue_free(&queue);
	return holds ? OUTCOME_HELD : report_lost(etcd, err);
}

/* Is our entry still there? Reads or writes it by a majority. HELD, LOST or ERROR. */
static enum outcome prove_entry(struct etcd_backend *etcd, bool write, struct error *err)
{
	struct etcd_own *own = &etcd->own;
	char *range = memory_format("{\"key\":\"%s\"}", own->key);
	struct json_object *kvs;
	size_t count;

	if (write)
		range = etcd_transaction(own->key, own->created, etcd_put(own, 0), range);
	if (etcd_call(etcd, write ? "/v3/kv/txn" : "/v3/kv/range", range, err))
		return OUTCOME_ERROR;
	count = etcd_array(write ? etcd_last_range(etcd) : etcd->reply, "/kvs", &kvs);
	if (count && (uint64_t)etcd_number(json_object_array_get_idx(kvs, 0), "/create_revision") ==
			     own->created)
		return OUTCOME_HELD;
	return report_lost(etcd, err);
}

/* Extend the lease once. HELD; LOST; ERROR, with errnum EAGAIN if another try may prove it. */
static enum outcome renew_once(struct etcd_backend *etcd, const struct request *request,
			       struct error *err)
{
	struct etcd_own *own = &etcd->own;
	const int64_t want_s = etcd_seconds(request->ttl_ms);
	char purpose[TEXT_DIGITS_SIZE + 1];
	enum outcome outcome;
	int64_t ttl_s;

	if (own->lease == etcd_lease(own, request->token, name_ttl(want_s, purpose)))
		own->asked_s = want_s;
	if (own->asked_s && own->asked_s != want_s)
		return move_entry(etcd, request->token, purpose, want_s, err);
	if (etcd_extend(etcd, own->lease, &ttl_s, err))
		return OUTCOME_ERROR;
	if (!own->asked_s && ttl_s > 0 && ttl_s != want_s)
		return move_entry(etcd, request->token, purpose, want_s, err);
	outcome = prove_entry(etcd, request->text, err);
	if (outcome != OUTCOME_HELD || (ttl_s > 0 && etcd_is_proven(etcd)))
		return outcome;
	error_set(err, ERROR_UNAVAILABLE, EAGAIN, "%s: a new leader does not know the lease yet",
		  etcd->label);
	return OUTCOME_ERROR;
}

enum outcome etcd_renew(struct backend *backend, const struct request *request, struct grant *grant,
			struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct etcd_own *own = &etcd->own;
	enum outcome outcome;
	int tries = 0;

	etcd_begin(etcd);
	etcd_name(etcd, request);
	own->woken = false;
	outcome = find_entry(etcd, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (request->text)
		etcd_set_text(own, request->text);
	do
		outcome = renew_once(etcd, request, err);
	while (outcome == OUTCOME_ERROR && err->errnum == EAGAIN && ++tries < ETCD_MOST_TRIES);
	if (outcome == OUTCOME_HELD)
		take_hold(etcd, grant);
	return outcome;
}

/* ---- releasing ---- */

/* Remove our entry. held: whether it holds. */
static enum outcome remove_entry(struct etcd_backend *etcd, bool held, struct error *err)
{
	bool deleted;

	if (etcd_delete(etcd, etcd->own.key, etcd->own.created, &deleted, err))
		return OUTCOME_ERROR;
	return held && deleted ? OUTCOME_HELD : report_lost(etcd, err);
}

enum outcome etcd_release(struct backend *backend, const struct request *request, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	struct etcd_own *own = &etcd->own;
	enum outcome outcome;
	struct error left = { 0 };

	etcd_begin(etcd);
	etcd_name(etcd, request);
	etcd_watch_close(etcd);
	outcome = find_entry(etcd, err);
	/* The reply to that may have been lost, which says nothing about the release. */
	backend->resent = false;
	if (outcome == OUTCOME_ERROR)
		return outcome;
	if (outcome == OUTCOME_HELD && request->keep_ms > 0) {
		etcd_set_text(own, request->text);
		return move_entry(etcd, request->token, "/kept", etcd_seconds(request->keep_ms),
				  err);
	}
	if (own->created)
		outcome = remove_entry(etcd, outcome == OUTCOME_HELD, err);
	if (outcome == OUTCOME_ERROR)
		return outcome;
	/* With it goes an entry that a late request would make. */
	if (!own->lease)
		own->lease = etcd_lease(own, request->token, "");
	if (etcd_revoke(etcd, own->lease, &left) && outcome == OUTCOME_LOST) {
		*err = left;
		return OUTCOME_ERROR;
	}
	etcd_forget(own);
	return outcome;
}
