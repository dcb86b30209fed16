/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/textfile.h"
#include "lock/uri.h"

#define BLANKS " \t\r\v\f"
#define SECTION_MAX_BYTES 48

#define TTL_LEAST_MS 1000

/* With parse it is a duration, with yes and no one of these two words, and else a text. */
struct key {
	const char *name;
	size_t field;
	int (*parse)(const char *text, int64_t *ms, struct error *err);
	const char *yes, *no;
};

/* The keys before the first section, with offsets in struct config. */
static const struct key top_keys[] = {
	{ .name = "backend", .field = offsetof(struct config, backend) },
	{ .name = "ttl", .field = offsetof(struct config, ttl), .parse = config_parse_ttl },
	{ .name = "wait", .field = offsetof(struct config, wait), .parse = config_parse_wait },
	{ .name = "contain", .field = offsetof(struct config, contain), .yes = "yes", .no = "no" },
	{ .name = "log", .field = offsetof(struct config, log), .yes = "syslog", .no = "stderr" },
	{ .name = "require-backend", .field = offsetof(struct config, require_backend),
	  .yes = "yes", .no = "no" },
	{ .name = NULL },
};

/* The keys of a section, with offsets in struct config_backend. */
static const struct key section_keys[] = {
	{ .name = "uri", .field = offsetof(struct config_backend, uri) },
	{ .name = "ttl", .field = offsetof(struct config_backend, ttl), .parse = config_parse_ttl },
	{ .name = "wait", .field = offsetof(struct config_backend, wait),
	  .parse = config_parse_wait },
	{ .name = "kill-after", .field = offsetof(struct config_backend, kill_after),
	  .parse = duration_parse },
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

/* "PATH:LINE" of the current line, which the caller frees. */
static char *place_of(const struct loader *loader)
{
	return memory_format("%.250s:%d", loader->path, loader->line);
}

/* Returns false, for its callers to return. */
static bool __attribute__((format(printf, 2, 3)))
fail(struct loader *loader, const char *format, ...)
{
	char *place = place_of(loader), text[sizeof(loader->err->message)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error_set(loader->err, ERROR_USAGE, 0, "%s: %s", place, text);
	free(place);
	return false;
}

int config_parse_ttl(const char *text, int64_t *ms, struct error *err)
{
	if (duration_parse(text, ms, err))
		return -1;
	if (*ms >= TTL_LEAST_MS)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s is too short; the least is 1s", text);
}

int config_parse_wait(const char *text, int64_t *ms, struct error *err)
{
	if (strcmp(text, "none") != 0)
		return duration_parse(text, ms, err);
	*ms = CLOCK_NEVER;
	return 0;
}

/* Sets a field that no earlier file has set, and checks the value in any case. */
static bool set_field(struct loader *loader, const struct key *key, void *field, const char *value)
{
	struct config_duration duration = { .set = true }, *to = field;
	enum config_choice choice, *chosen = field;
	struct error bad;
	char **text = field;

	if (key->parse) {
		if (key->parse(value, &duration.ms, &bad))
			return fail(loader, "%s: %s", key->name, bad.message);
		if (!to->set)
			*to = duration;
	} else if (key->yes) {
		choice = !strcmp(value, key->yes) ? CONFIG_YES : CONFIG_NO;
		if (choice == CONFIG_NO && strcmp(value, key->no) != 0)
			return fail(loader, "%s: write %s or %s", key->name, key->yes, key->no);
		if (*chosen == CONFIG_UNSET)
			*chosen = choice;
	} else if (!*text) {
		*text = memory_copy(value);
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
		return fail(loader, "unknown key '%s': %s",
			    text_quote(name, strlen(name), quoted),
			    top ? "before the first section belong backend, ttl, wait, "
			    "contain, log and require-backend" :
			    "a section has uri, ttl, wait and kill-after");
	if (loader->has[key - keys])
		return fail(loader, "'%s' is set twice", name);
	if (!*value)
		return fail(loader, "'%s' has no value", name);
	loader->has[key - keys] = true;
	if (top && key->field == offsetof(struct config, backend) && !config->backend)
		config->backend_place = place_of(loader);
	if (!top && key->field == offsetof(struct config_backend, uri))
		config->backends[config->backend_count - 1].uri_place = place_of(loader);
	return set_field(loader, key, of + key->field, value);
}

/* The backend called name among those from first to before end, or NULL. */
static const struct config_backend *find(const struct config *config, size_t first, size_t end,
					 const char *name, size_t length)
{
	for (size_t i = first; i < end; i++)
		if (strlen(config->backends[i].name) == length &&
		    memcmp(config->backends[i].name, name, length) == 0)
			return &config->backends[i];
	return NULL;
}

/* Checks the latest section, whose last line has been read. */
static bool end_section(struct loader *loader)
{
	struct config *config = loader->config;

	if (config->backend_count == loader->first ||
	    config->backends[config->backend_count - 1].uri)
		return true;
	loader->line = loader->section_line;
	return fail(loader, "section [%s] has no uri",
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
	size_t length = strcspn(name, "]");
	struct config *config = loader->config;
	char quoted[TEXT_QUOTE_SIZE];

	if (!end || !strchr(";#", end[1 + strspn(end + 1, BLANKS)]))
		return fail(loader, "bad section: write [NAME] and nothing else");
	/* The name is not quoted: a URI that stands here by mistake may have a password. */
	if (length == 0 || length > SECTION_MAX_BYTES || !text_is_clean(name, length) ||
	    strcspn(name, " :/@[]") != length)
		return fail(loader,
			    "bad section: the name of a backend has 1 to %d bytes, "
			    "and no blank, ':', '/', '@' or '['", SECTION_MAX_BYTES);
	if (!end_section(loader))
		return false;
	if (find(config, loader->first, config->backend_count, name, length))
		return fail(loader, "section [%s] is there twice",
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
		return fail(loader, "not a setting: write KEY = VALUE");
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

static void free_backend(struct config_backend *backend)
{
	free(backend->name);
	memory_free_secret(backend->uri);
	free(backend->uri_place);
}

/* Removes the backends of this file that an earlier file has, too: the earlier one wins. */
static void drop_shadowed(struct config *config, size_t first)
{
	size_t kept = first;

	for (size_t i = first; i < config->backend_count; i++) {
		struct config_backend *entry = &config->backends[i];

		if (find(config, 0, first, entry->name, strlen(entry->name)))
			free_backend(entry);
		else
			config->backends[kept++] = *entry;
	}
	config->backend_count = kept;
}

int config_load_text(struct config *config, const char *text, const char *path, bool exposed,
		     struct error *err)
{
	struct loader loader = { .config = config, .err = err, .path = path };

	if (!load(&loader, text))
		return -1;
	drop_shadowed(config, loader.first);
	if (exposed && loader.has_password && !config->exposed_path)
		config->exposed_path = memory_copy(path);
	return 0;
}

/* As ssh(1) and sudo(8): who can write the file could choose where this user's locks are. */
static int check_trust(const struct textfile *file, const char *path, struct error *err)
{
	const uid_t self = geteuid();
	char shown[256], or_self[40] = "";

	text_clean(path, strlen(path), shown, sizeof(shown));
	if (file->writable)
		return error_set(err, ERROR_USAGE, 0,
				 "%s: other users can write to it; chmod go-w it", shown);
	if (file->owner == 0 || file->owner == self)
		return 0;
	if (self)
		snprintf(or_self, sizeof(or_self), " or to user %u", (unsigned)self);
	return error_set(err, ERROR_USAGE, 0, "%s: it belongs to user %u; it must belong to root%s",
			 shown, (unsigned)file->owner, or_self);
}

int config_load(struct config *config, const char *path, struct error *err)
{
	struct textfile file;
	int rc = textfile_read(&file, path, true, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	rc = check_trust(&file, path, err);
	if (!rc)
		rc = config_load_text(config, file.text, path, file.exposed, err);
	textfile_finish(&file);
	return rc;
}

const struct config_backend *config_find(const struct config *config, const char *name)
{
	return find(config, 0, config->backend_count, name, strlen(name));
}

void config_finish(struct config *config)
{
	for (size_t i = 0; i < config->backend_count; i++)
		free_backend(&config->backends[i]);
	free(config->backends);
	memory_free_secret(config->backend);
	free(config->backend_place);
	free(config->exposed_path);
	memset(config, 0, sizeof(*config));
}
