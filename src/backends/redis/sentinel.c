/* SPDX-License-Identifier: MIT */
/*
 * Each sentinel is asked over a connection of its own, one after the other, and the first answer
 * counts. It need not be true: a sentinel that was cut off names the old master. So the server that
 * it names must also say that it is a master (see master in address.h); if it does not, the next
 * sentinel is asked, and so on for as long as a connection may take.
 *
 * An old master does not know that it is one. After a failover it takes writes for some 10 s more,
 * until a sentinel makes it a replica, and connections to it stay open for that long. Therefore a
 * reply counts only if a sentinel has named the server shortly before, or names it again now. While
 * no sentinel can be reached, the server's word stands: a failover is then as likely as ever, but
 * to let go of all locks whenever the sentinels are restarted would be worse.
 */
#include "sentinel.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/backend.h"
#include "lock/uri.h"
#include "conn.h"
#include "reply.h"
#include "route.h"

#define DEFAULT_PORT 26379
/*
 * For how long a sentinel's answer counts, in ms. It covers a connection and its first command, so
 * that these need no second question.
 */
#define NAMED_MS 500

struct sentinel {
	struct redis_route route;	/* first, see sentinel_from_route() */
	char *master;
	size_t next;			/* the one to ask */
	struct redis_address address;	/* of the one that is asked */
	int64_t named_ms;		/* CLOCK_BOOTTIME before the last answered question */
	bool shaky;			/* lost() was called since the last good reply */
};

static struct sentinel *sentinel_from_route(struct redis_route *route)
{
	return (struct sentinel *)route;
}

static void next_sentinel(struct sentinel *sentinel)
{
	sentinel->next = (sentinel->next + 1) % sentinel->route.count;
}

/* Reads [host, port], both strings, or nil for a master that the sentinel does not know. */
static int read_answer(struct sentinel *sentinel, const redisReply *reply,
		       struct redis_place *place, struct error *err)
{
	int64_t port;

	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(&sentinel->address, reply->str, err);
		return -1;
	}
	if (reply->type == REDIS_REPLY_NIL)
		return error_set(err, ERROR_REFUSED, 0, "%s: watches no master '%.100s'",
				 sentinel->address.label, sentinel->master);
	if (redis_has_shape(reply, "ss") &&
	    text_number(reply->element[1]->str, reply->element[1]->len, &port) &&
	    redis_place_set(place, reply->element[0]->str, reply->element[0]->len, port))
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
			 sentinel->address.label);
}

int redis_sentinel_ask(struct redis_route *route, size_t which, const struct backend *given,
		       int64_t limit_ms, struct redis_place *place, struct error *err)
{
	struct sentinel *sentinel = sentinel_from_route(route);
	const char *const argv[] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinel->master };
	const int64_t asked_ms = clock_boot_ms();
	struct backend bounds = *given;
	struct redis_conn conn = {
		.backend = &bounds, .address = &sentinel->address, .fd = -1
	};
	redisReply *reply;
	int result;

	redis_address_move(&sentinel->address, "sentinel", &route->places[which]);
	bounds.connect_timeout_ms = limit_ms;
	if (redis_conn_open(&conn, true, err))
		return -1;
	bounds.timeout_ms = asked_ms + limit_ms - clock_boot_ms();
	reply = redis_conn_command(&conn, 3, argv, err);
	redis_conn_close(&conn);
	if (!reply)
		return -1;
	result = read_answer(sentinel, reply, place, err);
	freeReplyObject(reply);
	return result;
}

/* A sentinel that does not answer costs its share of the time only. */
static int sentinel_locate(struct redis_route *route, const struct backend *bounds,
			   struct redis_place *place, struct error *err)
{
	struct sentinel *sentinel = sentinel_from_route(route);
	const int64_t share_ms = bounds->connect_timeout_ms / (int64_t)route->count + 1;
	int64_t asked_ms;
	struct error one;

	for (size_t i = 0; i < route->count; i++) {
		one = (struct error){ 0 };
		asked_ms = clock_boot_ms();
		if (!redis_sentinel_ask(route, sentinel->next, bounds, share_ms, place, &one)) {
			sentinel->named_ms = asked_ms;
			return 0;
		}
		/* A refusal says more than a server that is down. */
		if (i == 0 || one.kind != ERROR_UNAVAILABLE)
			*err = one;
		if (one.kind == ERROR_CANCELLED)
			break;
		next_sentinel(sentinel);
	}
	return -1;
}

/* A server may close a connection for reasons of its own: the first time there is no pause. */
static int64_t sentinel_lost(struct redis_route *route)
{
	struct sentinel *sentinel = sentinel_from_route(route);
	const bool again = sentinel->shaky;

	sentinel->shaky = true;
	next_sentinel(sentinel);
	return again ? REDIS_ROUTE_PAUSE_MS : 0;
}

/* An error may be inside another text, because Redis 5 and 6 wrap the errors of a script. */
static int64_t sentinel_redirect(struct redis_route *route, const struct redis_address *from,
				 const char *text)
{
	(void)from;
	if (!redis_route_no_master(text))
		return REDIS_ROUTE_ENDS;
	next_sentinel(sentinel_from_route(route));
	return REDIS_ROUTE_PAUSE_MS;
}

static bool sentinel_confirm(struct redis_route *route, const struct backend *bounds,
			     const struct redis_address *address)
{
	struct sentinel *sentinel = sentinel_from_route(route);
	struct error ignored;
	struct redis_place place;

	sentinel->shaky = false;
	if (clock_boot_ms() - sentinel->named_ms < NAMED_MS ||
	    sentinel_locate(route, bounds, &place, &ignored))
		return true;
	return redis_address_is_at(address, &place);
}

static void sentinel_finish(struct redis_route *route)
{
	struct sentinel *sentinel = sentinel_from_route(route);

	redis_address_finish(&sentinel->address);
	free(sentinel->route.places);
	free(sentinel->master);
	free(sentinel);
}

static const struct redis_route_ops sentinel_ops = {
	.locate = sentinel_locate,
	.lost = sentinel_lost,
	.redirect = sentinel_redirect,
	.confirm = sentinel_confirm,
	.finish = sentinel_finish,
};

/* Reads "/MASTER" or "/MASTER/DB". */
static int read_path(struct sentinel *sentinel, const char *path, struct redis_address *address,
		     struct error *err)
{
	const char *db;

	if (!path[0] || !path[1] || path[1] == '/')
		return error_set(err, ERROR_USAGE, 0, "redis+sentinel: the name of the master is "
				 "missing: redis+sentinel://HOST[:PORT][,HOST...]/MASTER[/DB]");
	db = strchr(path + 1, '/');
	sentinel->master = db ? memory_copy_part(path + 1, (size_t)(db - path - 1))
			      : memory_copy(path + 1);
	address->master = true;
	return db && db[1] ? redis_address_db(address, db + 1, err) : 0;
}

static int read_login(struct redis_address *address, const struct uri *uri, struct error *err)
{
	address->user = memory_copy(uri_param(uri, "sentinel-user"));
	address->password = memory_copy(uri->sentinel_password);
	if (!address->user || address->password)
		return 0;
	return error_set(err, ERROR_USAGE, 0,
			 "redis+sentinel: sentinel-user= needs sentinel-password-file=");
}

/* As the servers, the sentinels have TLS, unless the URI says that they have none. */
static int read_tls(struct redis_address *address, const struct uri *uri, struct error *err)
{
	const bool is_given = uri_param(uri, "sentinel-tls");
	bool wanted;

	address->transport = &redis_tcp;
	if (redis_address_tls(address, uri, err) ||
	    uri_param_flag(uri, "sentinel-tls", true, &wanted, err))
		return -1;
	if (is_given && address->transport != &redis_tls)
		return error_set(err, ERROR_USAGE, 0,
				 "redis+sentinel: ?sentinel-tls= is for TLS: add tls=yes");
	if (!wanted)
		address->transport = &redis_tcp;
	address->tls.off = "without TLS add ?sentinel-tls=no";
	if (is_given)
		address->tls.on = "with TLS drop ?sentinel-tls=no";
	return 0;
}

struct redis_route *redis_sentinel_open(const struct uri *uri, struct redis_address *address,
					struct error *err)
{
	struct sentinel *sentinel = memory_new(1, sizeof(*sentinel));

	sentinel->route.ops = &sentinel_ops;
	if (read_tls(&sentinel->address, uri, err) ||
	    redis_places_read(uri, DEFAULT_PORT, &sentinel->route.places, &sentinel->route.count,
			      err) ||
	    read_path(sentinel, uri->path, address, err) ||
	    read_login(&sentinel->address, uri, err)) {
		sentinel_finish(&sentinel->route);
		return NULL;
	}
	return &sentinel->route;
}
