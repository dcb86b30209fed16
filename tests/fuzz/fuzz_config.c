/* SPDX-License-Identifier: MIT */
#include "../../cmd/config.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "fuzz.h"
#include "base/text.h"

static void check_ttl(const struct config_duration *ttl)
{
	INVARIANT(!ttl->set || (ttl->ms >= 1000 && ttl->ms <= DURATION_MAX_MS));
}

/* Only a wait may be without a limit. */
static void check_wait(int64_t wait_ms)
{
	INVARIANT(wait_ms == CLOCK_NEVER || (wait_ms >= 0 && wait_ms <= DURATION_MAX_MS));
}

static void check_config(const struct config *config, const char *text)
{
	size_t i;

	INVARIANT(!config->backend || strstr(text, config->backend));
	check_ttl(&config->ttl);
	check_wait(config->wait.ms);
	for (i = 0; i < config->backend_count; i++) {
		/* values come out whole, as they stand in the text */
		INVARIANT(*config->backends[i].uri);
		INVARIANT(strstr(text, config->backends[i].uri));
		INVARIANT(*config->backends[i].name);
		INVARIANT(strstr(text, config->backends[i].name));
		INVARIANT(!strpbrk(config->backends[i].name, " :/\n"));
		check_ttl(&config->backends[i].ttl);
		check_wait(config->backends[i].wait.ms);
		/* and no name is there twice */
		INVARIANT(config_find(config, config->backends[i].name) == &config->backends[i]);
	}
	INVARIANT(!config->exposed_path);
}

/* A second load of the same text changes nothing: what is set stays. */
static void check_again(struct config *config, const char *text)
{
	const int64_t ttl_ms = config->ttl.ms, wait_ms = config->wait.ms;
	const char *backend = config->backend;
	size_t count = config->backend_count;
	struct error err;

	INVARIANT(config_load_text(config, text, "again.conf", false, &err) == 0);
	INVARIANT(config->backend == backend && config->ttl.ms == ttl_ms &&
		  config->wait.ms == wait_ms);
	INVARIANT(config->backend_count == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct config config = { 0 };
	struct error err = { .kind = ERROR_NONE };

	if (config_load_text(&config, text, "fuzz.conf", false, &err) == 0) {
		check_config(&config, text);
		check_again(&config, text);
	} else {
		INVARIANT(err.kind == ERROR_USAGE);
		INVARIANT(strncmp(err.message, "fuzz.conf:", 10) == 0);
		INVARIANT(text_is_clean(err.message, strlen(err.message)));
	}
	config_finish(&config);
	INVARIANT(!config.backends);
	free(text);
	return 0;
}
