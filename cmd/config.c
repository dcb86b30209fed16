/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/text.h"
#include "base/textfile.h"
#include "lock/uri.h"

/*
 * Debian's inih takes its limits from variables, upstream's was compiled with
 * them: weak, so that both link. Upstream's lines have 198 bytes at most.
 */
extern bool ini_use_stack __attribute__((weak));
extern bool ini_stop_on_first_error __attribute__((weak));
extern int ini_max_line __attribute__((weak));
extern int ini_initial_alloc __attribute__((weak));

#define LINE_BUFFER_SIZE 4096

/* inih silently cuts the name of a section to 49 bytes. */
#define SECTION_MAX_BYTES 48

/* One file while it is being read. */
struct loader {
	struct config *config;
	struct error *err;
	const char *path;
	const char *next;	/* where in the text the next line begins */
	int line;		/* counts from 1 */
	bool failed;
	bool has_backend, has_ttl, has_wait, has_contain;
	bool has_password;
	size_t first;		/* of config->backends: where this file's begin */
	int section_line;	/* of the latest '[' */
};

static bool fail(struct loader *loader, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Keeps the first error. False, for the callers to return. */
static bool fail(struct loader *loader, int line, const char *format, ...)
{
	char shown[256], text[sizeof(loader->err->message)];
	va_list args;

	if (loader->failed)
		return false;
	loader->failed = true;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_clean(loader->path, strlen(loader->path), shown, sizeof(shown));
	error_set(loader->err, ERROR_USAGE, 0, "%s:%d: %s", shown, line, text);
	return false;
}

static bool fail_memory(struct loader *loader)
{
	if (!loader->failed)
		error_set(loader->err, ERROR_INTERNAL, ENOMEM, "cannot read the configuration");
	loader->failed = true;
	return false;
}

/* A setting at the top of the file. What an earlier file has set stays. */
static bool set(struct loader *loader, char **field, bool *given, const char *name,
		const char *value)
{
	if (*given)
		return fail(loader, loader->line, "\"%s\" is set twice", name);
	*given = true;
	if (!*value)
		return fail(loader, loader->line, "\"%s\" has no value", name);
	if (*field)
		return true;
	*field = strdup(value);
	return *field || fail_memory(loader);
}

static bool set_duration(struct loader *loader, char **field, bool *given,
			 const char *name, const char *value)
{
	struct error bad;
	int64_t ms;

	if (!set(loader, field, given, name, value))
		return false;
	if (duration_parse(value, &ms, &bad) < 0)
		return fail(loader, loader->line, "%s: %s", name, bad.message);
	return true;
}

static bool set_choice(struct loader *loader, char **field, bool *given, const char *name,
		       const char *value)
{
	if (!set(loader, field, given, name, value))
		return false;
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return fail(loader, loader->line, "%s: want yes or no", name);
	return true;
}

static bool set_uri(struct loader *loader, const char *value)
{
	struct config *config = loader->config;
	char **uri = &config->backends[config->backend_count - 1].uri;
	bool given = *uri != NULL;

	return set(loader, uri, &given, "uri", value);
}

/* For inih: one "key = value" line. 0 on failure. */
static int handle(void *user, const char *section, const char *key, const char *value)
{
	struct loader *loader = user;
	struct config *config = loader->config;
	bool top = config->backend_count == loader->first;
	char quoted[TEXT_QUOTE_SIZE];
	size_t length;

	(void)section;	/* begin_section() knows it, at its full length */
	if (uri_find_password(value, &length))
		loader->has_password = true;
	if (top && strcmp(key, "backend") == 0)
		return set(loader, &config->backend, &loader->has_backend, key, value);
	if (top && strcmp(key, "ttl") == 0)
		return set_duration(loader, &config->ttl, &loader->has_ttl, key, value);
	if (top && strcmp(key, "wait") == 0)
		return set_duration(loader, &config->wait, &loader->has_wait, key, value);
	if (top && strcmp(key, "contain") == 0)
		return set_choice(loader, &config->contain, &loader->has_contain, key, value);
	if (!top && strcmp(key, "uri") == 0)
		return set_uri(loader, value);
	return fail(loader, loader->line, "unknown key \"%s\": %s",
		    text_quote(key, strlen(key), quoted),
		    top ? "before the first section belong backend, ttl, wait and contain" :
		    "a section has only uri");
}

/* What could be told of the latest section only after its last line. */
static bool end_section(struct loader *loader)
{
	struct config *config = loader->config;

	if (config->backend_count == loader->first ||
	    config->backends[config->backend_count - 1].uri)
		return true;
	return fail(loader, loader->section_line, "section [%s] has no uri",
		    config->backends[config->backend_count - 1].name);
}

static bool add_backend(struct loader *loader, const char *name, size_t length)
{
	struct config *config = loader->config;
	struct config_backend *grown;

	grown = realloc(config->backends, (config->backend_count + 1) * sizeof(*grown));
	if (!grown)
		return fail_memory(loader);
	config->backends = grown;
	grown += config->backend_count;
	grown->uri = NULL;
	grown->name = strndup(name, length);
	if (!grown->name)
		return fail_memory(loader);
	config->backend_count++;
	return true;
}

/*
 * A line that begins with '['. Stands here, since inih says nothing of a section
 * without keys and of one that comes twice, cuts its name and passes over what
 * follows the ']'.
 */
static bool begin_section(struct loader *loader, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');
	size_t length = strcspn(name, "]"), i;
	struct config *config = loader->config;
	char quoted[TEXT_QUOTE_SIZE];

	if (!end || !strchr("\n;#", end[1 + strspn(end + 1, " \t\r")]))
		return fail(loader, loader->line, "bad section: write [NAME] and nothing else");
	/* Not quoted: who writes a URI here, may have written its password too. */
	if (length == 0 || length > SECTION_MAX_BYTES || !text_is_clean(name, length) ||
	    strcspn(name, " :/@[]") != length)
		return fail(loader, loader->line,
			    "bad section: the name of a backend has 1 to %d bytes, "
			    "and no blank, ':', '/', '@' or '['", SECTION_MAX_BYTES);
	if (!end_section(loader))
		return false;
	for (i = loader->first; i < config->backend_count; i++)
		if (strlen(config->backends[i].name) == length &&
		    memcmp(config->backends[i].name, name, length) == 0)
			return fail(loader, loader->line, "section [%s] is there twice",
				    text_quote(name, length, quoted));
	loader->section_line = loader->line;
	return add_backend(loader, name, length);
}

/*
 * For inih: gives out one line, as fgets() would. Without what is blank at its
 * beginning, as inih would take an indented line for more of the value above.
 */
static char *read_line(char *buf, int size, void *stream)
{
	struct loader *loader = stream;
	const char *s = loader->next;
	size_t length;

	if (loader->failed || !*s)
		return NULL;
	loader->line++;
	if (loader->line == 1 && strncmp(s, "\xef\xbb\xbf", 3) == 0)
		s += 3;
	s += strspn(s, " \t\r\v\f");
	length = strcspn(s, "\n");
	loader->next = s + length + (s[length] == '\n');
	if (length + 2 > (size_t)size) {
		fail(loader, loader->line, "line too long: %zu bytes, at most %d", length,
		     size - 2);
		return NULL;
	}
	memcpy(buf, s, length);
	memcpy(buf + length, "\n", 2);
	return *buf == '[' && !begin_section(loader, buf) ? NULL : buf;
}

static void set_limits(void)
{
	if (&ini_use_stack)
		ini_use_stack = false;
	if (&ini_stop_on_first_error)
		ini_stop_on_first_error = true;
	if (&ini_max_line)
		ini_max_line = LINE_BUFFER_SIZE;
	if (&ini_initial_alloc)
		ini_initial_alloc = LINE_BUFFER_SIZE;
}

/* ini_parse_stream() has one pointer for the reader and one for the handler. */
static int load(struct loader *loader, const char *text)
{
	int rc;

	loader->next = text;
	loader->first = loader->config->backend_count;
	set_limits();
	rc = ini_parse_stream(read_line, loader, handle, loader);
	if (rc > 0)	/* the first line that inih or a callback did not like */
		fail(loader, rc, "not a setting: write KEY = VALUE");
	else if (rc < 0)
		fail_memory(loader);
	else if (!loader->failed)
		end_section(loader);
	return loader->failed ? -1 : 0;
}

/* Takes out what this file has and an earlier one has too: the earlier one wins. */
static void drop_shadowed(struct config *config, size_t first)
{
	size_t kept = first, i, j;

	for (i = first; i < config->backend_count; i++) {
		struct config_backend entry = config->backends[i];

		for (j = 0; j < first; j++)
			if (strcmp(config->backends[j].name, entry.name) == 0)
				break;
		if (j == first) {
			config->backends[kept++] = entry;
			continue;
		}
		free(entry.name);
		free(entry.uri);
	}
	config->backend_count = kept;
}

static int load_text(struct config *config, const char *text, const char *path,
		     bool exposed, struct error *err)
{
	struct loader loader = { .config = config, .err = err, .path = path };

	if (load(&loader, text) < 0)
		return -1;
	drop_shadowed(config, loader.first);
	if (!exposed || !loader.has_password || config->password_exposed)
		return 0;
	config->password_exposed = true;
	config->exposed_path = strdup(path);
	if (!config->exposed_path)
		fail_memory(&loader);
	return config->exposed_path ? 0 : -1;
}

int config_load_text(struct config *config, const char *text, const char *path,
		     struct error *err)
{
	return load_text(config, text, path, false, err);
}

int config_load(struct config *config, const char *path, struct error *err)
{
	struct textfile file;
	int rc = textfile_read(&file, path, true, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	rc = load_text(config, file.text, path, file.exposed, err);
	textfile_finish(&file);
	return rc;
}

const char *config_uri(const struct config *config, const char *name)
{
	size_t i;

	for (i = 0; i < config->backend_count; i++)
		if (strcmp(config->backends[i].name, name) == 0)
			return config->backends[i].uri;
	return NULL;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void config_finish(struct config *config)
{
	size_t i;

	for (i = 0; i < config->backend_count; i++) {
		free(config->backends[i].name);
		free_secret(config->backends[i].uri);
	}
	free(config->backends);
	free_secret(config->backend);
	free(config->ttl);
	free(config->wait);
	free(config->contain);
	free(config->exposed_path);
	memset(config, 0, sizeof(*config));
}
