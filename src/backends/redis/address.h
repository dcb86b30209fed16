/* SPDX-License-Identifier: MIT */
/*
 * The address of a Redis server, and its user and password, from a URI. A zeroed struct
 * redis_address is filled by redis_address_tcp() or redis_address_unix(), then by
 * redis_address_login(), and is freed with redis_address_finish(), also after a failure. They
 * return 0, or -1 and set *err.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct uri;
struct uri_host;

/* Parameters of TLS. */
struct redis_tls {
	char *ca;		/* file or directory of authorities; NULL: those of the system */
	char *cert;		/* file with our own certificate; NULL: we have none */
	char *key;		/* file with its key */
	char *name;		/* the name that the certificate must have; NULL: the host */
	bool insecure;		/* verify nothing */
	const char *on, *off;	/* for messages: how a URI turns TLS on and off */
};

/* A server as another server names it. */
struct redis_endpoint {
	char host[256];
	uint16_t port;		/* 0: there is none, and host is "" */
};

struct redis_address {
	bool encrypted;		/* TLS */
	bool master;		/* a server that reports to be a replica counts as failed */
	bool cluster;		/* a node of a cluster, whose MOVED is followed */
	bool age;		/* ask for the age of the server with the first request */
	struct redis_endpoint at;	/* without a host: a Unix socket, or not known yet */
	char *unix_path;
	char *user;		/* NULL: none */
	char *password;		/* NULL: none */
	long db;
	struct redis_tls tls;
	char label[128];	/* for messages: "redis 127.0.0.1:6379" */
};

/* Read a host of uri, whose path is "", "/" or "/DB". */
int redis_address_tcp(struct redis_address *address, const struct uri *uri,
		      const struct uri_host *host, struct error *err);
/* Read a Unix socket, which is the path of uri. */
int redis_address_unix(struct redis_address *address, const struct uri *uri, struct error *err);

/*
 * Does uri ask for TLS, by the scheme rediss or by ?tls=yes? Then encrypted is set, and the
 * parameters of TLS are read. Otherwise such a parameter is an error.
 */
#define REDIS_TLS_PARAMS "ca", "cert", "key", "sni", "insecure"
int redis_address_tls(struct redis_address *address, const struct uri *uri, struct error *err);

/* Read the number of a database. */
int redis_address_db(struct redis_address *address, const char *text, struct error *err);

/*
 * Read an endpoint: length bytes of host, without brackets. False: the host is empty, too long or
 * has other characters than a name or an address, or the port is none.
 */
bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, size_t length,
			int64_t port);

/* Read the hosts of uri, which must have one. The caller frees *endpoints. Returns 0 or -1. */
int redis_endpoints_read(const struct uri *uri, uint16_t default_port,
			 struct redis_endpoint **endpoints, size_t *count, struct error *err);

/* Move address to another endpoint. what: "redis", for the label. */
void redis_address_move(struct redis_address *address, const char *what,
			const struct redis_endpoint *endpoint);
bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b);

/* Read user and password. */
int redis_address_login(struct redis_address *address, const struct uri *uri, struct error *err);

/* Free what the address owns, and overwrite the password. */
void redis_address_finish(struct redis_address *address);
