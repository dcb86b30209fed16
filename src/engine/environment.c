/* SPDX-License-Identifier: MIT */
/* Writes the hold into the environment of the command, and finds an outer hold there. */
#include "environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

/* The entry of the fence, whose digits come later. */
#define FENCE "DLOCK_FENCE="
static char fence_entry[sizeof(FENCE) + TEXT_DIGITS_SIZE] = FENCE;

static void set_variable(const char *variable, const char *value)
{
	/* There may be several with this name, and setenv() changes only the first one. */
	unsetenv(variable);
	if (setenv(variable, value, 1))
		memory_exit();
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

void environment_set_hold(const char *name, const char *backend, const char *token, int level)
{
	char text[TOKEN_TEXT_SIZE], *tokens;

	token_write(token, level, text);
	tokens = list_tokens(text);
	set_variable("DLOCK_NAME", name);
	set_variable("DLOCK_BACKEND", backend);
	set_variable("DLOCK_TOKEN", text);
	set_variable("DLOCK_OUTER", tokens);
	unsetenv("DLOCK_FENCE");
	if (putenv(fence_entry))
		memory_exit();
	free(tokens);
}

void environment_write_fence(uint64_t fence)
{
	if (fence)
		text_digits(fence_entry + strlen(FENCE), fence);
}

void environment_drop_hold(bool with_fence)
{
	char *outer = getenv("DLOCK_OUTER"), *rest = outer ? strchr(outer, ' ') : NULL;

	unsetenv("DLOCK_TOKEN");
	if (rest)
		memmove(outer, rest + 1, strlen(rest + 1) + 1);
	else
		unsetenv("DLOCK_OUTER");
	if (with_fence)
		unsetenv("DLOCK_FENCE");
}

int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err)
{
	char found[TOKEN_SIZE], *tokens, *next, *text;
	enum token_scope found_scope;
	struct error ignored;
	int found_level;

	*level = 0;
	*scope = TOKEN_OF_OTHER;
	if (get_env("DLOCK_TOKEN")[0] &&
	    token_read(get_env("DLOCK_TOKEN"), found, &found_level, err))
		return error_prefix(err, "DLOCK_TOKEN");
	tokens = next = memory_format("%s %s", get_env("DLOCK_TOKEN"), get_env("DLOCK_OUTER"));
	while ((text = strsep(&next, " "))) {
		if (token_read(text, found, &found_level, &ignored))
			continue;
		/* Only a better match replaces the innermost one. */
		found_scope = token_scope(found, name, backend);
		if (found_scope <= *scope)
			continue;
		*scope = found_scope;
		*level = found_level;
		memcpy(token, found, TOKEN_SIZE);
	}
	free(tokens);
	return 0;
}
