/* SPDX-License-Identifier: MIT */
/* SHA-256, as in FIPS 180-4: what tables keep of a token, and what locks are called. No I/O. */
#ifndef DLOCK_MYSQL_DIGEST_H
#define DLOCK_MYSQL_DIGEST_H

#include <stddef.h>

#define MYSQL_DIGEST_SIZE 32
void mysql_digest(const void *data, size_t length, unsigned char digest[MYSQL_DIGEST_SIZE]);

#endif
