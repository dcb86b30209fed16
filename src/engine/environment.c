/* SPDX-License-Identifier: MIT */
/* Writes the hold into the environment of the command, and finds an outer hold there. */
#include "environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

static const char *const hold_variables[] = {
	"DLOCK_NAME=", "DLOCK_TOKEN=", "DLOCK_BACKEND=", "DLOCK_OUTER=", "DLOCK_FENCE=",
};

#define HOLD_VARIABLES (sizeof(hold_variables) / sizeof(hold_variables[0]))

static bool is_hold_variable(const char *entry)
{
	for (size_t i = 0; i < HOLD_VARIABLES; i++)
		if (!strncmp(entry, hold_variables[i], strlen(hold_variables[i])))
			return true;
	return false;
}

/* Copy our environment with these variables instead of those of an outer hold. */
static char **make_environment(const char *const values[static HOLD_VARIABLES], char **last)
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

/* Return a variable of our environment; "": it is not set. */
static const char *get_env(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : "";
}

/*
 * Write the tokens for DLOCK_OUTER, the innermost one first: this one; that of $DLOCK_TOKEN if a
 * script has set it after `dlock acquire`; and the outer ones.
 */
static char *list_tokens(const char *token)
{
	const char *const inner = get_env("DLOCK_TOKEN"), *outer = get_env("DLOCK_OUTER");
	const size_t first = strcspn(outer, " ");
	const bool listed = strlen(inner) == first && !strncmp(inner, outer, first);

	return memory_format("%s%s%s%s%s", token, listed ? "" : " ", listed ? "" : inner,
			     *outer ? " " : "", outer);
}

char **environment_make(const char *name, const char *token, int level, const char *backend,
			char **fence_text)
{
	const char *values[HOLD_VARIABLES] = { name, NULL, backend, NULL, NULL };
	char text[TOKEN_TEXT_SIZE], *tokens = NULL, **envp;

	if (token) {
		token_write(token, level, text);
		tokens = list_tokens(text);
		values[1] = text;
		values[3] = tokens;
		/* The fence is last, because its digits come later. */
		values[4] = "";
	}
	envp = make_environment(values, fence_text);
	free(tokens);
	return envp;
}

/* The search of environment_find_token(), and the best token so far. */
struct search {
	const char *name;
	uint64_t backend;
	char *token;
	int level;
	enum token_scope scope;
};

/* Use a token if it matches the lock better than the one that was found before. */
static void adopt_token(struct search *search, const char token[static TOKEN_SIZE], int level)
{
	const enum token_scope scope = token_scope(token, search->name, search->backend);

	if (scope <= search->scope)
		return;
	search->scope = scope;
	search->level = level;
	memcpy(search->token, token, TOKEN_SIZE);
}

static void search_outer(struct search *search)
{
	char *outer = memory_copy(get_env("DLOCK_OUTER")), *next = outer, *text, token[TOKEN_SIZE];
	struct error ignored;
	int level;

	while ((text = strsep(&next, " ")))
		if (!token_read(text, token, &level, &ignored))
			adopt_token(search, token, level);
	free(outer);
}

int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err)
{
	struct search search = { .name = name, .backend = backend, .token = token,
				 .scope = TOKEN_OF_OTHER };
	char inner[TOKEN_SIZE];

	*level = 0;
	*scope = TOKEN_OF_OTHER;
	if (!get_env("DLOCK_TOKEN")[0])
		return 0;
	if (token_read(get_env("DLOCK_TOKEN"), inner, level, err))
		return error_prefix(err, "DLOCK_TOKEN");
	adopt_token(&search, inner, *level);
	search_outer(&search);
	*level = search.level;
	*scope = search.scope;
	return 0;
}
