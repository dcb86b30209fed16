/* SPDX-License-Identifier: MIT */
/*
 * Text that others wrote, made fit for a one-line message. Names, holders and
 * configuration come from files and servers that anyone may have written, and
 * a terminal obeys what it is sent. No I/O, and no locale: UTF-8 (RFC 3629).
 * And numbers as text.
 */
#ifndef DLOCK_TEXT_H
#define DLOCK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The length, 1 to 4, of the character that the given bytes begin with, or 0
 * where they begin with none: stray or missing continuation bytes, overlong
 * forms, surrogates, beyond U+10FFFF, or no bytes left. *control, when not
 * NULL, tells whether it is a C0 or C1 control character or DEL.
 */
size_t text_char(const char *text, size_t length, bool *control);

/* Whether all of it is UTF-8 without a control character. */
bool text_is_clean(const char *text, size_t length);

/*
 * Copies text with each control character, and each byte that is not UTF-8,
 * replaced by '?'. Cuts at a character's end to what size holds; writes a NUL.
 * Returns the length written.
 */
size_t text_clean(const char *text, size_t length, char *buf, size_t size);

/* How many characters a text has: its bytes that do not continue one. */
size_t text_characters(const char *text);

#define TEXT_QUOTE_SIZE 72

/* As text_clean(), for messages: what does not fit ends in "...". Returns buf. */
const char *text_quote(const char *text, size_t length,
		       char buf[static TEXT_QUOTE_SIZE]);

#define TEXT_DIGITS_SIZE 21

/*
 * Writes number in decimal, and a NUL, and returns where that stands. Between a fork and what
 * others wait for, where sprintf() would touch a dozen pages first.
 */
char *text_digits(char *buf, uint64_t number);

#endif
