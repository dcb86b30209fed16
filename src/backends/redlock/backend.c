/* SPDX-License-Identifier: MIT */
/*
 * Redlock (redis.io, "Distributed locks with Redis"): a lock on several independent Redis servers.
 * A client holds it if it holds it on a majority of them. On each node the keys are those of
 * redis/backend.c, in its plain dialect, and the lock is always a string. This excludes npm's
 * redlock, redis-semaphore's RedlockMutex and others that set the same key on the same nodes.
 *
 * An acquisition asks all nodes at once. When a majority has given the lock, the lease is the rest
 * of the TTL since before the first request. Otherwise, or when nothing is left, the lock is
 * released on all nodes, also on those that have not answered: on a node that hangs, the release
 * follows the request on the same connection.
 *
 * - A node that was restarted within the TTL may have lost a lock. Such a node still grants locks,
 *   to keep others out. Its vote counts only once every lock that it may have forgotten has ended:
 *   after the longest TTL that any node reports, or after a day and the requested TTL. An
 *   acquisition does not wait for nodes beyond the first majority if that has been up for a day.
 *   Otherwise it waits for node-timeout, because a node without an answer may know a longer TTL.
 * - A renewal needs a majority that still has the hold. It restores the lock on the nodes that have
 *   lost it, and never takes it from anybody. Once the majority is lost, the hold is lost.
 * - The fence is the clock of the client, or the last fence of a node plus 1 if that is more. The
 *   greatest is written to a majority before the command starts.
 *
 * The nodes run the one script of redis/lua/. It gives a free lock to any client, because the
 * queues of the nodes may differ; so no order is promised. A waiter subscribes to its own channel
 * on each node, and is in the queue of each node, sorted by queued_at. A release calls the first
 * waiter that is alive, and the second one for 0.9 s later. A waiter tries when a majority of the
 * nodes has called it, or shortly after one has, when a majority of the leases has ended, and every
 * 5 s. When several clients tried at the same time and nobody got a majority, each pauses for a
 * random time.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/client.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/hold.h"
#include "lock/holder.h"
#include "lock/uri.h"
#include "lock/uri_tls.h"
#include "lock/findings.h"
#include "validity.h"

#define NODE_TIMEOUT_MS 50
/*
 * After a try in which nobody got a majority, each client pauses for a random time. Its bound
 * doubles SPLIT_DOUBLED times.
 */
#define SPLIT_FIRST_MS 10
#define SPLIT_DOUBLED 6
/* The most such tries of a client that does not wait; their pauses take 0.6 s at most. */
#define SPLIT_TRIES 6
/* A younger hold of a minority may be that of a client in the middle of its try. */
#define TRYING_MS 1000
/*
 * A server that has been up for this long counts as old, unless the requested TTL is longer. One
 * node that reports an endless lease must not keep all others from voting.
 */
#define OLD_MS (INT64_C(24) * 3600 * 1000)

struct redlock {
	struct redis_client client;	/* begins with struct backend */
	int splits;			/* tries in a row in which nobody had a majority */
	/*
	 * Why the last try was BUSY although nobody has the lock: too many nodes were restarted.
	 * Shown instead of a holder; "": no such reason.
	 */
	char young[HOLDER_NOTE_MAX + 1];
};

static struct redlock *redlock_from_backend(struct backend *backend)
{
	return (struct redlock *)backend;
}

/* The answers of the nodes in one try. */
struct ballot {
	unsigned granted;			/* a bit for each node that has given the lock */
	uint64_t fence;				/* the greatest of theirs, */
	int equal;				/* and how many gave it */
	int64_t left_ms[REDIS_MOST_SERVERS];	/* of the leases of holders, in no order */
	struct redlock_votes votes;
	int64_t longest_ttl_ms;			/* of all reported ones and our own */
	int64_t young_ms;			/* until enough nodes vote; INT64_MAX: not known */
	/* The holder that most of them name: */
	int most;
	int64_t ahead, age_ms;
	bool foreign;
};

/* ---- reading ---- */

/*
 * Returns the fence of {1, fence} (redis/lua/common.lua). 0: another reply, or a forged fence,
 * which would spread.
 */
static uint64_t read_fence(const struct redis_server *node)
{
	uint64_t fence = 0;

	if (node->state == SERVER_ANSWERED && redis_has_shape(node->reply, "is") &&
	    node->reply->element[0]->integer == 1)
		fence = strtoull(node->reply->element[1]->str, NULL, 10);
	return fence < BACKEND_FENCE_END ? fence : 0;
}

/* Is it {0, left, ahead, queued_at, foreign, digest, age, ttl}? */
static bool is_busy(const struct redis_server *node)
{
	return node->state == SERVER_ANSWERED && redis_has_shape(node->reply, "iiisisii") &&
	       node->reply->element[0]->integer == 0;
}

/* Returns the age of the server, in ms; -1: not known. */
static int64_t server_age(const struct redis_server *node)
{
	const struct redis_conn *conn = &node->main;

	return conn->known ? clock_boot_ms() - conn->started_ms : -1;
}

static int count_holder(const struct redis_client *client, const char *digest)
{
	int count = 0;

	for (int i = 0; i < client->count; i++)
		count += is_busy(&client->servers[i]) &&
			 !strcmp(client->servers[i].reply->element[5]->str, digest);
	return count;
}

static void read_busy(const struct redis_client *client, const redisReply *reply,
		      struct ballot *ballot)
{
	redisReply *const *e = reply->element;
	const int count = count_holder(client, e[5]->str);
	int64_t ttl_ms = e[7]->integer > e[1]->integer ? e[7]->integer : e[1]->integer;

	ballot->left_ms[ballot->votes.busy++] = e[1]->integer;
	ttl_ms = clock_earlier(ttl_ms, OLD_MS);
	if (ttl_ms > ballot->longest_ttl_ms)
		ballot->longest_ttl_ms = ttl_ms;
	if (count <= ballot->most)
		return;
	ballot->most = count;
	ballot->ahead = e[2]->integer;
	ballot->age_ms = e[6]->integer;
	ballot->foreign = e[4]->integer;
}

static void read_grant(uint64_t fence, unsigned bit, struct ballot *ballot)
{
	ballot->granted |= bit;
	ballot->votes.granted++;
	if (fence > ballot->fence)
		ballot->equal = 0;
	if (fence >= ballot->fence) {
		ballot->fence = fence;
		ballot->equal++;
	}
}

/* Count the nodes that vote, and the time until enough do. */
static void count_voters(const struct redis_client *client, struct ballot *ballot)
{
	int64_t left_ms[REDIS_MOST_SERVERS], age_ms;
	size_t young = 0;

	for (int i = 0; i < client->count; i++) {
		age_ms = server_age(&client->servers[i]);
		if (!(ballot->granted & 1u << i))
			continue;
		/* It may have lost a lock, which has ended by then. */
		if (age_ms >= ballot->longest_ttl_ms)
			ballot->votes.trusted++;
		else if (age_ms >= 0)
			left_ms[young++] = ballot->longest_ttl_ms - age_ms;
	}
	ballot->young_ms = redlock_free_in(left_ms, young, client->quorum - ballot->votes.trusted);
}

static void read_ballot(const struct redis_client *client, int64_t ttl_ms, struct ballot *ballot)
{
	*ballot = (struct ballot){ .longest_ttl_ms = ttl_ms, .ahead = -1, .age_ms = -1 };
	for (int i = 0; i < client->count; i++) {
		const struct redis_server *node = &client->servers[i];
		const uint64_t fence = read_fence(node);

		if (fence)
			read_grant(fence, 1u << i, ballot);
		else if (is_busy(node))
			read_busy(client, node->reply, ballot);
		else
			ballot->votes.failed += node->state != SERVER_ASKED;
	}
	count_voters(client, ballot);
}

/* state: the requested TTL. Before all have answered, only old nodes vote. */
static bool is_decided(const struct redis_client *client, const void *state)
{
	const int64_t ttl_ms = *(const int64_t *)state;
	struct ballot ballot;

	read_ballot(client, ttl_ms > OLD_MS ? ttl_ms : OLD_MS, &ballot);
	return redlock_decided(client->count, ballot.votes);
}

/* ---- one try ---- */

/*
 * Release what a failed try has acquired, also on nodes without an answer. A node with a smaller
 * fence may have lost its data, and gets the greatest one: so no fence is lost when one node after
 * the other loses its data while somebody waits.
 */
static void back_off(struct redis_client *client, const struct request *request,
		     const struct ballot *ballot)
{
	const uint64_t fence = ballot->equal < ballot->votes.granted ? ballot->fence : 0;
	char number[TEXT_DIGITS_SIZE];
	struct redis_call call = {
		.what = "release", .token = request->token,
		.arguments = { "0", "", "1",
			       redis_digits((int64_t)fence, number) },
	};
	const int cancel_fd = client->base.cancel_fd;
	struct error ignored;

	for (int i = 0; i < client->count; i++)
		call.servers |= (unsigned)redis_may_have_done(&client->servers[i]) << i;
	if (!call.servers)
		return;
	client->base.cancel_fd = -1;
	redis_round(client, &call, &ignored);
	client->base.cancel_fd = cancel_fd;
}

/* Has a majority this fence? state: the fence, or a greater one. */
static bool has_fence(const struct redis_client *client, const void *state)
{
	const uint64_t fence = *(const uint64_t *)state;
	int count = 0;

	for (int i = 0; i < client->count; i++)
		count += read_fence(&client->servers[i]) >= fence;
	return count >= client->quorum;
}

/* Acquire at these nodes, with a fence of at least fence; 0: the client's clock. */
static int acquire_at_servers(struct redis_client *client, const struct request *request,
			      unsigned nodes, bool enqueue, uint64_t fence, struct error *err)
{
	const int64_t now_us = clock_read_us(CLOCK_REALTIME);
	struct redis_call call = {
		.servers = nodes, .least = client->quorum,
		.decided = fence ? has_fence : is_decided,
		.state = fence ? (const void *)&fence : (const void *)&request->ttl_ms,
	};

	if (enqueue && !client->queued_us)
		client->queued_us = now_us;
	return redis_send_acquire(client, request, enqueue, fence ? fence : (uint64_t)now_us,
				  &call, err);
}

/*
 * Make sure that a majority has the greatest fence before the command starts, so that the next
 * holder finds it. Usually all nodes have given the same one, from this client's clock. Otherwise
 * the nodes that have given the lock are asked a second time, with that fence. So are those with a
 * smaller one when a majority has it: they have lost their data, and the next ones to lose theirs
 * may be of this majority.
 */
static bool spread_fence(struct redis_client *client, const struct request *request,
			 const struct ballot *ballot, struct error *err)
{
	return ballot->equal == ballot->votes.granted ||
	       (!acquire_at_servers(client, request, ballot->granted, false, ballot->fence, err) &&
		has_fence(client, &ballot->fence));
}

/* Accept the lock of a majority. HELD, or ERROR with *err: too little of the lease is left. */
static enum outcome accept_majority(struct redlock *lock, const struct request *request,
				    const struct ballot *ballot, int64_t sent_ms,
				    struct grant *grant, struct error *err)
{
	struct redis_client *client = &lock->client;

	*err = (struct error){ 0 };
	if (!spread_fence(client, request, ballot, err)) {
		if (err->kind != ERROR_CANCELLED)
			redis_no_majority(client, redis_count(client, SERVER_ANSWERED), err);
		return OUTCOME_ERROR;
	}
	lock->splits = 0;
	grant->fence = ballot->fence;
	return redis_grant(client, sent_ms, request, grant, err);
}

/* Try once, and fill *ballot. BUSY and ERROR leave only a queue entry. */
static enum outcome try_acquire(struct redlock *lock, const struct request *request, bool queued,
				struct ballot *ballot, struct grant *grant, struct error *err)
{
	struct redis_client *client = &lock->client;
	const int64_t sent_ms = clock_boot_ms();
	enum outcome outcome = OUTCOME_ERROR;

	if (acquire_at_servers(client, request, 0, queued, 0, err))
		return OUTCOME_ERROR;
	read_ballot(client, request->ttl_ms, ballot);
	if (client->duplicate)
		*err = client->duplicate->error;
	else if (ballot->votes.granted + ballot->votes.busy < client->quorum)
		redis_no_majority(client, ballot->votes.granted + ballot->votes.busy, err);
	else if (ballot->votes.trusted >= client->quorum)
		outcome = accept_majority(lock, request, ballot, sent_ms, grant, err);
	else
		outcome = OUTCOME_BUSY;
	if (outcome != OUTCOME_HELD)
		back_off(client, request, ballot);
	return outcome;
}

/* ---- trying again ---- */

/* Have several clients tried at the same time, so that nobody got a majority? */
static bool is_split(const struct redis_client *client, const struct ballot *ballot)
{
	if (ballot->votes.granted >= client->quorum || ballot->most >= client->quorum)
		return false;
	return ballot->most + client->count - ballot->votes.granted - ballot->votes.busy <
		       client->quorum ||
	       (ballot->age_ms >= 0 && ballot->age_ms < TRYING_MS);
}

static int64_t split_pause(struct redlock *lock)
{
	const int doubled = lock->splits < SPLIT_DOUBLED ? lock->splits : SPLIT_DOUBLED;

	lock->splits++;
	return rand() % (SPLIT_FIRST_MS << doubled);
}

static int64_t choose_retry(struct redlock *lock, struct ballot *ballot)
{
	struct redis_client *client = &lock->client;
	int64_t left_ms;

	if (is_split(client, ballot))
		return clock_boot_ms() + 1 + split_pause(lock);
	lock->splits = 0;
	if (ballot->votes.granted >= client->quorum)
		left_ms = ballot->young_ms;
	else
		left_ms = redlock_free_in(ballot->left_ms, (size_t)ballot->votes.busy,
					  client->quorum - ballot->votes.granted);
	/* As if one more were ahead: nodes grant to whoever comes, and two at once split them. */
	return hold_retry_at(left_ms, clock_earlier(ballot->ahead, HOLD_FAR) + (ballot->ahead > 0),
			     ballot->most > 0 && ballot->foreign);
}

/* Record the reason if nobody gets the lock because too many of its nodes do not vote. */
static void record_young(struct redlock *lock, const struct ballot *ballot)
{
	const int count = lock->client.count, young = ballot->votes.granted - ballot->votes.trusted;

	lock->young[0] = '\0';
	if (ballot->votes.granted < lock->client.quorum ||
	    ballot->votes.trusted >= lock->client.quorum)
		return;
	if (ballot->young_ms == INT64_MAX)
		snprintf(lock->young, sizeof(lock->young), "%d of %d nodes do not report by INFO "
			 "how long they have been up, and do not vote", young, count);
	else
		snprintf(lock->young, sizeof(lock->young), "%d of %d nodes were started less than "
			 "a TTL ago and may have forgotten the lock; enough of them vote in %"
			 PRId64 " s", young, count, ballot->young_ms / 1000 + 1);
}

static enum outcome redlock_attempt(struct redis_client *client, const struct request *request,
				    bool enqueue, struct grant *grant, struct error *err)
{
	struct redlock *lock = redlock_from_backend(&client->base);
	struct ballot ballot = { 0 };
	enum outcome outcome;

	outcome = try_acquire(lock, request, enqueue, &ballot, grant, err);
	/* Without a wait, try more than once if others tried at the same moment. */
	for (int i = 0; i < SPLIT_TRIES && outcome == OUTCOME_BUSY && !request->queue &&
	     is_split(client, &ballot); i++) {
		net_wait(-1, 0, clock_boot_ms() + split_pause(lock), client->base.cancel_fd, err);
		if (err->kind == ERROR_CANCELLED)
			return OUTCOME_ERROR;
		*err = (struct error){ 0 };
		outcome = try_acquire(lock, request, false, &ballot, grant, err);
	}
	record_young(lock, &ballot);
	if (outcome == OUTCOME_BUSY && !request->queue && lock->young[0]) {
		error_set(err, ERROR_UNAVAILABLE, 0, "no majority: %s", lock->young);
		return OUTCOME_ERROR;
	}
	/* A new waiter tries once more before its first sleep. */
	if (outcome == OUTCOME_BUSY && (enqueue || !request->queue))
		grant->retry_ms = choose_retry(lock, &ballot);
	return outcome;
}

/* ---- showing ---- */

static int count_row(const struct row *rows, size_t count, const struct row *row)
{
	int found = 0;

	for (size_t i = 0; i < count; i++)
		found += !strcmp(rows[i].id, row->id);
	return found;
}

/* Find the holder that most nodes name; NULL: there is none on any. */
static struct row *find_holder(const struct rows *rows, int *most)
{
	struct row *found = NULL;

	*most = 0;
	for (size_t i = 0; i < rows->hold_count; i++) {
		const int count = count_row(rows->holds, rows->hold_count, &rows->holds[i]);

		if (count <= *most)
			continue;
		*most = count;
		found = &rows->holds[i];
	}
	return found;
}

/* Add a row with the reason why this waiter does not get a free lock. */
static void add_young(const struct redlock *lock, struct rows *rows)
{
	struct holder *nobody = &rows_add(rows, true, "", 0)->holder;

	snprintf(nobody->note, sizeof(nobody->note), "%s", lock->young);
}

/* Sort waiters by queued_at. */
static int compare_ages(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->age_ms < y->age_ms) - (x->age_ms > y->age_ms);
}

/*
 * Keep one row of each waiter, which is in the queues of several nodes, and one of the holder that
 * most nodes name, with the greatest fence. It may have a majority, because nodes that do not
 * answer may have it, too.
 */
static void merge_rows(const struct redlock *lock, int answers, struct rows *rows)
{
	const struct redis_client *client = &lock->client;
	size_t kept = 0;
	int most;
	struct row *found = find_holder(rows, &most);

	if (most + client->count - answers < client->quorum)
		found = NULL;
	for (size_t i = 0; i < rows->hold_count && found; i++)
		if (!strcmp(rows->holds[i].id, found->id) && rows->holds[i].fence > found->fence)
			found->fence = rows->holds[i].fence;
	if (found) {
		found->mine &= most >= client->quorum;
		rows->holds[0] = *found;
	}
	rows->hold_count = found != NULL;
	if (!found && lock->young[0])
		add_young(lock, rows);
	for (size_t i = 0; i < rows->waiter_count; i++)
		if (!count_row(rows->waiters, kept, &rows->waiters[i]))
			rows->waiters[kept++] = rows->waiters[i];
	rows->waiter_count = kept;
	if (kept)
		qsort(rows->waiters, kept, sizeof(rows->waiters[0]), compare_ages);
}

/* ---- one node after the other ---- */

/*
 * Returns a client for one node alone, which answers within timeout_ms. It shares the connections
 * of all, and must not be freed.
 */
static struct redis_client make_node(const struct redis_client *all, int which, int64_t timeout_ms)
{
	struct redis_client one = *all;

	one.servers = &all->servers[which];
	one.count = one.quorum = 1;
	one.base.timeout_ms = one.base.connect_timeout_ms = timeout_ms;
	return one;
}

/* List the names on a majority: it has a node in common with the majority of each lock. */
static int list_names(struct redis_client *client, struct rows *rows, struct error *err)
{
	const struct request all = { .name = NULL };
	int listed = 0;

	for (int i = 0; i < client->count; i++) {
		/* After a majority, do not wait for the others. */
		struct redis_client one = make_node(client, i, listed >= client->quorum
						       ? client->patience_ms
						       : client->base.timeout_ms);
		struct error ignored = { 0 };

		listed += !redis_show(&one.base, &all, rows, &ignored);
	}
	return listed >= client->quorum ? 0 : redis_no_majority(client, listed, err);
}

static int redlock_show(struct backend *backend, const struct request *request, struct rows *rows,
			struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);
	int answers, failed;

	if (!request->name)
		return list_names(&lock->client, rows, err);
	failed = redis_show_rows(&lock->client, request, rows, &answers, err);
	merge_rows(lock, answers, rows);
	return failed;
}

/* ---- `dlock check` ---- */

/* Add the findings about one node, with its name in front. Returns 0, or -1 without an answer. */
static int check_node(const struct redis_client *client, int which, struct findings *findings)
{
	const char *label = client->servers[which].address.label + sizeof("redis ") - 1;
	struct findings found = { 0 };
	struct error err = { 0 };
	struct redis_client one = make_node(client, which, client->base.timeout_ms);
	const int failed = redis_check(&one.base, &found, &err);

	if (failed)
		findings_add(findings, FINDING_WARNING, "node", "repair this node: without it "
			     "fewer others may fail", "%.200s", err.message);
	for (size_t i = 0; i < found.count; i++)
		findings_add(findings, found.rows[i].severity, found.rows[i].topic,
			     found.rows[i].remedy[0] ? found.rows[i].remedy : NULL, "%s: %.150s",
			     label, found.rows[i].text);
	findings_finish(&found);
	return failed;
}

static int redlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	int fit = 0;

	if (redis_ping(backend, err))
		return -1;
	for (int i = 0; i < client->count; i++)
		fit += !check_node(client, i, findings);
	if (fit < client->quorum)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "no majority: %d of %d nodes can be checked", fit, client->count);
	findings_add(findings, fit < client->count ? FINDING_WARNING : FINDING_OK, "majority",
		     fit < client->count ? "repair the nodes that do not answer" : NULL,
		     "%d of %d nodes answer, %d are needed", fit, client->count, client->quorum);
	return 0;
}

/* ---- the URI ---- */

static int check_count(const struct uri *uri, struct error *err)
{
	const size_t count = uri->host_count;

	if (count >= 3 && count <= REDIS_MOST_SERVERS && count % 2)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "redlock: %zu nodes are named: name 3, 5 or 7%s",
			 count, count == 1 ? ", or use redis: for a single server"
			 : count % 2 ? ", as in redlock://HOST,HOST,HOST[/DB]"
			 : ", since an even number survives no more failures than one node fewer");
}

static int read_uri(struct redis_client *client, const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		"prefix", "node-timeout", "tls", URI_TLS_PARAMS, URI_COMMON_PARAMS, NULL
	};
	const char *prefix = uri_param(uri, "prefix");

	if (uri_check_params(uri, known, err) || check_count(uri, err) ||
	    uri_param_duration(uri, "node-timeout", NODE_TIMEOUT_MS, &client->patience_ms, err))
		return -1;
	if (client->patience_ms <= 0)
		return error_set(err, ERROR_USAGE, 0, "?node-timeout= must be more than 0");
	for (size_t i = 0; i < uri->host_count; i++) {
		struct redis_address *address = &client->servers[i].address;

		if (redis_address_tcp(address, uri, &uri->hosts[i], err) ||
		    redis_address_read(address, uri, err))
			return -1;
		address->age = true;
	}
	client->prefix = prefix ? prefix : REDIS_PREFIX;
	return 0;
}

static struct backend *redlock_open(const struct uri *uri, struct error *err)
{
	struct redlock *lock = memory_new(1, sizeof(*lock));

	redis_client_init(&lock->client, uri->host_count);
	lock->client.attempt = redlock_attempt;
	if (!read_uri(&lock->client, uri, err))
		return &lock->client.base;
	redis_close(&lock->client.base);
	return NULL;
}

const struct backend_ops redlock_ops = {
	.open = redlock_open,
	.close = redis_close,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.renew = redis_renew,
	.release = redis_release,
	.show = redlock_show,
	.fd = redis_fd,
	.event = redis_event,
	.setup = redis_setup,
	.check = redlock_check,
	.break_hold = redis_break,
};
