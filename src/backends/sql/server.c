/* SPDX-License-Identifier: MIT */
/* Several hosts, and the meaning of errors: server.h. */
#include "server.h"

#include <stdio.h>

#include "base/clock.h"

void sql_hosts_init(struct sql_hosts *hosts, const struct uri *uri, uint16_t usual_port,
		    const char *elsewhere)
{
	static const struct uri_host none = { .name = NULL };

	*hosts = (struct sql_hosts){
		.list = uri->host_count ? uri->hosts : &none,
		.count = uri->host_count ? uri->host_count : 1,
		.usual_port = usual_port,
		.scheme = uri->scheme,
		.elsewhere = elsewhere,
	};
	/* The next one after the last one is the first. */
	hosts->at = hosts->count - 1;
	sql_hosts_next(hosts);
}

void sql_hosts_next(struct sql_hosts *hosts)
{
	const struct uri_host *host;
	char text[URI_HOST_SIZE];

	hosts->at = (hosts->at + 1) % hosts->count;
	host = &hosts->list[hosts->at];
	hosts->port = host->name && !host->port ? hosts->usual_port : host->port;
	snprintf(hosts->label, sizeof(hosts->label), "%.12s %.110s", hosts->scheme,
		 host->name ? uri_host_text(host->name, hosts->port, text, sizeof(text))
			    : hosts->elsewhere);
}

int sql_hosts_connect(struct sql_hosts *hosts, int64_t timeout_ms, sql_connect_fn *connect,
		      void *conn, struct error *err)
{
	const int64_t end_ms = clock_boot_ms() + timeout_ms;
	struct error one, before;
	int64_t now_ms;

	*err = (struct error){ 0 };
	for (size_t left = hosts->count; left > 0; left--) {
		now_ms = clock_boot_ms();
		if (!connect(conn, now_ms + (end_ms - now_ms) / (int64_t)left, &one))
			return 0;
		sql_hosts_next(hosts);
		before = *err;
		*err = one;
		/* ERROR_UNAVAILABLE of any host wins: trying later may help. */
		if (before.kind != ERROR_NONE)
			error_set(err, before.kind == ERROR_UNAVAILABLE ? before.kind : one.kind, 0,
				  "%.235s; %.235s", before.message, one.message);
		err->errnum = one.errnum;
	}
	return -1;
}

int sql_refuse(const struct sql_hosts *hosts, const struct sql_refusal *refusal, const char *code,
	       const char *text, struct error *err)
{
	if (refusal->advice)
		return error_set(err, refusal->kind, 0, "%s: %s (%s: %.200s)", hosts->label,
				 refusal->advice, code, text);
	return error_set(err, refusal->kind, 0, "%s: %.240s (%s)", hosts->label, text, code);
}
