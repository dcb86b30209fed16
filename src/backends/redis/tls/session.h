/* SPDX-License-Identifier: MIT */
/* Declarations shared by the module for TLS. ../tls.h describes the module. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>

struct error;
struct redis_tls;

struct redis_tls_session {
	int fd;
	SSL_CTX *context;
	SSL *ssl;
	const struct redis_tls *tls;	/* the address owns it, and host */
	const char *host;	/* the name that the certificate must have */
	bool received;		/* the server has sent something, */
	bool foreign;		/* which is not TLS */
	bool broken;		/* nothing may be sent any more, not even the end */
	int failure;		/* errno of the last recv() or send(); 0: no error, or the end */
};

/*
 * Make the context: trusted authorities, our own certificate, versions of TLS. The caller frees it
 * with SSL_CTX_free(). Returns NULL and sets *err if a file cannot be used.
 */
SSL_CTX *tls_context(const struct redis_tls *tls, struct error *err);

/* Set *err after OpenSSL has failed in this session. */
void tls_explain(const struct redis_tls_session *session, struct error *err);
