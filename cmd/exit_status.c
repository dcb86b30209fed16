/* SPDX-License-Identifier: MIT */
#include "exit_status.h"

#include <stddef.h>

#include "base/error.h"

const struct exit_status_row exit_status_rows[] = {
	{ "0-255", "the command's own: it ran, and the lock was held throughout" },
	{ "128+N", "signal N killed the command; the lock was held throughout" },
	{ "121", "the command was stopped by --max-run or --until" },
	{ "122", "the backend cannot be reached, or refuses" },
	{ "123", "the lock was lost while it was held" },
	{ "124", "the lock was not obtained in time, or with -n at once (see -E)" },
	{ "125", "dlock itself failed: usage, configuration, internal error" },
	{ "126", "the command could not be executed" },
	{ "127", "the command was not found" },
	{ NULL, NULL },
};

int exit_status_of(const struct error *err)
{
	return err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_REFUSED ? EXIT_UNAVAILABLE
									    : EXIT_DLOCK;
}
