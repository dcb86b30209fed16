/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "backends/registry.h"
#include "options.h"

#define DEFAULT_BACKEND "file:"
#define LEAST_TTL_MS 1000
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

static int load_files(struct settings *settings, struct error *err)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *rest = "/dlock.conf";
	char path[PATH_MAX];

	if (!base || base[0] != '/') {
		base = getenv("HOME");
		rest = "/.config/dlock.conf";
	}
	/* A path that does not fit is longer than that of any file. */
	if (base && base[0] == '/' && strlen(base) + strlen(rest) < sizeof(path)) {
		stpcpy(stpcpy(path, base), rest);
		if (load_file(settings, path, err))
			return -1;
	}
	return load_file(settings, "/etc/dlock.conf", err);
}

/* What the option or else the environment says, or NULL. *source: where, for messages. */
static const char *choose(const char *option, const char *option_name, const char *variable,
			  const char **source)
{
	const char *value;

	*source = option_name;
	if (option)
		return option;
	value = getenv(variable);
	*source = variable;
	if (value && value[0])
		return value;
	*source = "configuration file";
	return NULL;
}

/*
 * *ms: by the user's words, or the backend's section, or the rest of the configuration, or else the
 * default that *ms has already.
 */
static int choose_duration(const char *option, const char *option_name, const char *variable,
			   const struct config_duration *own, const struct config_duration *common,
			   int64_t least_ms, int64_t *ms, struct error *err)
{
	const struct config_duration *configured = own && own->set ? own : common;
	char shown[DURATION_TEXT_SIZE];
	const char *source, *text = choose(option, option_name, variable, &source);

	if (text && duration_parse(text, ms, err))
		return error_prefix(err, "%s", source);
	if (!text && configured->set)
		*ms = configured->ms;
	if (*ms >= least_ms)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s%s: %s is too short; the least is 1s", source,
			 text ? "" : ": ttl",
			 text ? text : duration_format(*ms, shown, sizeof(shown)));
}

static int choose_wait(struct settings *settings, const struct options *options,
		       const struct config_backend *own, struct error *err)
{
	const char *source, *text = choose(options->wait, "--wait", "DLOCK_WAIT", &source);

	settings->wait_ms = CLOCK_NEVER;
	if (options->nonblock)
		settings->wait_ms = 0;
	if (options->nonblock || (text && !strcmp(text, CONFIG_NO_LIMIT)))
		return 0;
	return choose_duration(options->wait, "--wait", "DLOCK_WAIT", own ? &own->wait : NULL,
			       &settings->config.wait, 0, &settings->wait_ms, err);
}

/* own: the section of the backend, or NULL. */
static int choose_durations(struct settings *settings, const struct options *options,
			    const struct config_backend *own, struct error *err)
{
	settings->ttl_ms = BACKEND_TTL_MS;
	if (choose_duration(options->ttl, "--ttl", "DLOCK_TTL", own ? &own->ttl : NULL,
			    &settings->config.ttl, LEAST_TTL_MS, &settings->ttl_ms, err) ||
	    choose_wait(settings, options, own, err))
		return -1;
	settings->asked_ttl_ms = options->ttl ? settings->ttl_ms : 0;
	settings->kill_after_ms = KILL_AFTER_MS;
	if (options->kill_after_ms >= 0)
		settings->kill_after_ms = options->kill_after_ms;
	else if (own && own->kill_after.set)
		settings->kill_after_ms = own->kill_after.ms;
	return 0;
}

/* What uri_text, which is no URI, is most likely. */
static int refuse_backend(const struct settings *settings, const char *source, struct error *err)
{
	if (settings->uri_text[0] == '/')
		error_set(err, ERROR_USAGE, 0, "%s: '%s' is a path; a directory for locks is "
			  "file://%s", source, settings->uri_text, settings->uri_text);
	else if (settings->unreadable.kind != ERROR_NONE)
		*err = settings->unreadable;
	else
		error_set(err, ERROR_USAGE, 0,
			  "%s: '%s' is neither a URI nor a section of the configuration file",
			  source, settings->uri_text);
	return -1;
}

/* A name without a colon is that of a section; everything else is a URI. *own: the section. */
static int choose_backend(struct settings *settings, const struct options *options,
			  const struct config_backend **own, struct error *err)
{
	const char *source;

	settings->uri_text = choose(options->backend, "--backend", "DLOCK_BACKEND", &source);
	if (!settings->uri_text && settings->unreadable.kind != ERROR_NONE &&
	    !settings->config.backend) {
		*err = settings->unreadable;
		return -1;
	}
	if (!settings->uri_text && settings->config.backend) {
		settings->uri_text = settings->config.backend;
		source = settings->config.backend_place;
	}
	if (!settings->uri_text)
		settings->uri_text = DEFAULT_BACKEND;
	*own = config_find(&settings->config, settings->uri_text);
	if (*own) {
		settings->uri_text = (*own)->uri;
		source = (*own)->uri_place;
	} else if (!strchr(settings->uri_text, ':')) {
		return refuse_backend(settings, source, err);
	}
	if (uri_parse(&settings->uri, settings->uri_text, err))
		return error_prefix(err, "%s", source);
	settings->driver = backend_find(&settings->uri, err);
	if (!settings->driver && *own)
		error_prefix(err, "%s", source);
	return settings->driver ? 0 : -1;
}

int settings_load(struct settings *settings, struct options *options, struct error *err)
{
	const struct config_backend *own;
	const char *exposed = NULL;

	*settings = (struct settings){ 0 };
	if (load_files(settings, err) || choose_backend(settings, options, &own, err) ||
	    choose_durations(settings, options, own, err))
		return -1;
	settings->contain = options->contain == CONTAIN_YES ||
			    (options->contain == CONTAIN_UNSAID &&
			     settings->config.contain == CONFIG_YES);
	settings->syslog = options->syslog || settings->config.log == CONFIG_YES;
	options_blank(options);
	if (uri_load_passwords(&settings->uri, &exposed, err))
		return -1;
	if (exposed)
		snprintf(settings->warning, sizeof(settings->warning),
			 "%.300s: others can read this password; chmod 600 it", exposed);
	else if (settings->config.password_exposed)
		snprintf(settings->warning, sizeof(settings->warning),
			 "%.300s: others can read the password in it; chmod 600 it",
			 settings->config.exposed_path);
	return 0;
}

void settings_finish(struct settings *settings)
{
	uri_finish(&settings->uri);
	config_finish(&settings->config);
}

const char *settings_place(const struct settings *settings, char buf[static URI_PLACE_SIZE])
{
	return backend_place(settings->driver, &settings->uri, buf);
}
