/* SPDX-License-Identifier: MIT */
#include "environment.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "procstat.h"
#include "proctree.h"

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
static char **make(const char *const values[static HOLD_VARIABLES], char **last,
		   struct error *err)
{
	size_t count = 0, used = 0, bytes = ENVIRONMENT_FENCE_SIZE;
	char **envp, *text;

	while (environ && environ[count])
		count++;
	for (size_t i = 0; i < HOLD_VARIABLES; i++)
		if (values[i])
			bytes += strlen(hold_variables[i]) + strlen(values[i]) + 1;
	envp = malloc((count + HOLD_VARIABLES + 1) * sizeof(*envp) + bytes);
	if (!envp) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return NULL;
	}
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

char **environment_make(const char *name, const char *token, const char *backend,
			char **fence_text, struct error *err)
{
	/* The fence stands last: its digits come later. */
	const char *const values[HOLD_VARIABLES] = { name, token, backend, "" };

	return make(values, fence_text, err);
}

char **environment_make_bare(const char *name, const char *backend, struct error *err)
{
	const char *const values[HOLD_VARIABLES] = { name, NULL, backend, NULL };
	char *last;

	return make(values, &last, err);
}

/* One process's environment, as exec gave it to it. */
struct environment {
	char *text;
	size_t length;
};

static bool read_environment(pid_t pid, struct environment *env)
{
	char path[40];
	size_t room = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	*env = (struct environment){ 0 };
	do {
		if (room - env->length < 2) {
			char *text = realloc(env->text, room + 16384);

			if (!text)
				break;
			env->text = text;
			room += 16384;
		}
		got = read(fd, env->text + env->length, room - env->length - 1);
		if (got > 0)
			env->length += (size_t)got;
	} while (got > 0);
	close(fd);
	if (env->text)
		env->text[env->length] = '\0';
	return env->text != NULL;
}

static const char *lookup(const struct environment *env, const char *variable)
{
	size_t length = strlen(variable);

	for (size_t at = 0; at < env->length; at += strlen(env->text + at) + 1)
		if (!strncmp(env->text + at, variable, length))
			return env->text + at + length;
	return "";
}

static pid_t parent_of(pid_t pid)
{
	struct procstat stat;
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return procstat_read(text, &stat) ? stat.parent : 0;
}

/* Takes over the hold that env tells of, if it is the one. */
static bool adopt(const struct environment *env, const char *name, const char *backend,
		  char token[static TOKEN_SIZE])
{
	const char *found = lookup(env, "DLOCK_TOKEN=");

	if (!token_valid(found) || strcmp(lookup(env, "DLOCK_NAME="), name) != 0 ||
	    strcmp(lookup(env, "DLOCK_BACKEND="), backend) != 0)
		return false;
	memcpy(token, found, TOKEN_SIZE);
	setenv("DLOCK_NAME", name, 1);
	setenv("DLOCK_TOKEN", token, 1);
	setenv("DLOCK_FENCE", lookup(env, "DLOCK_FENCE="), 1);
	return true;
}

/* Does this process' own environment tell of the one? It is there without /proc. */
static bool tells_of(const char *name, const char *backend, char token[static TOKEN_SIZE])
{
	const char *found = getenv("DLOCK_TOKEN"), *of = getenv("DLOCK_NAME");
	const char *on = getenv("DLOCK_BACKEND");

	if (!found || !token_valid(found) || !of || strcmp(of, name) != 0 || !on ||
	    strcmp(on, backend) != 0)
		return false;
	memcpy(token, found, TOKEN_SIZE);
	return true;
}

int environment_find_hold(const char *name, const char *backend,
			  char token[static TOKEN_SIZE])
{
	struct environment env;
	bool found = false;

	/* Nothing holds anything above us: the common case costs one look-up. */
	if (!getenv("DLOCK_TOKEN"))
		return 0;
	if (tells_of(name, backend, token))
		return 1;
	/*
	 * Each level of nesting overwrites the last one's: look further up for it. Not in the
	 * /proc of another PID namespace, where it might be found with a stranger.
	 */
	if (!proctree_available())
		return 0;
	for (pid_t pid = getppid(); pid > 0 && !found; pid = parent_of(pid)) {
		if (!read_environment(pid, &env))
			break;
		found = adopt(&env, name, backend, token);
		free(env.text);
	}
	return found;
}

int environment_token(const char *name, char token[static TOKEN_SIZE])
{
	const char *found = getenv("DLOCK_TOKEN"), *of = getenv("DLOCK_NAME");

	if (!found || !token_valid(found) || (of && of[0] && strcmp(of, name) != 0))
		return 0;
	memcpy(token, found, TOKEN_SIZE);
	return 1;
}
