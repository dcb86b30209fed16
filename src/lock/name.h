/* SPDX-License-Identifier: MIT */
/* Names of locks. No I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;

#define NAME_MAX_BYTES 200
/* the basename of a command, cut if need be, '-', 16 hex digits, NUL */
#define NAME_DERIVED_SIZE (NAME_MAX_BYTES + 1)

/*
 * Returns 0 if name has 1 to 200 bytes of UTF-8 (RFC 3629: no overlong forms, no surrogates)
 * without control characters (C0, DEL, C1), or -1 with ERROR_USAGE.
 */
int name_check(const char *name, struct error *err);

/*
 * Write the name for `dlock run -- COMMAND ARG...`: the basename of argv[0], "-", and 16 hex digits
 * of the 64-bit FNV-1a over all of argv with a NUL between two arguments, but none at the end. A
 * basename that is too long is cut at the end of a character; one that is not a valid name becomes
 * "command".
 */
void name_derive(const char *const argv[], char buf[static NAME_DERIVED_SIZE]);

/* 64-bit FNV-1a (Fowler, Noll, Vo); start with FNV1A_INIT. */
#define FNV1A_INIT UINT64_C(0xcbf29ce484222325)
uint64_t fnv1a(uint64_t hash, const void *data, size_t length);
