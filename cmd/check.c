/* SPDX-License-Identifier: MIT */
/* The commands check and setup. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "lock/findings.h"
#include "lock/hold.h"
#include "json.h"
#include "session.h"

/* One name for all probes, so that only its last fence is left behind. */
#define PROBE_NAME "dlock-check"
#define PROBE_PAUSE_US 20000
/* A waiter that takes longer was not woken: it tries each HOLD_RETRY_MS. */
#define WAKE_MOST_MS (HOLD_RETRY_MS - 1000)

static const char *const severities[] = {
	[FINDING_OK] = "ok", [FINDING_NOTE] = "note",
	[FINDING_WARNING] = "warning", [FINDING_ERROR] = "error",
};

/* Acquire the lock of the probe, and wait while another probe has it. */
static enum outcome acquire_probe(struct backend *backend, const struct request *request,
				  struct grant *grant, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + backend->timeout_ms;
	enum outcome outcome;

	do {
		*grant = (struct grant){ .hold_fd = -1 };
		outcome = hold_acquire(backend, request, grant, err);
	} while (outcome == OUTCOME_BUSY && clock_boot_ms() < until_ms && !usleep(PROBE_PAUSE_US));
	if (outcome == OUTCOME_BUSY)
		error_set(err, ERROR_REFUSED, 0, "the lock '%s' is taken, which is only for "
			  "'dlock check'", request->name);
	return outcome;
}

/* The probe was released: does that wake the waiter, with this user's permissions? */
static void await_waiter(struct backend *waiter, const struct request *request,
			 struct grant *grant, struct findings *findings, struct error *err)
{
	const int64_t start_ms = clock_boot_ms(), until_ms = start_ms + WAKE_MOST_MS;
	enum outcome outcome = OUTCOME_BUSY;
	struct error ignored;

	while (outcome == OUTCOME_BUSY && clock_boot_ms() < until_ms) {
		int64_t next_ms = clock_earlier(grant->retry_ms, until_ms);

		while (clock_boot_ms() < next_ms &&
		       !net_wait(waiter->ops->fd ? waiter->ops->fd(waiter) : -1, POLLIN, next_ms,
				 -1, &ignored))
			next_ms = clock_earlier(next_ms, waiter->ops->event(waiter));
		outcome = hold_acquire(waiter, request, grant, err);
	}
	if (outcome == OUTCOME_ERROR)
		return;
	if (outcome == OUTCOME_HELD && clock_boot_ms() < until_ms)
		findings_add(findings, FINDING_OK, "waiter", NULL, "got the lock %" PRId64
			     " ms after its release", clock_boot_ms() - start_ms);
	else
		findings_add(findings, FINDING_WARNING, "waiter", "give this user all permissions "
			     "in the manual page (on Redis: publish, and the channels), and use "
			     "no proxy that drops them",
			     "no release wakes a waiter, which checks the lock each %d s",
			     HOLD_RETRY_MS / 1000);
}

/*
 * Take the lock dlock-check over a new connection, and release it. Unless findings is NULL, add
 * the finding "probe" with the time of both, and let a second client wait for the lock. Returns 0,
 * or -1 with *err: the backend cannot hold locks, or the account may not.
 */
static int take_probe(struct session *session, struct findings *findings, struct error *err)
{
	char token[TOKEN_SIZE], second_token[TOKEN_SIZE], text[HOLDER_TEXT_SIZE];
	struct request request = { .name = PROBE_NAME, .token = token, .text = text,
				   .ttl_ms = session->options.run.ttl_ms };
	int64_t start_us, taken_us, released_us;
	struct backend *waiter = NULL;
	struct request second;
	struct holder self;
	struct grant grant;
	struct error why = { 0 }, ignored;

	session_disconnect(session);
	start_us = clock_read_us(CLOCK_BOOTTIME);
	if (session_connect(session, err) || token_make_random(token, err) ||
	    token_make_random(second_token, err))
		return -1;
	/* A semaphore has no exclusive holds. */
	if (session->backend->can == BACKEND_SLOTS)
		request.mode = HOLD_SLOT, request.slots = 1;
	holder_self(&self, "dlock check");
	holder_encode(&self, text);
	if (acquire_probe(session->backend, &request, &grant, err) != OUTCOME_HELD) {
		/* After a lost reply the backend may hold the lock. */
		hold_release(session->backend, &request, &self, 0, 0, &ignored);
		return -1;
	}
	taken_us = clock_read_us(CLOCK_BOOTTIME) - start_us;
	second = request;
	second.token = second_token;
	second.queue = true;
	if (findings && !session->options.run.driver->local)
		waiter = backend_open(session->options.run.driver, &session->settings.uri, NULL,
				      &why);
	if (waiter)
		hold_acquire(waiter, &second, &grant, &why);
	/* A loss without an error: the backend was too slow for a short --ttl. */
	*err = (struct error){ 0 };
	start_us = clock_read_us(CLOCK_BOOTTIME);
	hold_release(session->backend, &request, &self, 0, 0, err);
	released_us = clock_read_us(CLOCK_BOOTTIME) - start_us;
	if (findings && !err->kind)
		findings_add(findings, FINDING_OK, "probe", NULL, "acquired a lock in %.2f ms, "
			     "connection included, and released it in %.2f ms",
			     (double)taken_us / 1000, (double)released_us / 1000);
	if (waiter && !err->kind && !why.kind)
		await_waiter(waiter, &second, &grant, findings, &why);
	if (waiter)
		hold_release(waiter, &second, &self, 0, 0, &ignored);
	backend_close(waiter);
	if (!err->kind && why.kind == ERROR_UNAVAILABLE)
		findings_add(findings, FINDING_WARNING, "waiter", NULL, "cannot wait: %.200s",
			     why.message);
	else if (!err->kind)
		*err = why;
	return err->kind ? -1 : 0;
}

static void check_secrets(const struct session *session, struct findings *findings)
{
	if (session->settings.exposed)
		findings_add(findings, FINDING_WARNING, "password", "chmod 600 it",
			     "others can read that in %.200s", session->settings.exposed);
	else if (session->options.password_in_argv && session->settings.uri.password &&
		 !uri_param(&session->settings.uri, "password-file"))
		findings_add(findings, FINDING_NOTE, "password",
			     "put it into a file, and name that with ?password-file=",
			     "is on the command line: ps shows it until dlock has hidden it, "
			     "and the shell's history keeps it");
	else if (session->settings.uri.password)
		findings_add(findings, FINDING_OK, "password", NULL,
			     "not readable by others");
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
	check_secrets(session, &findings);
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
	if (session->options.run.driver->local && take_probe(session, NULL, err))
		return error_prefix(err, "%s cannot hold locks", location);
	log_print(LEVEL_STEP, "%s is ready", location);
	return 0;
}
