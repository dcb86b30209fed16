/* SPDX-License-Identifier: MIT */
/* Chooses each setting: the command line, the environment, and the two files, in this order. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/memory.h"

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
 * choose_backend() refuses a backend that may be defined in it. Returns 0, or -1 with *err.
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
 * Choose a text: that of the option "--KEY", of the variable, of the backend's section, or of the
 * files before all sections. *source, for messages, is where it is from. NULL: none has it.
 */
static const char *choose_text(const struct settings *settings, const char *given,
			       const char *option, const char *variable, const char **source)
{
	const struct config *config = &settings->config;
	const struct config_entry *entry = config_get(config, settings->section, option + 2);
	const char *value = getenv(variable);

	*source = given ? option : variable;
	if (given || (value && value[0]))
		return given ? given : value;
	if (!entry)
		entry = config_get(config, "", option + 2);
	if (entry)
		*source = entry->location;
	return entry ? entry->value : NULL;
}

static int choose_duration(const struct settings *settings, const char *given, const char *option,
			   const char *variable,
			   int (*parse)(const char *text, int64_t *ms, struct error *err),
			   int64_t *ms, struct error *err)
{
	const char *source, *text = choose_text(settings, given, option, variable, &source);

	return text && parse(text, ms, err) ? error_prefix(err, "%s", source) : 0;
}

static int choose_durations(struct settings *settings, struct options *options, struct error *err)
{
	struct run_request *run = &options->run;

	run->ttl_ms = BACKEND_TTL_MS;
	run->wait_ms = CLOCK_NEVER;
	run->kill_after_ms = KILL_AFTER_MS;
	if (choose_duration(settings, options->ttl, "--ttl", "DLOCK_TTL", config_parse_ttl,
			    &run->ttl_ms, err) ||
	    choose_duration(settings, options->nonblock ? "0" : options->wait, "--wait",
			    "DLOCK_WAIT", config_parse_wait, &run->wait_ms, err) ||
	    choose_duration(settings, options->kill_after, "--kill-after", "", duration_parse,
			    &run->kill_after_ms, err))
		return -1;
	run->asked_ttl_ms = options->ttl ? run->ttl_ms : 0;
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

	if (text[0] == '/')
		return error_set(err, ERROR_USAGE, 0, "%s: '%s' is a path; a directory for locks "
				 "is file://%s", source, text, text);
	for (const struct backend_driver *d = backend_drivers; d->scheme; d++)
		if (!strcmp(d->scheme, text))
			return error_set(err, ERROR_USAGE, 0, "%s: '%s' is a scheme alone; "
					 "write %s:%s", source, text, text,
					 d->local ? "" : "//HOST");
	if (settings->unreadable.kind == ERROR_NONE)
		return error_set(err, ERROR_USAGE, 0, "%s: '%.100s' is neither a URI nor a "
				 "section of %.150s%s" SYSTEM_FILE, source, text,
				 user, *user ? " or " : "");
	*err = settings->unreadable;
	return -1;
}

/* The default is a directory of this host: elsewhere, a forgotten backend would lock nothing. */
static int check_default(const struct settings *settings, struct error *err)
{
	const char *variable = "DLOCK_REQUIRE_BACKEND", *value = getenv(variable);
	const bool is_set = value && value[0];

	if (is_set ? !strcmp(value, "0") : !config_has(settings, "require-backend", "yes"))
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
	const char *variable = getenv("DLOCK_BACKEND"), *source;
	const char *text = choose_text(settings, options->backend, "--backend", "DLOCK_BACKEND",
				       &source);

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
	uri_location(&settings->uri, options->run.driver->port, settings->location);
	options->syslog |= config_has(settings, "log", "syslog");
	if (uri_load_passwords(&settings->uri, &settings->exposed, err))
		return -1;
	if (!settings->exposed)
		settings->exposed = settings->config.exposed_path;
	return 0;
}
