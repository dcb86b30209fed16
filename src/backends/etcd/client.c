/* SPDX-License-Identifier: MIT */
/* Requests to the members of the cluster: connecting, logging in, and what their errors mean. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "base/text.h"
#include "etcd.h"

#define ETCD_PORT 2379
/* Between two rounds of asking all members. */
#define PAUSE_MS  100

void etcd_begin(struct etcd_backend *etcd)
{
	etcd->deadline_ms = clock_boot_ms() + etcd->base.timeout_ms;
	/* One that is closed, or was left in the middle of a reply, has to be made again. */
	if (!etcd->main.complete)
		etcd->deadline_ms += etcd->base.connect_timeout_ms;
}

static uint16_t get_port(const struct uri_host *host)
{
	return host->port ? host->port : ETCD_PORT;
}

void etcd_use_member(struct etcd_backend *etcd, size_t at)
{
	const struct uri_host *host = &etcd->hosts[at];
	char text[URI_HOST_SIZE];

	http_close(&etcd->main);
	etcd->at = at;
	uri_host_text(host->name, get_port(host), text, sizeof(text));
	snprintf(etcd->label, sizeof(etcd->label), "etcd %s", text);
	etcd->authority = etcd->label + strlen("etcd ");
}

/* ---- replies ---- */

/* What the server says and users meet, and what to do about it. */
static const char *const refusals[][2] = {
	{ "permission denied",
	  "the user's role lacks a permission; dlock-etcd(7) lists those needed" },
	{ "user name is empty",
	  "the server wants a user and a password: etcd://USER:PASSWORD@HOST" },
	{ "invalid user ID or password", "wrong user or password" },
	{ "authentication is not enabled", "the server has no users, but the URI has one" },
	{ "space exceeded",
	  "its database is full: compact and defragment it, then disarm the alarm NOSPACE" },
	{ "HTTP request to an HTTPS server", "the server requires TLS (use etcds: or ?tls=yes)" },
};

/* May the same request succeed later, or at another member? */
static bool is_temporary(int status, const char *text)
{
	enum { TIMEOUT = 408, TOO_MANY = 429, CLOSED = 499, INTERNAL = 500 };

	return status == TIMEOUT || status == TOO_MANY || status == CLOSED || status >= INTERNAL ||
	       strstr(text, "not supported for learner");
}

/* Set *err to the meaning of an error reply. Returns -1. */
static int refuse(const struct etcd_backend *etcd, const char *text, struct error *err)
{
	const enum error_kind kind = is_temporary(etcd->status, text) ? ERROR_UNAVAILABLE
								      : ERROR_REFUSED;
	char shown[160];

	text_clean(text, strlen(text), shown, sizeof(shown));
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (strstr(text, refusals[i][0]))
			return error_set(err, kind, 0, "%s: %s (%s)", etcd->label, refusals[i][1],
					 shown);
	return error_set(err, kind, 0, "%s: %s", etcd->label, shown);
}

/* Read the reply to the request that is complete. */
static int read_reply(struct etcd_backend *etcd, struct error *err)
{
	/* The text of an error, in the forms of streams, and of all versions. */
	static const char *const errors[] = { "/error/message", "/message", "/error" };
	struct json_object *header;

	etcd->status = http_status(&etcd->main);
	json_object_put(etcd->reply);
	etcd->reply = json_tokener_parse(etcd->main.body);
	if (!json_object_is_type(etcd->reply, json_type_object) && etcd->status != 400)
		return error_set(err, etcd->status >= 500 ? ERROR_UNAVAILABLE : ERROR_REFUSED, 0,
				 "%s: unexpected reply with status %d: it is no etcd 3.4 or newer "
				 "that serves /v3/",
				 etcd->label, etcd->status);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (etcd_get(etcd->reply, errors[i]))
			return refuse(etcd, etcd_text(etcd->reply, errors[i]), err);
	if (etcd->status != 200)
		return refuse(etcd, etcd->main.body, err);
	header = etcd_get(etcd->reply, "/header");
	if (!header)
		header = etcd_get(etcd->reply, "/result/header");
	etcd->term = (uint64_t)etcd_number(header, "/raft_term");
	etcd->revision = (uint64_t)etcd_number(header, "/revision");
	return 0;
}

/* ---- one member ---- */

static int connect_member(struct etcd_backend *etcd, int64_t limit_ms, struct error *err)
{
	const struct uri_host *host = &etcd->hosts[etcd->at];
	int fd;

	limit_ms = clock_earlier(limit_ms, clock_boot_ms() + etcd->base.connect_timeout_ms);
	fd = net_connect(host->name, get_port(host), limit_ms, etcd->base.cancel_fd, err);
	if (fd < 0)
		return error_prefix(err, "%s", etcd->label);
	http_begin(&etcd->main, fd, etcd->encrypted ? &etcd->tls : NULL, host->name);
	return 0;
}

/* Send one request over the connection, and read the reply. */
static int exchange(struct etcd_backend *etcd, const char *path, const char *json, int64_t limit_ms,
		    struct error *err)
{
	const bool first = !etcd->main.body;

	http_post(&etcd->main, etcd->authority, path, etcd->auth, json, ETCD_MOST_BYTES);
	if (!http_call(&etcd->main, limit_ms, etcd->base.cancel_fd, err))
		return read_reply(etcd, err);
	if (err->kind == ERROR_UNAVAILABLE && err->errnum != ETIMEDOUT && first &&
	    !etcd->main.answered && !etcd->encrypted)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "%s: closed the connection without an "
				 "answer, like a server that requires TLS (%s)",
				 etcd->label, etcd->tls.hint);
	return error_prefix(err, "%s", etcd->label);
}

/* Get a token for the user of the URI, unless there is one. */
static int log_in(struct etcd_backend *etcd, int64_t limit_ms, struct error *err)
{
	char *renewed, *json;
	struct json_object *login;
	int failed;

	if (!etcd->user || etcd->auth)
		return 0;
	renewed = uri_renew_password(etcd->password_file);
	login = json_object_new_object();
	json_object_object_add(login, "name", json_object_new_string(etcd->user));
	json_object_object_add(login, "password",
			       json_object_new_string(renewed ? renewed : etcd->password));
	json = memory_copy(json_object_to_json_string(login));
	json_object_put(login);
	memory_free_secret(renewed);
	failed = exchange(etcd, "/v3/auth/authenticate", json, limit_ms, err);
	memory_free_secret(json);
	if (!failed)
		etcd->auth = memory_copy(etcd_text(etcd->reply, "/token"));
	return failed;
}

/* Ask the member in use until limit_ms. path NULL: only connect and log in. */
static int ask_member(struct etcd_backend *etcd, const char *path, const char *json,
		      int64_t limit_ms, struct error *err)
{
	if (!etcd->main.complete || !etcd->main.reusable)
		http_close(&etcd->main);
	if ((!http_is_open(&etcd->main) && connect_member(etcd, limit_ms, err)) ||
	    log_in(etcd, limit_ms, err))
		return -1;
	if (!path || !exchange(etcd, path, json, limit_ms, err))
		return 0;
	/* The server has forgotten our token, as after a restart, or users were changed since. */
	if (!etcd->auth ||
	    (etcd->status != ETCD_NO_LOGIN && !strstr(err->message, "auth store is old")))
		return -1;
	memory_free_secret(etcd->auth);
	etcd->auth = NULL;
	return log_in(etcd, limit_ms, err) || exchange(etcd, path, json, limit_ms, err) ? -1 : 0;
}

/* ---- all members ---- */

/*
 * Ask the members, each with a share of the time. There is another round if one has answered, as
 * without a leader, or has closed a connection that was idle. Returns 0, or -1 with the error of
 * the last one, or, if the time was up then, of the last one that has answered.
 */
static int ask_members(struct etcd_backend *etcd, const char *path, const char *json,
		       struct error *err)
{
	struct error answered = { 0 }, ignored;
	int64_t now;
	bool again;

	do {
		again = false;
		for (size_t left = etcd->host_count; left; left--) {
			now = clock_boot_ms();
			again |= http_is_open(&etcd->main);
			etcd->status = 0;
			if (!ask_member(etcd, path, json,
					now + (etcd->deadline_ms - now) / (int64_t)left, err))
				return 0;
			if (err->kind != ERROR_UNAVAILABLE)
				return -1;
			if (etcd->status > 0)
				answered = *err;
			again |= etcd->status > 0;
			etcd->base.resent |= http_is_open(&etcd->main) && !etcd->main.unsent;
			etcd_use_member(etcd, (etcd->at + 1) % etcd->host_count);
		}
		/* When this is cancelled, the next request is, too. */
		now = clock_boot_ms() + PAUSE_MS;
		again &= now < etcd->deadline_ms;
		if (again)
			net_wait(-1, 0, now, etcd->base.cancel_fd, &ignored);
	} while (again);
	if (answered.kind && err->errnum == ETIMEDOUT)
		*err = answered;
	return -1;
}

int etcd_call(struct etcd_backend *etcd, const char *path, char *json, struct error *err)
{
	const int failed = ask_members(etcd, path, json, err);

	free(json);
	return failed;
}
