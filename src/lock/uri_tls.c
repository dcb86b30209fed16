/* SPDX-License-Identifier: MIT */
/* Reading the parameters of TLS: uri_tls.h. */
#include "uri_tls.h"

#include "base/error.h"

static int read_params(struct tls_params *tls, const struct uri *uri, struct error *err)
{
	const char *name = uri_param(uri, "sni");

	if (uri_param_text(uri, "ca", &tls->ca, err) ||
	    uri_param_text(uri, "cert", &tls->cert, err) ||
	    uri_param_text(uri, "key", &tls->key, err) ||
	    uri_param_flag(uri, "insecure", false, &tls->insecure, err))
		return -1;
	tls->name = name && name[0] ? name : NULL;
	if (tls->key && !tls->cert)
		return error_set(err, ERROR_USAGE, 0, "%s: ?key= without ?cert=", uri->scheme);
	/* Both may be in one file. */
	if (tls->cert && !tls->key)
		tls->key = tls->cert;
	if (tls->ca && tls->insecure)
		return error_set(err, ERROR_USAGE, 0,
				 "%s: ?insecure=yes verifies nothing, and "
				 "?ca= wants to: drop one of them",
				 uri->scheme);
	return 0;
}

int uri_tls_read(const struct uri *uri, bool by_scheme, bool *encrypted, struct tls_params *tls,
		 struct error *err)
{
	static const char *const params[] = { URI_TLS_PARAMS, "sentinel-tls", NULL };

	if (uri_param_flag(uri, "tls", by_scheme, encrypted, err))
		return -1;
	for (const char *const *name = params; *name && !*encrypted; name++)
		if (uri_param(uri, *name))
			return error_set(err, ERROR_USAGE, 0, "%s: ?%s= is for TLS: add tls=yes",
					 uri->scheme, *name);
#ifdef WITHOUT_TLS
	if (*encrypted)
		return error_set(err, ERROR_USAGE, 0, "%s: this dlock was built without TLS",
				 uri->scheme);
#endif
	return *encrypted ? read_params(tls, uri, err) : 0;
}
