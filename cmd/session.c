/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/name.h"
#include "lock/token.h"
#include "exit_status.h"
#include "log.h"
#include "output.h"

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

int session_probe(struct session *session, int64_t *taken_us, int64_t *released_us,
		  struct error *err)
{
	char token[TOKEN_SIZE], name[64];
	struct request request = { .name = name, .token = token,
				   .ttl_ms = session->settings.ttl_ms, .forget = true };
	struct backend *backend = session_open(session, err);
	struct grant grant = { 0 };
	const int64_t start_us = clock_read_us(CLOCK_BOOTTIME);
	int failed = -1;

	if (!backend || token_make_random(token, err))
		goto out;
	/* The name is new each time: two probes at once must not wait for each other. */
	snprintf(name, sizeof(name), "dlock-check-probe-%.16s", token);
	holder_self(&request.self, "dlock check");
	if (backend_grant(backend->ops->acquire, backend, &request, &grant, err) != OUTCOME_HELD)
		goto out;
	*taken_us = clock_read_us(CLOCK_BOOTTIME) - start_us;
	if (backend->ops->release(backend, &request, 0, err) == OUTCOME_ERROR)
		goto out;
	*released_us = clock_read_us(CLOCK_BOOTTIME) - start_us - *taken_us;
	failed = 0;
out:
	backend_close(backend);
	return failed;
}

void session_say(const struct session *session, enum say level, const char *format, ...)
{
	char text[1200];
	va_list args;

	if (level < log_least(session->options.verbosity))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_text(level, session->name, text);
}

/* A wrong command line concerns no lock, so that its message does not begin with a name. */
static int report(const struct session *session, const struct error *err)
{
	if (err->kind == ERROR_USAGE)
		return complain(err);
	log_text(SAY_ERROR, session->name, err->message);
	return exit_status_of(err);
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
		return report(session, err);
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
	return report(session, err);
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
		if (session.settings.warning[0])
			session_say(&session, SAY_WARNING, "%s", session.settings.warning);
		/* The keeper of acquire is a child already, and getppid() must be the caller. */
		if (session.settings.driver->module && command->bit != COMMAND_ACQUIRE)
			status = work_apart(&session, &err);
		if (status < 0)
			status = command->work(&session, &err);
	}
	if (status < 0)
		status = report(&session, &err);
	backend_close(session.backend);
	settings_finish(&session.settings);
	return status;
}
