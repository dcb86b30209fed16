/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/hold.h"
#include "lock/name.h"
#include "lock/token.h"
#include "exit_status.h"
#include "log.h"

/* One name for all probes, so that each leaves no more behind than its last fence. */
#define PROBE_NAME "dlock-check"
#define PROBE_PAUSE_US 20000

struct backend *session_open(const struct session *session, struct error *err)
{
	return backend_open(session->settings.driver, &session->settings.uri, err);
}

int session_connect(struct session *session, struct error *err)
{
	if (!session->backend)
		session->backend = session_open(session, err);
	return session->backend ? 0 : -1;
}

/* Another probe may have the lock at this moment. */
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

int session_probe(struct session *session, int64_t *taken_us, int64_t *released_us,
		  struct error *err)
{
	char token[TOKEN_SIZE], text[HOLDER_TEXT_SIZE];
	struct request request = { .name = PROBE_NAME, .token = token, .text = text,
				   .ttl_ms = session->settings.ttl_ms };
	struct backend *backend = session_open(session, err);
	const int64_t start_us = clock_read_us(CLOCK_BOOTTIME);
	struct holder self;
	struct grant grant;
	int failed = -1;

	if (!backend || token_make_random(token, err))
		goto out;
	/* A semaphore has no exclusive holds. */
	if (backend->can == BACKEND_SLOTS)
		request.mode = HOLD_SLOT, request.slots = 1;
	holder_self(&self, "dlock check");
	holder_encode(&self, text);
	if (acquire_probe(backend, &request, &grant, err) != OUTCOME_HELD)
		goto out;
	*taken_us = clock_read_us(CLOCK_BOOTTIME) - start_us;
	if (hold_release(backend, &request, &self, 0, 0, err) == OUTCOME_ERROR)
		goto out;
	*released_us = clock_read_us(CLOCK_BOOTTIME) - start_us - *taken_us;
	failed = 0;
out:
	backend_close(backend);
	return failed;
}

void session_hide_token(const struct session *session)
{
	const struct options *options = &session->options;

	if (session->command->bit & (COMMAND_RENEW | COMMAND_VERIFY | COMMAND_RELEASE) &&
	    options->operand_count > 1)
		memset(options->operands[1], '*', strlen(options->operands[1]));
}

/*
 * Fork, because a client library may crash on what a server answers. Returns -1 in the child, which
 * does the work, and the exit status in the parent.
 */
static int work_apart(struct session *session, struct error *err)
{
	const pid_t parent = getpid(), pid = fork();
	char place[URI_PLACE_SIZE];
	int end;

	if (pid < 0) {
		error_set(err, ERROR_INTERNAL, errno, "cannot start a process");
		return log_fail(err);
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_DLOCK);
		return -1;
	}
	session_hide_token(session);
	while (waitpid(pid, &end, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(end))
		return WEXITSTATUS(end);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: the client library crashed (signal %d) on the "
		  "server's answer", settings_place(&session->settings, place), WTERMSIG(end));
	return log_fail(err);
}

int session_run(const struct command *command, const struct options *options)
{
	struct session session = { .command = command, .options = *options };
	struct error err = { 0 };
	int status = -1;

	if (command->least)
		session.name = options->operands[0];
	if ((!session.name || !name_check(session.name, &err)) &&
	    !settings_load(&session.settings, &session.options, &err)) {
		log_about(session.name, &session.settings,
			  command->bit == COMMAND_ACQUIRE && session.settings.syslog);
		if (session.settings.warning[0])
			log_say(SAY_WARNING, "%s", session.settings.warning);
		/* The keeper of acquire is a child already, and getppid() must be the caller. */
		if (session.settings.driver->module && command->bit != COMMAND_ACQUIRE)
			status = work_apart(&session, &err);
		if (status < 0)
			status = command->work(&session, &err);
	}
	if (status < 0)
		status = log_fail(&err);
	backend_close(session.backend);
	settings_finish(&session.settings);
	return status;
}
