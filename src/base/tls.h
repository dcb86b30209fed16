/* SPDX-License-Identifier: MIT */
/*
 * TLS over a socket that does not block. The code is in a module of its own, dlock-tls.so, because
 * OpenSSL takes longer to load than a whole run without TLS takes. The module has no part in
 * protocols, waits and deadlines: its caller polls.
 *
 *	open()			once there is a socket, which may still be connecting
 *	handshake()		until it returns 1
 *	read(), write()
 *	close()			the socket is closed after that, by the caller
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/module.h"

struct tls_session;

/* Parameters of TLS, which point into the URI. */
struct tls_params {
	const char *ca;		/* file or directory of authorities; NULL: those of the system */
	const char *cert;	/* file with our own certificate; NULL: we have none */
	const char *key;	/* file with its key */
	const char *name;	/* the name that the certificate must have; NULL: the host */
	bool insecure;		/* verify nothing */
	const char *hint;	/* how a URI chooses TLS, for messages; without a '.' */
};

struct tls_module {
	struct module module;
	/*
	 * Read the files that tls names. The certificate must be for host, unless tls names another
	 * one. Transfers no bytes. Returns NULL and sets *err on failure.
	 */
	struct tls_session *(*open)(int fd, const struct tls_params *tls, const char *host,
					  struct error *err);
	/*
	 * These three return 0 to poll for *wanted (POLLIN or POLLOUT, whatever the direction of
	 * the call) and repeat the same call, or -1 and set *err when the connection is broken.
	 * handshake() returns 1 when it is over and the server is verified; the others return the
	 * number of bytes.
	 */
	int (*handshake)(struct tls_session *session, short *wanted, struct error *err);
	ssize_t (*read)(struct tls_session *session, void *data, size_t size, short *wanted,
			struct error *err);
	ssize_t (*write)(struct tls_session *session, const void *data, size_t size,
			 short *wanted, struct error *err);
	/* Send the end of the session, if this can be sent at once. */
	void (*close)(struct tls_session *session);
};
