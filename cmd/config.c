/* SPDX-License-Identifier: MIT */
/* Reads the configuration files: each line becomes an entry, or an error with path and line. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/textfile.h"

#define BLANKS " \t\r\v\f"
#define SECTION_MAX_BYTES 48

#define TTL_LEAST_MS 1000

/* With parse the value is a duration, with yes and no one of these two words, otherwise a text. */
static const struct key {
	const char *name;
	bool before_sections, in_section;
	int (*parse)(const char *text, int64_t *ms, struct error *err);
	const char *yes, *no;
} keys[] = {
	{ .name = "backend", .before_sections = true },
	{ .name = "ttl", .before_sections = true, .in_section = true, .parse = config_parse_ttl },
	{ .name = "wait", .before_sections = true, .in_section = true, .parse = config_parse_wait },
	{ .name = "contain", .before_sections = true, .yes = "yes", .no = "no" },
	{ .name = "log", .before_sections = true, .yes = "syslog", .no = "stderr" },
	{ .name = "require-backend", .before_sections = true, .yes = "yes", .no = "no" },
	{ .name = "uri", .in_section = true },
	{ .name = "kill-after", .in_section = true, .parse = duration_parse },
};

/* One file while it is being read. */
struct loader {
	struct config *config;
	const char *path;
	bool exposed;		/* others can read the file */
	int line;		/* the number of the current line, from 1 on */
	const char *section;	/* "" before the first one */
	size_t first;		/* the index of the file's first entry */
};

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

/* Return the first of the entries from an index on that has this section and key, or NULL. */
static const struct config_entry *find_entry(const struct config *config, size_t from,
					     const char *section, const char *key)
{
	for (size_t i = from; i < config->count; i++)
		if (!strcmp(config->entries[i].section, section) &&
		    !strcmp(config->entries[i].key, key))
			return &config->entries[i];
	return NULL;
}

const struct config_entry *config_get(const struct config *config, const char *section,
				      const char *key)
{
	return find_entry(config, 0, section, key);
}

static void add_entry(const struct loader *loader, const char *key, const char *value)
{
	struct config *config = loader->config;
	struct config_entry *entry;

	config->entries = memory_resize(config->entries, config->count + 1,
					sizeof(*config->entries));
	entry = &config->entries[config->count++];
	*entry = (struct config_entry){ .section = loader->section, .key = key, .value = value };
	snprintf(entry->location, sizeof(entry->location), "%.250s:%d", loader->path, loader->line);
}

static int check_value(const struct key *key, const char *value, struct error *err)
{
	int64_t ms;

	if (!*value)
		return error_set(err, ERROR_USAGE, 0, "'%s' has no value", key->name);
	if (key->parse && key->parse(value, &ms, err))
		return error_prefix(err, "%s", key->name);
	if (key->yes && strcmp(value, key->yes) != 0 && strcmp(value, key->no) != 0)
		return error_set(err, ERROR_USAGE, 0, "%s: write %s or %s", key->name, key->yes,
				 key->no);
	return 0;
}

static int set_entry(struct loader *loader, const char *name, const char *value, struct error *err)
{
	const bool in_section = loader->section[0];
	const struct key *key = keys, *end = keys + sizeof(keys) / sizeof(keys[0]);
	struct config *config = loader->config;
	char quoted[TEXT_QUOTE_SIZE];
	size_t length;

	while (key < end && (strcmp(key->name, name) != 0 ||
			     !(in_section ? key->in_section : key->before_sections)))
		key++;
	if (key == end)
		return error_set(err, ERROR_USAGE, 0, "unknown key '%s': %s",
				 text_quote(name, quoted, sizeof(quoted)), in_section
				 ? "a section has uri, ttl, wait and kill-after"
				 : "backend, ttl, wait, contain, log and require-backend belong "
				   "before the first section");
	if (find_entry(config, loader->first, loader->section, name))
		return error_set(err, ERROR_USAGE, 0, "'%s' is set twice", name);
	if (check_value(key, value, err))
		return -1;
	if (loader->exposed && !config->exposed_path && text_find_password(value, &length))
		config->exposed_path = loader->path;
	add_entry(loader, key->name, value);
	return 0;
}

/* Read a line that begins with '['. */
static int begin_section(struct loader *loader, char *line, struct error *err)
{
	char *name = line + 1, *end = strchr(name, ']');

	if (!end || !strchr(";#", end[1 + strspn(end + 1, BLANKS)]))
		return error_set(err, ERROR_USAGE, 0, "bad section: write [NAME] and nothing else");
	*end = '\0';
	/* The name is not quoted: it may be a misplaced URI with a password. */
	if (!*name || strlen(name) > SECTION_MAX_BYTES || !text_is_clean(name, strlen(name)) ||
	    strpbrk(name, " :/@["))
		return error_set(err, ERROR_USAGE, 0, "bad section: the name of a backend has 1 to "
				 "%d bytes, and no blank, ':', '/', '@' or '['", SECTION_MAX_BYTES);
	if (find_entry(loader->config, loader->first, name, ""))
		return error_set(err, ERROR_USAGE, 0, "section [%s] is given twice", name);
	loader->section = name;
	add_entry(loader, "", "");
	return 0;
}

/* Remove the blanks at both ends of text. Returns its new beginning. */
static char *trim_blanks(char *text)
{
	char *end;

	text += strspn(text, BLANKS);
	end = text + strlen(text);
	while (end > text && strchr(BLANKS, end[-1]))
		end--;
	*end = '\0';
	return text;
}

static int read_line(struct loader *loader, char *line, struct error *err)
{
	char *value;

	line = trim_blanks(line);
	if (!*line || *line == ';' || *line == '#')
		return 0;
	if (*line == '[')
		return begin_section(loader, line, err);
	/* A comment begins with a ';' or '#' behind a blank. */
	for (char *c = strpbrk(line, ";#"); c; c = strpbrk(c + 1, ";#"))
		if (strchr(BLANKS, c[-1]))
			*c = '\0';
	value = strpbrk(line, "=:");
	if (!value)
		return error_set(err, ERROR_USAGE, 0, "not a setting: write KEY = VALUE");
	*value++ = '\0';
	return set_entry(loader, trim_blanks(line), trim_blanks(value), err);
}

int config_load_text(struct config *config, char *text, const char *path, bool exposed,
		     struct error *err)
{
	struct loader loader = { .config = config, .path = path, .exposed = exposed,
				 .section = "", .first = config->count };
	char *line;

	/* Editors on Windows write a mark of UTF-8. */
	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	while ((line = strsep(&text, "\n"))) {
		loader.line++;
		if (read_line(&loader, line, err))
			return error_prefix(err, "%.250s:%d", path, loader.line);
	}
	for (size_t i = loader.first; i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];

		if (!*entry->key && !find_entry(config, loader.first, entry->section, "uri"))
			return error_set(err, ERROR_USAGE, 0, "%s: section [%s] has no uri",
					 entry->location, entry->section);
	}
	return 0;
}

int config_load(struct config *config, const char *path, struct error *err)
{
	struct textfile file;
	const int rc = textfile_read(&file, path, true, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	/* As ssh(1) and sudo(8): another user who can write the file could redirect our locks. */
	if (file.writable)
		return error_set(err, ERROR_USAGE, 0,
				 "%.250s: other users can write to it; chmod go-w it", path);
	if (file.owner != 0 && file.owner != geteuid())
		return error_set(err, ERROR_USAGE, 0, "%.250s: it belongs to user %u; it must "
				 "belong to root or to you", path, (unsigned)file.owner);
	return config_load_text(config, file.text, path, file.exposed, err);
}
