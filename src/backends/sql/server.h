/* SPDX-License-Identifier: MIT */
/* The servers that a URI names, and what their errors mean, for the backends of SQL servers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lock/uri.h"

/* The hosts of a URI, in the order in which they are tried. The URI owns the names. */
struct sql_hosts {
	const struct uri_host *list;	/* at least one; its name is NULL if the URI has none */
	size_t count;
	size_t at;		/* the host of the last connection, */
	uint16_t port;		/* and its port; 0: not given */
	uint16_t usual_port;
	const char *scheme;
	const char *elsewhere;	/* where the server is, for messages, without a host */
	char label[128];	/* for messages: "mysql 127.0.0.1:3306" */
};

/* Begin with the first host of uri. elsewhere stays the caller's. */
void sql_hosts_init(struct sql_hosts *hosts, const struct uri *uri, uint16_t usual_port,
		    const char *elsewhere);

/* Choose the next host. */
void sql_hosts_next(struct sql_hosts *hosts);

/* Connect to the chosen host, by deadline_ms of CLOCK_BOOTTIME. Returns 0, or -1 and sets *err. */
typedef int sql_connect_fn(void *conn, int64_t deadline_ms, struct error *err);

/*
 * Call connect for each host, from the chosen one on, until it returns 0. Each host has its share
 * of the rest of timeout_ms. Returns 0, or -1 and sets *err to the reasons of all hosts.
 */
int sql_hosts_connect(struct sql_hosts *hosts, int64_t timeout_ms, sql_connect_fn *connect,
		      void *conn, struct error *err);

/* What a client does about an error. */
enum sql_class {
	SQL_OTHER,
	SQL_LOSS,		/* the connection is gone */
	/*
	 * The server takes no writes, or none of this account. The next host may take them, or a
	 * new connection reaches another server through a balancer.
	 */
	SQL_ELSEWHERE,
	SQL_CONTENTION,		/* statements of several clients collided, or an interrupt */
};

/* The meaning of errors. Their own text follows the advice in parentheses. */
struct sql_refusal {
	enum error_kind kind;
	enum sql_class class;
	const char *advice;	/* NULL: the text of the server says enough */
};

/* Set *err to the meaning of an error, with the code and the text of the server. Returns -1. */
int sql_refuse(const struct sql_hosts *hosts, const struct sql_refusal *refusal, const char *code,
	       const char *text, struct error *err);
