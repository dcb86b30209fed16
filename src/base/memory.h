/* SPDX-License-Identifier: MIT */
/*
 * Allocates memory. When the system has none left, these functions end the process with a line on
 * stderr and status MEMORY_EXIT_STATUS, without running anything else. So no caller checks their
 * results. All memory is freed with free().
 *
 * Ending the process is right in every process of dlock, because the others are built to survive
 * its sudden death, and a process that ends here is like one that was killed:
 *
 *	a command such as status	prints the message; whoever called it sees the status.
 *	the supervisor of a run		the guard stops the command, then the keeper releases the
 *					lock.
 *	the guard			the supervisor stops the command.
 *	the keeper of a run		the supervisor stops the command before the lease is
 *					over, or at once where the lock ends with the keeper's
 *					connection.
 *	the keeper of an acquisition	the lock stays until its lease is over, or ends with the
 *					keeper's connection.
 *
 * Nothing better could be done: releasing the lock or stopping the command takes memory, too.
 * tree_signal() does not use these functions, because it finds the processes that must be killed:
 * its caller can try again.
 */
#pragma once

#include <stddef.h>

/* That of every error inside dlock (cmd/options.h). */
#define MEMORY_EXIT_STATUS 125

/* For a library that has found no memory. Async-signal-safe. */
void memory_gone(void) __attribute__((noreturn));

/* Zeroed memory for count elements. */
void *memory_new(size_t count, size_t size) __attribute__((malloc));

/* As reallocarray(). What is added is not zeroed. */
void *memory_resize(void *memory, size_t count, size_t size);

/* As strdup(), also of NULL, of which the copy is NULL; and as strndup(). */
char *memory_copy(const char *text) __attribute__((malloc));
char *memory_copy_part(const char *text, size_t length) __attribute__((malloc));

/* Overwrites a text that nobody may find in memory later, and frees it. Accepts NULL. */
void memory_free_secret(char *text);

/* The text that printf() would print. */
char *memory_format(const char *format, ...) __attribute__((malloc, format(printf, 1, 2)));
