/* SPDX-License-Identifier: MIT */
/*
 * Where the parts of a URI stand, before any of them is looked into. The parser
 * and uri_find_password() share it, so that what the one takes for a password the
 * other one hides. For uri.c and uri_text.c alone.
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
	 * Up to here from rest on, '@' ends a password: to the query, or, where
	 * what should be ports are none, to the end, as then the authority may
	 * be the first half of a password with a '/' or '?' in it.
	 */
	const char *at_end;
	const char *end;
};

void uri_layout(struct uri_layout *layout, const char *text);

/* The byte that the escape at s ("%2F") stands for, or -1. */
int uri_unescape(const char *s, const char *end);

#endif
