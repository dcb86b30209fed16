/* SPDX-License-Identifier: MIT */
/* The command version prints the version, and which parts of this build can be loaded. */
#include <errno.h>

#include "base/module.h"
#include "base/version.h"
#include "session.h"

#define PARTS_MAX 8

/* A backend, or TLS. */
struct part {
	const char *name;
	const char *module;		/* NULL: it is in the program */
	const char *library;		/* NULL: it needs none, or cannot be used */
	struct error err;		/* why it cannot be used */
};

static struct part parts[PARTS_MAX];
static size_t part_count;

static void load_part(const char *name, const char *module, const char *library)
{
	struct part *part = &parts[part_count++];
	const struct module *loaded;

	*part = (struct part){ .name = name, .module = module, .library = library };
	if (!module)
		return;
	loaded = module_load(module, &part->err);
	part->library = loaded ? loaded->library() : NULL;
}

/* Try to load all parts of this build. */
static void load_parts(void)
{
	const struct backend_driver *last = NULL;

	for (const struct backend_driver *d = backend_drivers; d->scheme; d++) {
		/* An alias has neither, and the next row may be another scheme of the backend. */
		if ((!d->ops && !d->module) || (last && d->ops && d->ops == last->ops))
			continue;
		last = d;
		load_part(d->scheme, d->module, d->library ? d->library() : NULL);
	}
#ifndef WITHOUT_TLS
	load_part("TLS", "tls", NULL);
#endif
}

/* A part that is not installed is no failure; a part that does not load is one. */
int command_version(struct session *session, struct error *err)
{
	int status = 0;

	(void)err;

	load_parts();
	printf("dlock %s\nwith file", DLOCK_VERSION);
	for (size_t i = 1; i < part_count; i++)
		if (!parts[i].err.kind)
			printf(", %s", parts[i].name);
	printf("\n");
	for (const struct part *part = parts; part < parts + part_count; part++) {
		if (part->library && session->options.verbosity > 0)
			printf("%s: %s\n", part->name, part->library);
		else if (part->err.kind && part->err.errnum == ENOENT)
			printf("%s: not installed; apt install dlock-%s\n", part->name,
			       part->module);
		else if (part->err.kind)
			status = log_fail(&part->err);
	}
	return status;
}
