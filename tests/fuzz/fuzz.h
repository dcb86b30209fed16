/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. libFuzzer calls LLVMFuzzerTestOneInput() per input. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An invariant, checked whatever NDEBUG says. */
#define INVARIANT(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* The input as a string of its own size, so that ASan sees any step beyond it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	INVARIANT(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}
