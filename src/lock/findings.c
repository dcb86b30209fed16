/* SPDX-License-Identifier: MIT */
/* Findings of `dlock check`: findings.h. */
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/net.h"

/* With a larger difference, people notice that fences and ages disagree with their clock. */
#define CLOCK_SKEW_MS 1000

void findings_add(struct findings *findings, enum severity severity, const char *topic,
		  const char *remedy, const char *format, ...)
{
	struct finding *row;
	va_list args;

	findings->rows = memory_resize(findings->rows, findings->count + 1, sizeof(*row));
	row = &findings->rows[findings->count++];
	row->severity = severity;
	snprintf(row->topic, sizeof(row->topic), "%s", topic);
	snprintf(row->remedy, sizeof(row->remedy), "%s",
		 remedy && severity != FINDING_OK ? remedy : "");
	va_start(args, format);
	vsnprintf(row->text, sizeof(row->text), format, args);
	va_end(args);
}

void findings_add_rules(struct findings *findings, const struct finding_rule rules[],
			size_t count)
{
	const char *topic = "";

	for (size_t i = 0; i < count; i++) {
		if (!rules[i].applies || !strcmp(rules[i].topic, topic))
			continue;
		topic = rules[i].topic;
		findings_add(findings, rules[i].severity, topic, rules[i].remedy, "%s%.180s%s",
			     rules[i].before, rules[i].fact, rules[i].behind);
	}
}

void findings_add_transport(struct findings *findings, const char *host, bool encrypted,
			    bool verified, bool password)
{
	const struct finding_rule rules[] = {
		{ "transport", encrypted && verified, FINDING_OK,
		  "encrypted, and the server's certificate was verified", "", "", NULL },
		{ "transport", net_is_local(host), FINDING_OK, "does not leave this host", "", "",
		  NULL },
		{ "transport", encrypted, FINDING_WARNING,
		  "encrypted, but any server would do: the certificate is not verified", "", "",
		  "name the authority that signed the certificate, see the manual page" },
		{ "transport", true, password ? FINDING_WARNING : FINDING_NOTE, "not encrypted: ",
		  password ? "the password" : "tokens", " can be read on the way",
		  "use TLS, a private network or a tunnel" },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

void findings_add_clock(struct findings *findings, int64_t server_ms, int64_t asked_ms)
{
	/* It was read halfway between question and answer. */
	const int64_t skew_ms = server_ms - (asked_ms + clock_wall_ms()) / 2;

	findings_add(findings, llabs(skew_ms) > CLOCK_SKEW_MS ? FINDING_NOTE : FINDING_OK, "clock",
		     "synchronise the clocks (NTP); leases do not depend on it",
		     "%+lld ms from the clock of this host", (long long)skew_ms);
}

void findings_finish(struct findings *findings)
{
	free(findings->rows);
	*findings = (struct findings){ 0 };
}
