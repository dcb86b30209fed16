/* SPDX-License-Identifier: MIT */
/* Reports of backends about themselves, for people: `dlock check`. They contain no secret. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum severity {
	FINDING_OK,
	FINDING_NOTE, /* good to know, without a need to change something */
	FINDING_WARNING, /* locks work, but an operator should change something */
	FINDING_ERROR, /* locks do not work */
};

struct finding {
	enum severity severity;
	char topic[24]; /* one word: "version", "persistence" */
	char text[240];
	char remedy[240]; /* what to do; "": nothing */
};

struct findings {
	struct finding *rows;
	size_t count;
};

/* Add a row. remedy may be NULL; with FINDING_OK it is left out. */
void findings_add(struct findings *findings, enum severity severity, const char *topic,
		  const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* A finding that may apply. Its text is before, fact and behind. */
struct finding_rule {
	const char *topic;
	bool applies;
	enum severity severity;
	const char *before, *fact, *behind, *remedy;
};

/* Add the first rule of each topic that applies. The rules of one topic stand together. */
void findings_add_rules(struct findings *findings, const struct finding_rule rules[],
			size_t count);

/*
 * Add the finding "transport": how requests reach host (NULL: over a Unix socket). password: one
 * is sent as it is.
 */
void findings_add_transport(struct findings *findings, const char *host, bool encrypted,
			    bool verified, bool password);

/*
 * Add the finding "clock": how far the server's clock, which showed server_ms, is ahead of the
 * clock of this host, which showed asked_ms when the server was asked and has just answered.
 */
void findings_add_clock(struct findings *findings, int64_t server_ms, int64_t asked_ms);
void findings_finish(struct findings *findings);
