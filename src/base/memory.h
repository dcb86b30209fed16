/* SPDX-License-Identifier: MIT */
/*
 * Allocates memory. When the system has none left, these functions end the process at once, with a
 * line on stderr and status MEMORY_EXIT_STATUS. So no caller checks their results. All memory is
 * freed with free().
 *
 * Every process of dlock may end here, because the others survive its sudden death as after a kill:
 * see src/engine/README.md. tree_signal() does not use these functions, because its caller must
 * kill processes and can try again.
 */
#pragma once

#include <stddef.h>

/* EXIT_DLOCK of cmd/options.h. */
#define MEMORY_EXIT_STATUS 125

/* End the process after a library has found no memory. Async-signal-safe. */
void memory_exit(void) __attribute__((noreturn));

/* Allocate zeroed memory for count elements. */
void *memory_new(size_t count, size_t size) __attribute__((malloc));

/* As reallocarray(); the added memory is not zeroed. */
void *memory_resize(void *memory, size_t count, size_t size);

/* As strdup(), which returns NULL for NULL here, and as strndup(). */
char *memory_copy(const char *text) __attribute__((malloc));
char *memory_copy_part(const char *text, size_t length) __attribute__((malloc));

/* Overwrite a secret and free it. Accepts NULL. */
void memory_free_secret(char *text);

/* As asprintf(); returns the text. */
char *memory_format(const char *format, ...) __attribute__((malloc, format(printf, 1, 2)));
