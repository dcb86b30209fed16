/* SPDX-License-Identifier: MIT */
/* Runs a command over a session. */
#include "session.h"

#include <fnmatch.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lock/hold.h"

int session_connect(struct session *session, struct error *err)
{
	if (!session->backend)
		session->backend = backend_open(session->options.run.driver,
						&session->settings.uri, NULL, err);
	return session->backend ? 0 : -1;
}

void session_disconnect(struct session *session)
{
	backend_close(session->backend);
	session->backend = NULL;
}

void session_choose(struct session *session, const char *name)
{
	/* One lock, as most commands have it, keeps its connection. */
	if (session->options.run.name == name)
		return;
	session_disconnect(session);
	session->options.run.name = name;
	log_about(name, session->settings.location, false);
}

int session_view(struct session *session)
{
	struct locks *locks = &session->locks;
	char **names = locks->names.names;
	struct error err;
	size_t read = 0;
	int status = 0;

	locks->held = 0;
	locks->views = memory_new(locks->names.count, sizeof(*locks->views));
	for (size_t i = 0; i < locks->names.count; i++) {
		session_choose(session, names[i]);
		if (!session_connect(session, &err) &&
		    !hold_show(session->backend, names[i], "", &locks->views[read], &err)) {
			locks->held += locks->views[read].hold_count > 0;
			names[read++] = names[i];
			continue;
		}
		status = log_fail(&err);
		session_choose(session, NULL);
		free(names[i]);
	}
	locks->names.count = read;
	return status;
}

int session_names(struct session *session, struct error *err)
{
	const struct options *options = &session->options;
	struct name_list *names = &session->locks.names;
	struct name_list all = { 0 };
	bool listed = false;

	/* So that ? is one character: names are UTF-8, whatever the locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	for (int i = 0; i < options->operand_count; i++) {
		const char *word = options->operands[i];
		const size_t before = names->count;
		bool pattern = strpbrk(word, "*?[");

		if (pattern && !listed) {
			if (session_connect(session, err) ||
			    hold_names(session->backend, &all, err))
				return error_prefix(err, "a pattern needs the list of all locks");
			listed = true;
		}
		for (size_t k = 0; pattern && k < all.count; k++)
			pattern = strcmp(all.names[k], word) != 0;
		for (size_t k = 0; pattern && k < all.count; k++)
			if (!fnmatch(word, all.names[k], 0))
				name_list_add(names, all.names[k], strlen(all.names[k]));
		if (names->count == before)
			name_list_add(names, word, strlen(word));
	}
	if (listed)
		name_list_sort(names);
	name_list_finish(&all);
	return 0;
}

int session_begin(struct session *session, struct error *err)
{
	const bool holds = session->command->bit & (COMMAND_RUN | COMMAND_ACQUIRE);

	if (settings_load(&session->settings, &session->options, err))
		return -1;
	log_about(session->options.run.name, session->settings.location,
		  holds && session->options.syslog);
	if (session->settings.exposed)
		log_print(LEVEL_WARNING, "%.300s: others can read the password in it; chmod 600 it",
			  session->settings.exposed);
	return 0;
}

int session_run(const struct command *command, const struct options *options)
{
	/* Kept to the end of the process: the last messages have the name of a lock in it. */
	static struct session session;
	struct error err = { 0 };
	char *token;
	int status = -1;

	session = (struct session){ .command = command, .options = *options };
	if (command->least && command->most != INT_MAX)
		session.options.run.name = options->operands[0];
	/* Move the token of renew, verify and release out of argv: others can read that with ps. */
	if (command->most == 2 && options->operand_count == 2) {
		token = options->operands[1];
		session.options.operands[1] = memory_copy(token);
		memset(token, '*', strlen(token));
	}
	if (command->bare || !session_begin(&session, &err))
		status = command->work(&session, &err);
	if (status < 0)
		status = log_fail(&err);
	backend_close(session.backend);
	return status;
}
