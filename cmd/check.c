/* SPDX-License-Identifier: MIT */
/* The commands check and setup. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/net.h"
#include "lock/findings.h"
#include "lock/hold.h"
#include "json.h"
#include "session.h"

/* One name for all probes, so that only its last fence is left behind. */
#define PROBE_NAME "dlock-check"
#define PROBE_PAUSE_MS 20
/* How long a waiter has to fall asleep before the lock is released. */
#define SETTLE_MS 100
/* A waiter that takes longer was not woken: it tries each HOLD_RETRY_MS. */
#define WAKE_MOST_MS (HOLD_RETRY_MS - 1000)

static const char *const severities[] = {
	[FINDING_OK] = "ok", [FINDING_NOTE] = "note",
	[FINDING_WARNING] = "warning", [FINDING_ERROR] = "error",
};

/*
 * Acquire like the engine, from grant->retry_ms on until until_ms. Without a place in the queue, it
 * tries again and again.
 */
static enum outcome await_lock(struct backend *backend, const struct request *request,
			       struct grant *grant, int64_t until_ms, struct error *err)
{
	int64_t next_ms = grant->retry_ms;
	enum outcome outcome;
	struct error ignored;

	for (;;) {
		while (clock_boot_ms() < clock_earlier(next_ms, until_ms))
			if (backend->woken ||
			    !net_wait(backend->ops->fd ? backend->ops->fd(backend) : -1, POLLIN,
				      clock_earlier(next_ms, until_ms), -1, &ignored))
				next_ms = clock_earlier(next_ms, backend->ops->event(backend));
		if (next_ms > until_ms)
			return OUTCOME_BUSY;
		*grant = (struct grant){ .hold_fd = -1 };
		outcome = hold_acquire(backend, request, grant, err);
		if (outcome != OUTCOME_BUSY || clock_boot_ms() >= until_ms)
			return outcome;
		next_ms = request->queue ? grant->retry_ms : clock_boot_ms() + PROBE_PAUSE_MS;
	}
}

/* Add the finding "waiter". poll_ms: how often it checks the lock, because nothing wakes it. */
static void report_waiter(enum outcome outcome, const struct error *why, int64_t took_ms,
			  int64_t poll_ms, struct findings *findings)
{
	if (outcome == OUTCOME_ERROR)
		findings_add(findings, FINDING_ERROR, "waiter", NULL, "cannot wait: %.200s",
			     why->message);
	else if (outcome == OUTCOME_HELD && !poll_ms)
		findings_add(findings, FINDING_OK, "waiter", NULL, "got the lock %" PRId64
			     " ms after its release", took_ms);
	else
		findings_add(findings, FINDING_WARNING, "waiter", "give this user all permissions "
			     "in the manual page (on Redis: publish, and the channels), and use "
			     "no proxy that drops messages or spreads statements",
			     "no release wakes a waiter, which checks the lock each %.1f s",
			     (double)(poll_ms ? poll_ms : HOLD_RETRY_MS) / 1000);
}

/*
 * Release the probe while a second client waits for it. Does that wake it, with this user's
 * permissions?
 */
static void release_to_waiter(struct backend *backend, const struct request *probe,
			      struct backend *waiter, struct findings *findings,
			      struct error *err)
{
	struct grant grant = { .retry_ms = 0 };
	struct request second = *probe;
	struct error why = { 0 };
	char token[TOKEN_SIZE];
	enum outcome outcome = OUTCOME_ERROR;
	int64_t poll_ms, start_ms;

	second.token = token;
	second.queue = true;
	if (!token_make_random(token, &why))
		outcome = await_lock(waiter, &second, &grant, clock_boot_ms() + SETTLE_MS, &why);
	poll_ms = grant.poll_ms;
	start_ms = clock_boot_ms();
	backend->ops->release(backend, probe, err);
	if (!err->kind && outcome == OUTCOME_BUSY)
		outcome = await_lock(waiter, &second, &grant, start_ms + WAKE_MOST_MS, &why);
	if (!err->kind)
		report_waiter(outcome, &why, clock_boot_ms() - start_ms, poll_ms, findings);
	waiter->ops->release(waiter, &second, &why);
}

/*
 * Take the lock dlock-check over a new connection, on a server let a second client wait for it, and
 * release it. Returns 0, or -1 with *err: the backend cannot hold locks, or the account may not.
 */
static int take_probe(struct session *session, struct findings *findings, struct error *err)
{
	char token[TOKEN_SIZE], text[HOLDER_TEXT_SIZE];
	struct request request = { .name = PROBE_NAME, .token = token, .text = text,
				   .ttl_ms = session->options.run.ttl_ms };
	const int64_t start_us = clock_read_us(CLOCK_BOOTTIME);
	struct grant grant = { .retry_ms = 0 };
	struct backend *backend, *waiter = NULL;
	enum outcome outcome;
	struct holder self;

	session_disconnect(session);
	if (session_connect(session, err) || token_make_random(token, err))
		return -1;
	backend = session->backend;
	/* A semaphore has no exclusive holds. */
	if (backend->can == BACKEND_SLOTS)
		request.mode = HOLD_SLOT, request.slots = 1;
	holder_self(&self, "dlock check");
	holder_encode(&self, text);
	/* Another probe may have it. */
	outcome = await_lock(backend, &request, &grant, clock_boot_ms() + backend->timeout_ms, err);
	if (outcome == OUTCOME_BUSY)
		error_set(err, ERROR_REFUSED, 0, "the lock '" PROBE_NAME "' is taken, which is "
			  "only for 'dlock check'");
	if (outcome != OUTCOME_HELD) {
		/* After a lost reply the backend may hold the lock. */
		backend->ops->release(backend, &request, &(struct error){ 0 });
		return -1;
	}
	*err = (struct error){ 0 };
	findings_add(findings, FINDING_OK, "probe", NULL, "acquired a lock in %.2f ms, connection "
		     "included", (double)(clock_read_us(CLOCK_BOOTTIME) - start_us) / 1000);
	if (!session->options.run.driver->local)
		waiter = backend_open(session->options.run.driver, &session->settings.uri, NULL,
				      err);
	if (waiter)
		release_to_waiter(backend, &request, waiter, findings, err);
	else
		backend->ops->release(backend, &request, err);
	backend_close(waiter);
	return err->kind ? -1 : 0;
}

/* With -q, print only what makes the backend unusable, as an error. */
static void print_text(const struct findings *findings, bool quiet)
{
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *f = &findings->rows[i];

		if (quiet && f->severity == FINDING_ERROR)
			log_print(LEVEL_ERROR, "%s", f->text);
		else if (!quiet)
			print_line(stdout, "%-8s %-12s %s%s%s", severities[f->severity], f->topic,
				   f->text, f->remedy[0] ? "; " : "", f->remedy);
	}
}

static void print_json(const struct findings *findings, const char *location, enum severity worst)
{
	struct json json = { .stream = stdout };

	json_open(&json, NULL, '{');
	json_text(&json, "backend", location);
	json_text(&json, "verdict", severities[worst]);
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *f = &findings->rows[i];

		json_open(&json, NULL, '{');
		json_text(&json, "severity", severities[f->severity]);
		json_text(&json, "topic", f->topic);
		json_text(&json, "finding", f->text);
		json_text(&json, "remedy", f->remedy);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

int command_check(struct session *session, struct error *err)
{
	const bool quiet = session->options.least == LEVEL_ERROR;
	struct findings findings = { 0 };
	enum severity worst = FINDING_OK;
	const char *location = session->settings.location;

	findings_add(&findings, FINDING_OK, "backend", NULL, "%.230s", location);
	if (session_connect(session, err) ||
	    (session->backend->ops->check &&
	     session->backend->ops->check(session->backend, &findings, err)) ||
	    take_probe(session, &findings, err))
		findings_add(&findings, FINDING_ERROR, "unusable", NULL, "%.230s", err->message);
	for (size_t i = 0; i < findings.count; i++)
		if (findings.rows[i].severity > worst)
			worst = findings.rows[i].severity;
	if (session->options.json && !quiet)
		print_json(&findings, location, worst);
	else
		print_text(&findings, quiet);
	findings_finish(&findings);
	if (err->kind == ERROR_USAGE)
		return EXIT_DLOCK;
	return worst == FINDING_ERROR ? EXIT_UNAVAILABLE : worst >= FINDING_WARNING;
}

/* With --dry-run, print on standard output, for a shell or for the client of a database. */
int command_setup(struct session *session, struct error *err)
{
	const char *location = session->settings.location;
	const bool dry_run = session->options.dry_run;
	struct findings ignored = { 0 };
	char *plan = NULL;

	if (session_connect(session, err) ||
	    (session->backend->ops->setup &&
	     session->backend->ops->setup(session->backend, dry_run ? &plan : NULL, err)))
		return -1;
	if (plan && *plan)
		fputs(plan, stdout);
	else if (dry_run)
		log_print(LEVEL_WARNING, "nothing needs to be set up on %s", location);
	free(plan);
	if (dry_run)
		return 0;
	/*
	 * A directory may exist and be unusable for this user. On a server, the account that makes
	 * the tables need not be one that holds locks.
	 */
	if (session->options.run.driver->local && take_probe(session, &ignored, err))
		return error_prefix(err, "%s cannot hold locks", location);
	findings_finish(&ignored);
	log_print(LEVEL_STEP, "%s is ready", location);
	return 0;
}
