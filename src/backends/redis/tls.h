/* SPDX-License-Identifier: MIT */
/*
 * TLS over a socket that does not block. The code is in a module of its own, dlock-tls.so, because
 * OpenSSL takes longer to load than a whole run without TLS takes. The module knows nothing of
 * Redis, of waiting and of deadlines: its caller polls.
 *
 *	open()			once there is a socket, which may still be connecting
 *	handshake()		until it returns 1
 *	read(), write()
 *	close()			the socket is closed after that, by the caller
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/module.h"

struct error;
struct redis_tls;
struct redis_tls_session;

struct redis_tls_module {
	struct module module;
	/*
	 * Reads the files that tls names. host is whom the certificate must be of, unless tls says
	 * otherwise. Moves no bytes. NULL with *err.
	 */
	struct redis_tls_session *(*open)(int fd, const struct redis_tls *tls, const char *host,
					  struct error *err);
	/*
	 * These three return 0 when the socket must be ready for *wanted (POLLIN or POLLOUT, which
	 * does not depend on the direction of the call) before the same call is made again, and -1
	 * with *err when the connection is of no more use. Handshake returns 1 when it is over and
	 * the server is who it should be; the others return the number of bytes.
	 */
	int (*handshake)(struct redis_tls_session *session, short *wanted, struct error *err);
	ssize_t (*read)(struct redis_tls_session *session, void *data, size_t size, short *wanted,
			struct error *err);
	ssize_t (*write)(struct redis_tls_session *session, const void *data, size_t size,
			 short *wanted, struct error *err);
	/* Tells the server that nothing more comes, if that can be sent at once. */
	void (*close)(struct redis_tls_session *session);
};
