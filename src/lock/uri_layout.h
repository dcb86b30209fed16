/* SPDX-License-Identifier: MIT */
/*
 * The places of the parts of a URI, whatever is in them. The parser and uri_find_password() use
 * them both, so that the one hides what the other takes for a password. For uri.c and uri_text.c
 * alone.
 */
#ifndef DLOCK_URI_LAYOUT_H
#define DLOCK_URI_LAYOUT_H

#include <stdbool.h>

struct uri_layout {
	bool has_scheme, has_authority;
	const char *scheme_end;		/* the ':' when there is a scheme */
	const char *rest;		/* what follows that ':' */
	const char *authority;		/* after "//"; empty without */
	const char *authority_end;
	/*
	 * From rest up to here an '@' ends a password. This is the beginning of the query, or the
	 * end of the text where the ports are not numbers: then the authority may be the first half
	 * of a password that has a '/' or '?' in it.
	 */
	const char *at_end;
	const char *end;
};

void uri_layout(struct uri_layout *layout, const char *text);

/* The byte that the escape at s ("%2F") stands for, or -1. */
int uri_unescape(const char *s, const char *end);

#endif
