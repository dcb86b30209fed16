/* SPDX-License-Identifier: MIT */
/* SHA-256, for servers that get only a hash of a token, or of a name that is too long for them. */
#pragma once

#include <stddef.h>

#define SHA256_SIZE 32

/* Sets digest to the SHA-256 (FIPS 180-4) of length bytes at data. */
void sha256(const void *data, size_t length, unsigned char digest[SHA256_SIZE]);
