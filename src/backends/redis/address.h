/* SPDX-License-Identifier: MIT */
/*
 * Where a Redis server is and which user asks it, as a URI says it. A zeroed struct redis_address
 * becomes one by one of the two functions for places, then by redis_address_login(), and is freed
 * with redis_address_finish(), whether those succeeded or not. They return 0, or -1 with *err.
 */
#ifndef DLOCK_REDIS_ADDRESS_H
#define DLOCK_REDIS_ADDRESS_H

#include <stdint.h>

struct error;
struct redis_transport;
struct uri;
struct uri_host;

struct redis_address {
	const struct redis_transport *transport;
	char *host;		/* NULL: a Unix socket */
	uint16_t port;
	char *unix_path;
	char *user;		/* NULL: none */
	char *password;		/* NULL: none */
	long db;
	char label[128];	/* for messages: "redis 127.0.0.1:6379" */
};

/* A host of uri, whose path is "", "/" or "/DB". */
int redis_address_tcp(struct redis_address *address, const struct uri *uri,
		      const struct uri_host *host, struct error *err);
/* A Unix socket, whose path is the path of uri. */
int redis_address_unix(struct redis_address *address, const struct uri *uri, struct error *err);

/* User and password. */
int redis_address_login(struct redis_address *address, const struct uri *uri, struct error *err);

/* Frees what the address owns, and overwrites the password. */
void redis_address_finish(struct redis_address *address);

#endif
