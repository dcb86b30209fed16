/* SPDX-License-Identifier: MIT */
#include "environment.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/procstat.h"
#include "base/proctable.h"
#include "lock/name.h"

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

char **environment_make(const char *name, const char *token, const char *backend,
			char **fence_text)
{
	/* The fence stands last: its digits come later. */
	const char *const values[HOLD_VARIABLES] = { name, token, backend, "" };

	return make(values, fence_text);
}

char **environment_make_bare(const char *name, const char *backend)
{
	const char *const values[HOLD_VARIABLES] = { name, NULL, backend, NULL };
	char *last;

	return make(values, &last);
}

/* A list of strings, each ended by a NUL, that the kernel tells of a process. */
struct strings {
	char *text;
	size_t length;
};

/* What: "environ", as exec gave it to the process, or "cmdline". False: it cannot be read. */
static bool read_strings(pid_t pid, const char *what, struct strings *strings)
{
	char path[40];
	size_t room = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	*strings = (struct strings){ 0 };
	do {
		if (room - strings->length < 2) {
			room += 16384;
			strings->text = memory_resize(strings->text, room, 1);
		}
		got = read(fd, strings->text + strings->length, room - strings->length - 1);
		if (got > 0)
			strings->length += (size_t)got;
	} while (got > 0);
	close(fd);
	if (strings->text)
		strings->text[strings->length] = '\0';
	return strings->text != NULL;
}

static const char *lookup(const struct strings *env, const char *variable)
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

	return procstat_read(pid, &stat) ? stat.parent : 0;
}

static enum environment_hold tells(const struct strings *env, const char *name,
				   const char *backend)
{
	const char *of = lookup(env, "DLOCK_NAME=");

	if (!token_valid(lookup(env, "DLOCK_TOKEN=")) || (of[0] && strcmp(of, name) != 0))
		return ENVIRONMENT_NONE;
	return of[0] && !strcmp(lookup(env, "DLOCK_BACKEND="), backend) ? ENVIRONMENT_HOLD
									 : ENVIRONMENT_TOKEN;
}

/* Takes over the hold that env tells of. A fence without a name may be another lock's. */
static void adopt(const struct strings *env, char token[static TOKEN_SIZE])
{
	memcpy(token, lookup(env, "DLOCK_TOKEN="), TOKEN_SIZE);
	setenv("DLOCK_FENCE", lookup(env, "DLOCK_NAME=")[0] ? lookup(env, "DLOCK_FENCE=") : "", 1);
}

/* Of this process alone, which knows its own environment without /proc. */
static enum environment_hold own_hold(const char *name, const char *backend,
				      char token[static TOKEN_SIZE])
{
	const char *of = getenv("DLOCK_NAME"), *on = getenv("DLOCK_BACKEND");

	if (!environment_token(name, token))
		return ENVIRONMENT_NONE;
	return of && of[0] && on && !strcmp(on, backend) ? ENVIRONMENT_HOLD : ENVIRONMENT_TOKEN;
}

enum environment_hold environment_find_hold(const char *name, const char *backend,
					    char token[static TOKEN_SIZE])
{
	enum environment_hold found = ENVIRONMENT_NONE, told;
	struct strings env;

	/* Nothing holds anything above us: the common case costs one look-up. */
	if (!getenv("DLOCK_TOKEN"))
		return ENVIRONMENT_NONE;
	/* In the /proc of another PID namespace a stranger might have our parent's number. */
	if (!proctable_usable())
		return own_hold(name, backend, token);
	for (pid_t pid = getpid(); pid > 0 && found != ENVIRONMENT_HOLD; pid = parent_of(pid)) {
		if (!read_strings(pid, "environ", &env))
			break;
		told = tells(&env, name, backend);
		/* Of several tokens without a name, the nearest. */
		if (told > found) {
			adopt(&env, token);
			found = told;
		}
		free(env.text);
	}
	return found;
}

/*
 * Do these arguments of dlock name this lock: as an operand or, for a run without one, by
 * the command behind "--" that its name is derived of?
 */
static bool arguments_name(const struct strings *arguments, const char *name)
{
	char derived[NAME_DERIVED_SIZE];
	const char **command = NULL;
	size_t count = 0;
	bool found = false;

	for (size_t at = 0; at < arguments->length; at += strlen(arguments->text + at) + 1) {
		const char *argument = arguments->text + at;

		if (command)
			command[count++] = argument;
		else if (!strcmp(argument, name))
			found = true;
		else if (!strcmp(argument, "--"))
			command = memory_new(arguments->length - at, sizeof(*command));
	}
	if (!found && count) {
		name_derive(command, derived);
		found = !strcmp(derived, name);
	}
	free(command);
	return found;
}

/* Is this process one of a `dlock run` for name? What it is called says so, and its arguments. */
static bool runs_for(pid_t pid, const char *name)
{
	struct strings called, arguments;
	bool dlock, found = false;

	if (!read_strings(pid, "comm", &called))
		return false;
	dlock = !strncmp(called.text, "dlock", strlen("dlock"));
	free(called.text);
	if (!dlock || !read_strings(pid, "cmdline", &arguments))
		return false;
	found = arguments_name(&arguments, name);
	free(arguments.text);
	return found;
}

bool environment_is_guarded(const char *name, const char *backend, const char *token)
{
	struct strings env;
	bool found = false;

	/* Then no forebear can be seen: what the token tells must do. */
	if (!proctable_usable())
		return token_is_of_run(token);
	for (pid_t pid = getpid(), parent; pid > 0 && !found; pid = parent) {
		parent = parent_of(pid);
		if (parent <= 0 || !runs_for(parent, name))
			continue;
		/* sudo: the command is another user's. Its dlock is still the one of that name. */
		if (!read_strings(pid, "environ", &env))
			return true;
		found = tells(&env, name, backend) == ENVIRONMENT_HOLD &&
			!strcmp(lookup(&env, "DLOCK_TOKEN="), token);
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
