/* SPDX-License-Identifier: MIT */
/* What the files of the module for TLS share. ../tls.h says what the module does. */
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
	const char *host;	/* whose certificate is wanted */
	bool received;		/* the server has sent something, */
	bool foreign;		/* which is not TLS */
	bool broken;		/* nothing may be sent any more, not even a farewell */
	int failure;		/* errno of the last recv() or send(); 0: no error, or the end */
};

/*
 * What holds for the session before there is a server: what we trust, our own certificate, the
 * versions of TLS. The caller frees it with SSL_CTX_free(). NULL with *err: a file cannot be used.
 */
SSL_CTX *tls_context(const struct redis_tls *tls, struct error *err);

/* Sets *err after OpenSSL has failed in this session. */
void tls_explain(const struct redis_tls_session *session, struct error *err);
