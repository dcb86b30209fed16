/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "lock/view.h"
#include "exit_status.h"
#include "json.h"
#include "session.h"

static const char *const severities[] = {
	[FINDING_OK] = "ok", [FINDING_NOTE] = "note",
	[FINDING_WARNING] = "warning", [FINDING_ERROR] = "error",
};

/* Shows whether the account has the privileges, and how long a lock takes. */
static int probe(struct session *session, struct findings *findings, struct error *err)
{
	int64_t taken_us, released_us;

	if (session_probe(session, &taken_us, &released_us, err))
		return -1;
	findings_add(findings, FINDING_OK, "probe", NULL,
		     "a lock was taken in %.2f ms, connection included, and given back in %.2f ms",
		     (double)taken_us / 1000, (double)released_us / 1000);
	return 0;
}

static void check_secrets(const struct session *session, struct findings *findings)
{
	if (session->settings.warning[0])
		findings_add(findings, FINDING_WARNING, "password", "chmod 600 the file",
			     "%s", session->settings.warning);
	else if (session->options.password_in_argv && session->settings.uri.password &&
		 !uri_param(&session->settings.uri, "password-file"))
		findings_add(findings, FINDING_NOTE, "password",
			     "put it into a file, and name that with ?password-file=",
			     "stands on the command line: ps shows it until dlock has hidden it, "
			     "and the shell's history keeps it");
	else if (session->settings.uri.password)
		findings_add(findings, FINDING_OK, "password", NULL,
			     "not readable by others");
}

static void print_text(const struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *f = &findings->rows[i];

		print_line(stdout, "%-8s %-12s %s%s%s", severities[f->severity], f->topic, f->text,
			    f->remedy[0] ? "; " : "", f->remedy);
	}
}

/* -q: only what makes the backend unusable. */
static void say_errors(const struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->rows[i].severity == FINDING_ERROR)
			log_say(SAY_ERROR, "%s", findings->rows[i].text);
}

static void print_json(const struct findings *findings, const char *place, enum severity worst)
{
	struct json json = { .comma = false };

	json_open(&json, NULL, '{');
	json_text(&json, "backend", place);
	json_text(&json, "verdict", severities[worst]);
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *f = &findings->rows[i];

		json_open(&json, NULL, '{');
		json_text(&json, "severity", severities[f->severity]);
		json_text(&json, "topic", f->topic);
		json_text(&json, "finding", f->text);
		json_text(&json, "remedy", f->remedy);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

int command_check(struct session *session, struct error *err)
{
	struct findings findings = { 0 };
	enum severity worst = FINDING_OK;
	char place[URI_PLACE_SIZE];

	settings_place(&session->settings, place);
	findings_add(&findings, FINDING_OK, "backend", NULL, "%.230s", place);
	if (session_connect(session, err) ||
	    session->backend->ops->check(session->backend, &findings, err) ||
	    probe(session, &findings, err))
		findings_add(&findings, FINDING_ERROR, "unusable", NULL, "%.230s", err->message);
	check_secrets(session, &findings);
	for (size_t i = 0; i < findings.count; i++)
		if (findings.rows[i].severity > worst)
			worst = findings.rows[i].severity;
	if (session->options.verbosity < 0)
		say_errors(&findings);
	else if (session->options.json)
		print_json(&findings, place, worst);
	else
		print_text(&findings);
	findings_finish(&findings);
	if (err->kind == ERROR_USAGE)
		return EXIT_DLOCK;
	return worst == FINDING_ERROR ? EXIT_UNAVAILABLE : worst >= FINDING_WARNING;
}
