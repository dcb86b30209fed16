/* SPDX-License-Identifier: MIT */
#include "environment.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"

static const char *const hold_variables[] = {
	"DLOCK_NAME=", "DLOCK_TOKEN=", "DLOCK_BACKEND=", "DLOCK_FENCE=",
};

#define HOLD_VARIABLES (sizeof(hold_variables) / sizeof(hold_variables[0]))

static bool is_hold_variable(const char *entry)
{
	for (size_t i = 0; i < HOLD_VARIABLES; i++)
		if (!strncmp(entry, hold_variables[i], strlen(hold_variables[i])))
			return true;
	return false;
}

/* Our environment with these variables instead of what it says of a hold. */
static char **make(const char *const values[static HOLD_VARIABLES], char **last)
{
	size_t count = 0, used = 0, bytes = ENVIRONMENT_FENCE_SIZE;
	char **envp, *text;

	while (environ && environ[count])
		count++;
	for (size_t i = 0; i < HOLD_VARIABLES; i++)
		if (values[i])
			bytes += strlen(hold_variables[i]) + strlen(values[i]) + 1;
	envp = memory_new(1, (count + HOLD_VARIABLES + 1) * sizeof(*envp) + bytes);
	text = (char *)(envp + count + HOLD_VARIABLES + 1);
	for (size_t i = 0; i < count; i++)
		if (!is_hold_variable(environ[i]))
			envp[used++] = environ[i];
	for (size_t i = 0; i < HOLD_VARIABLES; i++) {
		if (!values[i])
			continue;
		envp[used++] = text;
		text = stpcpy(stpcpy(text, hold_variables[i]), values[i]);
		*last = text++;
	}
	envp[used] = NULL;
	return envp;
}

char **environment_make(const char *name, const char token[static TOKEN_SIZE], int level,
			const char *backend, char **fence_text)
{
	char text[TOKEN_TEXT_SIZE];
	/* The fence stands last: its digits come later. */
	const char *const values[HOLD_VARIABLES] = { name, text, backend, "" };

	token_write(token, level, text);
	return make(values, fence_text);
}

char **environment_make_bare(const char *name, const char *backend)
{
	const char *const values[HOLD_VARIABLES] = { name, NULL, backend, NULL };
	char *last;

	return make(values, &last);
}

/* The environment that exec gave to a process: strings, each ended by a NUL. */
struct strings {
	char *text;
	size_t length;
};

/* False: the environment cannot be read. */
static bool read_environment(pid_t pid, struct strings *env)
{
	char path[40];
	size_t room = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	*env = (struct strings){ 0 };
	do {
		if (room - env->length < 2) {
			room += 16384;
			env->text = memory_resize(env->text, room, 1);
		}
		got = read(fd, env->text + env->length, room - env->length - 1);
		if (got > 0)
			env->length += (size_t)got;
	} while (got > 0);
	close(fd);
	env->text[env->length] = '\0';
	return true;
}

static const char *lookup(const struct strings *env, const char *variable)
{
	size_t length = strlen(variable);

	for (size_t at = 0; at < env->length; at += strlen(env->text + at) + 1)
		if (!strncmp(env->text + at, variable, length))
			return env->text + at + length;
	return "";
}

/* A variable of our own environment; "" if it is not set. */
static const char *own(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : "";
}

/* What find_token() looks for, and the best that it has found. */
struct search {
	const char *name;
	uint64_t backend;
	char *token;
	int level;
	enum token_scope scope;
};

/*
 * Takes over a token if it says more of the lock than the one that was found before. 0, or -1 with
 * *err: it is malformed.
 */
static int adopt(struct search *search, const char *text, const char *name, const char *fence,
		 struct error *err)
{
	enum token_scope scope;
	char token[TOKEN_SIZE];
	int level;

	if (token_read(text, token, &level, err))
		return -1;
	scope = token_scope(token, search->name, search->backend);
	if (scope <= search->scope)
		return 0;
	search->scope = scope;
	search->level = level;
	memcpy(search->token, token, TOKEN_SIZE);
	/* A token that was set by hand may stand beside the fence of another lock. */
	setenv("DLOCK_FENCE", strcmp(name, search->name) ? "" : fence, 1);
	return 0;
}

int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err)
{
	struct search search = { .name = name, .backend = backend, .token = token,
				 .scope = TOKEN_OF_OTHER };
	struct error ignored = { 0 };
	struct strings env;

	*level = 0;
	*scope = TOKEN_OF_OTHER;
	/* Nothing holds anything above us: the common case costs one look-up. */
	if (!own("DLOCK_TOKEN")[0])
		return 0;
	if (adopt(&search, own("DLOCK_TOKEN"), own("DLOCK_NAME"), own("DLOCK_FENCE"), err))
		return error_prefix(err, "DLOCK_TOKEN");
	/* In the /proc of another PID namespace a stranger might have our parent's number. */
	for (pid_t pid = process_proc_usable() ? getppid() : 0;
	     pid > 0 && search.scope != TOKEN_OF_LOCK && read_environment(pid, &env);
	     pid = process_parent(pid)) {
		adopt(&search, lookup(&env, "DLOCK_TOKEN="), lookup(&env, "DLOCK_NAME="),
		      lookup(&env, "DLOCK_FENCE="), &ignored);
		free(env.text);
	}
	*level = search.level;
	*scope = search.scope;
	return 0;
}

uint64_t environment_fence(void)
{
	return strtoull(own("DLOCK_FENCE"), NULL, 10);
}
