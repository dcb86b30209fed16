/* SPDX-License-Identifier: MIT */
/* Fuzzes the parser of configuration files. */
#include "../../cmd/config.h"
#include "base/error.h"
#include "fuzz.h"
#include "base/text.h"

static void check_duration(const struct config_entry *entry)
{
	struct error err;
	int64_t ms;

	if (!strcmp(entry->key, "ttl"))
		INVARIANT(!config_parse_ttl(entry->value, &ms, &err) && ms >= 1000);
	if (!strcmp(entry->key, "wait"))
		INVARIANT(!config_parse_wait(entry->value, &ms, &err) && ms >= 0);
}

static void check_config(const struct config *config, const char *text)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];

		/* values come out whole, as they stand in the text */
		INVARIANT(!*entry->value == !*entry->key && strstr(text, entry->value));
		INVARIANT(strstr(text, entry->section) && !strpbrk(entry->section, " :/\n"));
		INVARIANT(!*entry->section || config_get(config, entry->section, "uri"));
		check_duration(entry);
		/* and no key is there twice */
		INVARIANT(config_get(config, entry->section, entry->key) == entry);
	}
	INVARIANT(!config->exposed_path);
}

/* A second load of the same text, which it cuts, changes nothing: the first file wins. */
static void check_again(struct config *config, char *text)
{
	const size_t count = config->count;
	struct error err;

	INVARIANT(config_load_text(config, text, "again.conf", false, &err) == 0);
	INVARIANT(config->count == 2 * count);
	for (size_t i = 0; i < count; i++) {
		const struct config_entry *entry = &config->entries[i];

		INVARIANT(config_get(config, entry->section, entry->key) == entry);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *cut = fuzz_text(data, size);
	struct config config = { 0 };
	struct error err = { .kind = ERROR_NONE };

	if (config_load_text(&config, cut, "fuzz.conf", false, &err) == 0) {
		check_config(&config, text);
		check_again(&config, text);
	} else {
		INVARIANT(err.kind == ERROR_USAGE);
		INVARIANT(strncmp(err.message, "fuzz.conf:", 10) == 0);
		INVARIANT(text_is_clean(err.message, strlen(err.message)));
	}
	free(config.entries);
	free(cut);
	free(text);
	return 0;
}
