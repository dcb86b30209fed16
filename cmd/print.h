/* SPDX-License-Identifier: MIT */
/* The way to the screen. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Prints one line for people. All such lines go through here, because anyone may have written what
 * they contain: the line is cleaned (text_clean()), so that a terminal shows it as it is.
 */
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is it a terminal that obeys escape sequences? */
bool print_is_screen(int fd);
