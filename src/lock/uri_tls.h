/* SPDX-License-Identifier: MIT */
/* The parameters of a URI about TLS, the same for each backend that uses base/stream.h. */
#pragma once

#include <stdbool.h>

#include "base/tls.h"
#include "uri.h"

#define URI_TLS_PARAMS "ca", "cert", "key", "sni", "insecure"

/*
 * Does uri ask for TLS, by its scheme (by_scheme) or by ?tls=yes? Then *encrypted is set, and *tls
 * gets the parameters, which point into uri. Otherwise such a parameter is an error. Returns 0, or
 * -1 and sets *err.
 */
int uri_tls_read(const struct uri *uri, bool by_scheme, bool *encrypted, struct tls_params *tls,
		 struct error *err);
