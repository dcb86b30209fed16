/* SPDX-License-Identifier: MIT */
/* Chooses each setting: the command line, the environment, and the two files, in this order. */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/memory.h"
#include "base/text.h"

#define DEFAULT_BACKEND "file:"
#define SYSTEM_FILE "/etc/dlock.conf"
#define KILL_AFTER_MS 5000

/* Return the path of the user's file, which is not freed, or "". */
static const char *user_file(void)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *rest = "/dlock.conf";

	if (!base || base[0] != '/') {
		base = getenv("HOME");
		rest = "/.config/dlock.conf";
	}
	return base && base[0] == '/' ? memory_format("%s%s", base, rest) : "";
}

/*
 * Load both files. A file that this user may not read, as one with passwords, is recorded:
 * choose_backend() refuses a backend that may be defined in it.
 */
static int load_files(struct settings *settings, struct error *err)
{
	const char *const paths[] = { user_file(), SYSTEM_FILE };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!config_load(&settings->config, paths[i], err))
			continue;
		if (err->errnum != EACCES)
			return -1;
		settings->unreadable = *err;
		*err = (struct error){ .kind = ERROR_NONE };
	}
	return 0;
}

/*
 * Choose a text: that of the variable, of the key in the backend's section, or of the key before
 * all sections. *source, for messages, is where it is from. NULL: none has it.
 */
static const char *choose_text(const struct settings *settings, const char *key,
			       const char *variable, const char **source)
{
	const struct config *config = &settings->config;
	const struct config_entry *entry = config_get(config, settings->section, key);
	const char *value = variable ? getenv(variable) : NULL;

	*source = variable;
	if (value && value[0])
		return value;
	if (!entry)
		entry = config_get(config, "", key);
	if (entry)
		*source = entry->location;
	return entry ? entry->value : NULL;
}

/*
 * Choose *ms, unless only the default is left: the value of the option, unless it is below 0, or a
 * text. A text that the option overrides must be right, too. *source is where the text is from.
 */
static int choose_duration(const struct settings *settings, int64_t given_ms, const char *key,
			   const char *variable,
			   int (*parse)(const char *text, int64_t *ms, struct error *err),
			   const char **source, int64_t *ms, struct error *err)
{
	const char *text = choose_text(settings, key, variable, source);

	if (text && parse(text, ms, err))
		return error_prefix(err, "%s", *source);
	if (given_ms >= 0)
		*ms = given_ms;
	return 0;
}

static int choose_durations(struct settings *settings, struct options *options, struct error *err)
{
	struct run_request *run = &options->run;
	const bool has_lease = !run->driver->local || run->asked_ttl_ms;
	const char *source;

	run->ttl_ms = BACKEND_TTL_MS;
	run->wait_ms = CLOCK_NEVER;
	run->kill_after_ms = KILL_AFTER_MS;
	if (choose_duration(settings, run->asked_ttl_ms ? run->asked_ttl_ms : -1, "ttl",
			    "DLOCK_TTL", config_parse_ttl, &source, &run->ttl_ms, err) ||
	    choose_duration(settings, options->nonblock ? 0 : options->wait_ms, "wait",
			    "DLOCK_WAIT", config_parse_wait, &source, &run->wait_ms, err) ||
	    choose_duration(settings, options->kill_after_ms, "kill-after", NULL, duration_parse,
			    &source, &run->kill_after_ms, err))
		return -1;
	if (options->kill_after_ms >= 0)
		source = "--kill-after";
	/* Only the default, which has no source, is cut to what fits. */
	if (source && run->argv && has_lease && run->kill_after_ms > run->ttl_ms / 3)
		return error_set(err, ERROR_USAGE, 0, "%s: more than a third of the TTL; it needs "
				 "-t %" PRId64 "s or more", source,
				 (3 * run->kill_after_ms + 999) / 1000);
	return 0;
}

/* Has the key before all sections this value? */
static bool config_has(const struct settings *settings, const char *key, const char *value)
{
	const struct config_entry *entry = config_get(&settings->config, "", key);

	return entry && !strcmp(entry->value, value);
}

/* Refuse text, which is no URI, and explain what it most likely is. */
static int refuse_backend(const struct settings *settings, const char *text, const char *source,
			  struct error *err)
{
	const char *user = user_file();
	char quoted[TEXT_QUOTE_SIZE];

	text_quote(text, quoted, sizeof(quoted));
	if (text[0] == '/')
		return error_set(err, ERROR_USAGE, 0, "%s: '%s' is a path; a directory for locks "
				 "is file://%s", source, quoted, quoted);
	for (const struct backend_driver *d = backend_drivers; d->scheme; d++)
		if (!strcmp(d->scheme, text))
			return error_set(err, ERROR_USAGE, 0, "%s: '%s' is a scheme alone; "
					 "write %s:%s", source, text, text,
					 d->local ? "" : "//HOST");
	if (settings->unreadable.kind == ERROR_NONE)
		return error_set(err, ERROR_USAGE, 0, "%s: '%s' is neither a URI nor a section of "
				 "%.150s%s" SYSTEM_FILE, source, quoted, user,
				 *user ? " or " : "");
	*err = settings->unreadable;
	return -1;
}

/* The default is a directory of this host: elsewhere, a forgotten backend would lock nothing. */
static int check_default(const struct settings *settings, struct error *err)
{
	const char *variable = "DLOCK_REQUIRE_BACKEND", *value = getenv(variable);
	const bool is_set = value && value[0];

	if (is_set ? !strcmp(value, "0") || !strcasecmp(value, "no") ||
		     !strcasecmp(value, "false") || !strcasecmp(value, "off")
		   : !config_has(settings, "require-backend", "yes"))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "no backend is named, and %s refuses the default: "
			 "give -b URI, DLOCK_BACKEND, or backend = in the configuration file",
			 is_set ? variable : "require-backend");
}

/* A name without a colon is that of a section; everything else is a URI. */
static int read_backend(struct settings *settings, struct run_request *run, const char *text,
			const char *source, struct error *err)
{
	const struct config_entry *entry = config_get(&settings->config, text, "uri");
	const char *absolute;

	run->uri = &settings->uri;
	run->uri_text = text;
	settings->section = entry ? text : "";
	if (!entry && !strchr(text, ':'))
		return refuse_backend(settings, text, source, err);
	/* It lasts as long as the process. The command may be in another directory. */
	absolute = uri_make_absolute(entry ? entry->value : text);
	if (uri_parse(&settings->uri, absolute, err) ||
	    !(run->driver = backend_find(&settings->uri, err)))
		return error_prefix(err, "%s", entry ? entry->location : source);
	/* The URI of a section stays secret. */
	if (!entry)
		run->uri_text = absolute;
	return 0;
}

static int choose_backend(struct settings *settings, struct options *options, struct error *err)
{
	const char *variable = getenv("DLOCK_BACKEND"), *source = "--backend";
	const char *text = options->nested ? NULL : options->backend;

	if (!text)
		text = choose_text(settings, "backend", "DLOCK_BACKEND", &source);
	if (!options->backend && variable && !variable[0])
		return error_set(err, ERROR_USAGE, 0, "DLOCK_BACKEND is set, but empty: give it a "
				 "URI, or unset DLOCK_BACKEND");
	if (!text && settings->unreadable.kind != ERROR_NONE) {
		*err = settings->unreadable;
		return -1;
	}
	if (!text && check_default(settings, err))
		return -1;
	return read_backend(settings, &options->run, text ? text : DEFAULT_BACKEND, source, err);
}

int settings_load(struct settings *settings, struct options *options, struct error *err)
{
	*settings = (struct settings){ .section = "" };
	if (load_files(settings, err) || choose_backend(settings, options, err) ||
	    choose_durations(settings, options, err))
		return -1;
	options->run.contain = options->contain ? options->contain > 0
						: config_has(settings, "contain", "yes");
	if (options->run.contain && options->run.leftovers == LEFTOVERS_LEAVE)
		return error_set(err, ERROR_USAGE, 0, "--leftovers leave needs --no-contain: all "
				 "that is contained ends with dlock");
	uri_location(&settings->uri, options->run.driver->port, settings->location);
	options->syslog |= config_has(settings, "log", "syslog");
	if (uri_load_passwords(&settings->uri, &settings->exposed, err))
		return -1;
	if (!settings->exposed)
		settings->exposed = settings->config.exposed_path;
	return 0;
}
