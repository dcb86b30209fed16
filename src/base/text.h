/* SPDX-License-Identifier: MIT */
/*
 * Makes text of unknown origin safe for a message of one line. Anyone may have written the names,
 * holders and settings in files and on servers, and a terminal obeys control characters. All text
 * is UTF-8 (RFC 3629), whatever the locale is. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool text_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Is it a letter of ASCII? */
static inline bool text_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/*
 * Return the length, 1 to 4 bytes, of the first character of text. 0: length is 0, or text begins
 * with a stray continuation byte, an incomplete or overlong form, a surrogate or a number beyond
 * U+10FFFF. *control: is it a C0 or C1 control character or DEL? control may be NULL.
 */
size_t text_char(const char *text, size_t length, bool *control);

/* Is all of the text UTF-8 without control characters? */
bool text_is_clean(const char *text, size_t length);

/*
 * Copy text with '?' for each control character and each byte that is not UTF-8, and add a NUL.
 * Text that does not fit is cut at the end of a character. size is 1 or more. buf may be text
 * itself, because the copy is not longer. Returns the length written.
 */
size_t text_clean(const char *text, size_t length, char *buf, size_t size);

/* Return the number of characters: the bytes that do not continue one. */
size_t text_characters(const char *text);

/*
 * Find the password of a URI in text. Returns its first byte, with its length in *length, or NULL
 * if there is none or it is empty. It is the text between the first ':' behind "//" and the last
 * '@': maybe too much, if a path has both, but never too little. For hiding it in argv and in
 * output.
 */
const char *text_find_password(const char *text, size_t *length);

#define TEXT_QUOTE_SIZE 72

/*
 * Write a foreign value for a message: as text_clean(), with "..." behind a text that is cut, and
 * "***" for the password of a URI, or for all before the '@' if there is no ':', because this may
 * be a password that was taken for a user. size is 4 or more. Returns buf.
 */
const char *text_quote(const char *text, char *buf, size_t size);

/* Parse decimal digits. False: other characters, or too large for *number. Empty text is 0. */
bool text_number(const char *text, size_t length, int64_t *number);

#define TEXT_DIGITS_SIZE 21

/* Write number in decimal and a NUL, and return the address of the NUL. */
char *text_digits(char *buf, uint64_t number);
