/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/textfile.h"
#include "lock/uri.h"

#define BLANKS " \t\r\v\f"
#define SECTION_MAX_BYTES 48

enum key_kind { KEY_TEXT, KEY_DURATION, KEY_WAIT, KEY_CHOICE };

struct key {
	const char *name;
	enum key_kind kind;
	size_t field;
	const char *yes, *no;	/* KEY_CHOICE: the two values */
};

/* The keys before the first section, with offsets in struct config. */
static const struct key top_keys[] = {
	{ "backend", KEY_TEXT, offsetof(struct config, backend), NULL, NULL },
	{ "ttl", KEY_DURATION, offsetof(struct config, ttl), NULL, NULL },
	{ "wait", KEY_WAIT, offsetof(struct config, wait), NULL, NULL },
	{ "contain", KEY_CHOICE, offsetof(struct config, contain), "yes", "no" },
	{ "log", KEY_CHOICE, offsetof(struct config, log), "syslog", "stderr" },
	{ .name = NULL },
};

/* The keys of a section, with offsets in struct config_backend. */
static const struct key section_keys[] = {
	{ "uri", KEY_TEXT, offsetof(struct config_backend, uri), NULL, NULL },
	{ "ttl", KEY_DURATION, offsetof(struct config_backend, ttl), NULL, NULL },
	{ "wait", KEY_WAIT, offsetof(struct config_backend, wait), NULL, NULL },
	{ "kill-after", KEY_DURATION, offsetof(struct config_backend, kill_after), NULL, NULL },
	{ .name = NULL },
};

/* More than either table has. */
#define KEYS_MAX 8

/* One file while it is being read. */
struct loader {
	struct config *config;
	struct error *err;
	const char *path;
	int line;		/* the number of the current line, from 1 on */
	bool has[KEYS_MAX];	/* the key has stood already, in this section or before all */
	bool has_password;
	size_t first;		/* in config->backends: the first backend of this file */
	int section_line;	/* of the latest '[' */
};

/* Returns false, for its callers to return. */
static bool __attribute__((format(printf, 3, 4)))
fail(struct loader *loader, int line, const char *format, ...)
{
	char shown[256], text[sizeof(loader->err->message)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_clean(loader->path, strlen(loader->path), shown, sizeof(shown));
	error_set(loader->err, ERROR_USAGE, 0, "%s:%d: %s", shown, line, text);
	return false;
}

/* "PATH:LINE" of the current line, which the caller frees. */
static char *place_of(const struct loader *loader)
{
	char shown[256], place[sizeof(shown) + 16];

	text_clean(loader->path, strlen(loader->path), shown, sizeof(shown));
	snprintf(place, sizeof(place), "%s:%d", shown, loader->line);
	return memory_copy(place);
}

static bool read_duration(struct loader *loader, const struct key *key, const char *value,
			  int64_t *ms)
{
	struct error bad;

	if (key->kind == KEY_WAIT && !strcmp(value, CONFIG_NO_LIMIT)) {
		*ms = CLOCK_NEVER;
		return true;
	}
	return !duration_parse(value, ms, &bad) ||
	       fail(loader, loader->line, "%s: %s", key->name, bad.message);
}

/* Sets a field that no earlier file has set, and checks the value in any case. */
static bool set_field(struct loader *loader, const struct key *key, void *field, const char *value)
{
	struct config_duration duration = { .set = true }, *to = field;
	enum config_choice choice, *chosen = field;
	char **text = field;

	switch (key->kind) {
	case KEY_TEXT:
		if (!*text)
			*text = memory_copy(value);
		break;
	case KEY_DURATION:
	case KEY_WAIT:
		if (!read_duration(loader, key, value, &duration.ms))
			return false;
		if (!to->set)
			*to = duration;
		break;
	case KEY_CHOICE:
		choice = !strcmp(value, key->yes) ? CONFIG_YES : CONFIG_NO;
		if (choice == CONFIG_NO && strcmp(value, key->no) != 0)
			return fail(loader, loader->line, "%s: write %s or %s", key->name,
				    key->yes, key->no);
		if (*chosen == CONFIG_UNSET)
			*chosen = choice;
		break;
	}
	return true;
}

static bool set(struct loader *loader, const char *name, const char *value)
{
	struct config *config = loader->config;
	const bool top = config->backend_count == loader->first;
	const struct key *keys = top ? top_keys : section_keys, *key = keys;
	char *of = top ? (char *)config
		       : (char *)&config->backends[config->backend_count - 1];
	char quoted[TEXT_QUOTE_SIZE];
	size_t length;

	if (uri_find_password(value, &length))
		loader->has_password = true;
	while (key->name && strcmp(key->name, name) != 0)
		key++;
	if (!key->name)
		return fail(loader, loader->line, "unknown key \"%s\": %s",
			    text_quote(name, strlen(name), quoted),
			    top ? "before the first section belong backend, ttl, wait, "
			    "contain and log" :
			    "a section has uri, ttl, wait and kill-after");
	if (loader->has[key - keys])
		return fail(loader, loader->line, "\"%s\" is set twice", name);
	if (!*value)
		return fail(loader, loader->line, "\"%s\" has no value", name);
	loader->has[key - keys] = true;
	if (top && key->field == offsetof(struct config, backend) && !config->backend)
		config->backend_place = place_of(loader);
	if (!top && key->field == offsetof(struct config_backend, uri))
		config->backends[config->backend_count - 1].uri_place = place_of(loader);
	return set_field(loader, key, of + key->field, value);
}

/* Checks the latest section, whose last line has been read. */
static bool end_section(struct loader *loader)
{
	struct config *config = loader->config;

	if (config->backend_count == loader->first ||
	    config->backends[config->backend_count - 1].uri)
		return true;
	return fail(loader, loader->section_line, "section [%s] has no uri",
		    config->backends[config->backend_count - 1].name);
}

static void add_backend(struct config *config, const char *name, size_t length)
{
	config->backends = memory_resize(config->backends, config->backend_count + 1,
					 sizeof(*config->backends));
	config->backends[config->backend_count++] = (struct config_backend){
		.name = memory_copy_part(name, length),
	};
}

/* A line that begins with '['. */
static bool begin_section(struct loader *loader, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');
	size_t length = strcspn(name, "]"), i;
	struct config *config = loader->config;
	char quoted[TEXT_QUOTE_SIZE];

	if (!end || !strchr(";#", end[1 + strspn(end + 1, BLANKS)]))
		return fail(loader, loader->line, "bad section: write [NAME] and nothing else");
	/* The name is not quoted: a URI that stands here by mistake may have a password. */
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
	memset(loader->has, 0, sizeof(loader->has));
	add_backend(config, name, length);
	return true;
}

/* Takes the blanks off both ends of text. Returns its new beginning. */
static char *trim(char *text)
{
	char *end;

	text += strspn(text, BLANKS);
	end = text + strlen(text);
	while (end > text && strchr(BLANKS, end[-1]))
		end--;
	*end = '\0';
	return text;
}

/* A ';' behind a blank begins a comment. */
static void cut_comment(char *line)
{
	for (char *c = line; *c; c++)
		if (c > line && *c == ';' && strchr(BLANKS, c[-1])) {
			*c = '\0';
			return;
		}
}

static bool read_line(struct loader *loader, char *line)
{
	char *value;

	line = trim(line);
	if (!*line || *line == ';' || *line == '#')
		return true;
	if (*line == '[')
		return begin_section(loader, line);
	cut_comment(line);
	value = strpbrk(line, "=:");
	if (!value)
		return fail(loader, loader->line, "not a setting: write KEY = VALUE");
	*value++ = '\0';
	return set(loader, trim(line), trim(value));
}

static bool load(struct loader *loader, const char *text)
{
	char *copy = memory_copy(text), *rest = copy, *line;
	bool good = true;

	loader->first = loader->config->backend_count;
	/* A mark of UTF-8, which editors on Windows write. */
	if (!strncmp(rest, "\xef\xbb\xbf", 3))
		rest += 3;
	while (good && (line = strsep(&rest, "\n"))) {
		loader->line++;
		good = read_line(loader, line);
	}
	explicit_bzero(copy, strlen(text));
	free(copy);
	return good && end_section(loader);
}

/* Removes the backends of this file that an earlier file has, too: the earlier one wins. */
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
		free(entry.uri_place);
	}
	config->backend_count = kept;
}

static int load_text(struct config *config, const char *text, const char *path,
		     bool exposed, struct error *err)
{
	struct loader loader = { .config = config, .err = err, .path = path };

	if (!load(&loader, text))
		return -1;
	drop_shadowed(config, loader.first);
	if (!exposed || !loader.has_password || config->password_exposed)
		return 0;
	config->password_exposed = true;
	config->exposed_path = memory_copy(path);
	return 0;
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

const struct config_backend *config_find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->backend_count; i++)
		if (strcmp(config->backends[i].name, name) == 0)
			return &config->backends[i];
	return NULL;
}

void config_finish(struct config *config)
{
	size_t i;

	for (i = 0; i < config->backend_count; i++) {
		free(config->backends[i].name);
		memory_free_secret(config->backends[i].uri);
		free(config->backends[i].uri_place);
	}
	free(config->backends);
	memory_free_secret(config->backend);
	free(config->backend_place);
	free(config->exposed_path);
	memset(config, 0, sizeof(*config));
}
