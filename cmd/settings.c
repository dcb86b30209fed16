/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "backends/registry.h"
#include "options.h"

#define DEFAULT_BACKEND "file:"
#define SYSTEM_FILE "/etc/dlock.conf"
#define KILL_AFTER_MS 5000

/*
 * A file that this user may not read, as one with passwords in it, hurts only who needs it: it is
 * noted, and choose_backend() refuses what may stand in it.
 */
static int load_file(struct settings *settings, const char *path, struct error *err)
{
	if (!config_load(&settings->config, path, err))
		return 0;
	if (err->errnum != EACCES)
		return -1;
	settings->unreadable = *err;
	*err = (struct error){ .kind = ERROR_NONE };
	return 0;
}

/* The path of the user's file. False: there is none. */
static bool user_file(char path[static PATH_MAX])
{
	const char *base = getenv("XDG_CONFIG_HOME"), *rest = "/dlock.conf";

	if (!base || base[0] != '/') {
		base = getenv("HOME");
		rest = "/.config/dlock.conf";
	}
	/* A path that does not fit is longer than that of any file. */
	if (!base || base[0] != '/' || strlen(base) + strlen(rest) >= PATH_MAX)
		return false;
	stpcpy(stpcpy(path, base), rest);
	return true;
}

static int load_files(struct settings *settings, struct error *err)
{
	char path[PATH_MAX];

	if (user_file(path) && load_file(settings, path, err))
		return -1;
	return load_file(settings, SYSTEM_FILE, err);
}

/* What the option or else the environment says, or NULL. *source: which of them, for messages. */
static const char *choose(const char *option, const char *option_name, const char *variable,
			  const char **source)
{
	const char *value;

	*source = option_name;
	if (option)
		return option;
	*source = variable;
	value = getenv(variable);
	return value && value[0] ? value : NULL;
}

/* What the backend's section says, or the rest of the configuration, or else the default. */
static int64_t configured(const struct config_duration *own, const struct config_duration *common,
			  int64_t default_ms)
{
	if (own->set)
		return own->ms;
	return common->set ? common->ms : default_ms;
}

/* own: the section of the backend, or NULL. */
static int choose_durations(struct settings *settings, const struct options *options,
			    const struct config_backend *own, struct error *err)
{
	static const struct config_backend none = { .name = NULL };
	const char *source, *text = choose(options->ttl, "--ttl", "DLOCK_TTL", &source);

	if (!own)
		own = &none;
	settings->ttl_ms = configured(&own->ttl, &settings->config.ttl, BACKEND_TTL_MS);
	if (text && config_parse_ttl(text, &settings->ttl_ms, err))
		return error_prefix(err, "%s", source);
	settings->asked_ttl_ms = options->ttl ? settings->ttl_ms : 0;
	settings->wait_ms = configured(&own->wait, &settings->config.wait, CLOCK_NEVER);
	text = choose(options->wait, "--wait", "DLOCK_WAIT", &source);
	if (options->nonblock)
		settings->wait_ms = 0;
	else if (text && config_parse_wait(text, &settings->wait_ms, err))
		return error_prefix(err, "%s", source);
	settings->kill_after_ms = options->kill_after_ms;
	if (options->kill_after_ms < 0)
		settings->kill_after_ms = configured(&own->kill_after, &none.kill_after,
						     KILL_AFTER_MS);
	return 0;
}

/* What uri_text, which is no URI, is most likely. */
static int refuse_backend(const struct settings *settings, const char *source, struct error *err)
{
	char path[PATH_MAX];

	if (settings->uri_text[0] == '/')
		return error_set(err, ERROR_USAGE, 0, "%s: '%s' is a path; a directory for locks "
				 "is file://%s", source, settings->uri_text, settings->uri_text);
	if (settings->unreadable.kind == ERROR_NONE)
		return error_set(err, ERROR_USAGE, 0, "%s: '%.100s' is neither a URI nor a "
				 "section of %.150s%s" SYSTEM_FILE, source, settings->uri_text,
				 user_file(path) ? path : "", user_file(path) ? " or " : "");
	*err = settings->unreadable;
	return -1;
}

/* The default is a directory of this host: elsewhere, a forgotten backend would lock nothing. */
static int check_default(const struct settings *settings, struct error *err)
{
	const char *variable = "DLOCK_REQUIRE_BACKEND", *value = getenv(variable);
	const bool told = value && value[0];

	if (told && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return error_set(err, ERROR_USAGE, 0, "%s: write 1 or 0, not '%s'", variable,
				 value);
	if (told ? value[0] == '0' : settings->config.require_backend != CONFIG_YES)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "no backend is named, and %s refuses the default: "
			 "give -b URI, DLOCK_BACKEND, or backend = in the configuration file",
			 told ? variable : "require-backend");
}

/* A name without a colon is that of a section; everything else is a URI. *own: the section. */
static int choose_backend(struct settings *settings, const struct options *options,
			  const struct config_backend **own, struct error *err)
{
	const char *source, *text, *variable = getenv("DLOCK_BACKEND");

	if (!options->backend && variable && !variable[0])
		return error_set(err, ERROR_USAGE, 0, "DLOCK_BACKEND is set, but empty: give it a "
				 "URI, or unset DLOCK_BACKEND");
	settings->uri_text = choose(options->backend, "--backend", "DLOCK_BACKEND", &source);
	if (!settings->uri_text) {
		settings->uri_text = settings->config.backend;
		source = settings->config.backend_place;
	}
	if (!settings->uri_text && settings->unreadable.kind != ERROR_NONE) {
		*err = settings->unreadable;
		return -1;
	}
	if (!settings->uri_text && check_default(settings, err))
		return -1;
	if (!settings->uri_text)
		settings->uri_text = DEFAULT_BACKEND;
	*own = config_find(&settings->config, settings->uri_text);
	text = settings->uri_text;
	if (*own) {
		text = (*own)->uri;
		source = (*own)->uri_place;
	} else if (!strchr(text, ':')) {
		return refuse_backend(settings, source, err);
	}
	if (uri_parse(&settings->uri, text, err))
		return error_prefix(err, "%s", source);
	/* The command may look from another directory. The URI of a section stays secret. */
	if (!*own)
		settings->uri_text = settings->absolute_uri = uri_make_absolute(text);
	settings->driver = backend_find(&settings->uri, err);
	return settings->driver ? 0 : error_prefix(err, "%s", source);
}

int settings_load(struct settings *settings, struct options *options, struct error *err)
{
	const struct config_backend *own = NULL;
	const char *exposed;

	*settings = (struct settings){ 0 };
	if (load_files(settings, err) || choose_backend(settings, options, &own, err) ||
	    choose_durations(settings, options, own, err))
		return -1;
	settings->contain = (options->contain ? options->contain : settings->config.contain) ==
			    CONFIG_YES;
	settings->syslog = options->syslog || settings->config.log == CONFIG_YES;
	options_blank(options);
	if (uri_load_passwords(&settings->uri, &exposed, err))
		return -1;
	if (!exposed)
		exposed = settings->config.exposed_path;
	if (exposed)
		snprintf(settings->warning, sizeof(settings->warning),
			 "%.300s: others can read the password in it; chmod 600 it", exposed);
	return 0;
}

void settings_finish(struct settings *settings)
{
	uri_finish(&settings->uri);
	memory_free_secret(settings->absolute_uri);
	config_finish(&settings->config);
}

struct run_request settings_request(const struct settings *settings, const struct options *options,
				    const char *name)
{
	return (struct run_request){
		.driver = settings->driver,
		.uri = &settings->uri,
		.uri_text = settings->uri_text,
		.name = name,
		.note = options->note,
		.replaces = options->replaces,
		.mode = options->slots ? HOLD_SLOT : options->shared ? HOLD_SHARED : HOLD_EXCLUSIVE,
		.slots = options->slots,
		.ttl_ms = settings->ttl_ms,
		.wait_ms = settings->wait_ms,
		.min_hold_ms = options->min_hold_ms,
	};
}

const char *settings_place(const struct settings *settings, char buf[static URI_PLACE_SIZE])
{
	return backend_place(settings->driver, &settings->uri, buf);
}
