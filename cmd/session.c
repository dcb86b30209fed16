/* SPDX-License-Identifier: MIT */
/* Runs a command over a session, in a child process when a client library does the work. */
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/name.h"
#include "log.h"

struct backend *session_open(const struct session *session, struct error *err)
{
	return backend_open(session->options.run.driver, &session->settings.uri, NULL, err);
}

int session_connect(struct session *session, struct error *err)
{
	if (!session->backend)
		session->backend = session_open(session, err);
	return session->backend ? 0 : -1;
}

void session_hide_token(const struct session *session)
{
	const struct options *options = &session->options;

	if (session->command->bit & (COMMAND_RENEW | COMMAND_VERIFY | COMMAND_RELEASE) &&
	    options->operand_count > 1)
		memset(options->operands[1], '*', strlen(options->operands[1]));
}

/*
 * Fork, because a client library may crash on a server's reply. Returns -1 in the child, which does
 * the work, and the exit status in the parent.
 */
static int work_apart(struct session *session, struct error *err)
{
	const pid_t parent = getpid(), pid = fork();
	char location[URI_LOCATION_SIZE];
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
		  "server's answer", settings_location(&session->options, location), WTERMSIG(end));
	return log_fail(err);
}

int session_begin(struct session *session, struct error *err)
{
	const bool holds = session->command->bit & (COMMAND_RUN | COMMAND_ACQUIRE);

	session->options.run.name = session->name;
	if (settings_load(&session->settings, &session->options, err))
		return -1;
	log_about(&session->options, holds && session->settings.syslog);
	if (session->settings.warning[0])
		log_print(LEVEL_WARNING, "%s", session->settings.warning);
	return 0;
}

int session_run(const struct command *command, const struct options *options)
{
	struct session session = { .command = command, .options = *options };
	struct error err = { 0 };
	int status = -1;

	if (command->least)
		session.name = options->operands[0];
	if ((!session.name || !name_check(session.name, &err)) && !session_begin(&session, &err)) {
		/* The keeper of acquire is a child already, and getppid() must be the caller. */
		if (session.options.run.driver->module && command->bit != COMMAND_ACQUIRE)
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
