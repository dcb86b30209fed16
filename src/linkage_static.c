/* SPDX-License-Identifier: MIT */
#include "linkage.h"

#include <errno.h>
#include <netdb.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "error.h"
#include "net.h"
#include "uri.h"

#ifdef STATIC_MODULE
extern const struct backend_module dlock_backend_module;

static const struct backend_module *built_in(const char *name)
{
	return strcmp(name, STATIC_MODULE) ? NULL : &dlock_backend_module;
}
#else
static const struct backend_module *built_in(const char *name)
{
	(void)name;
	return NULL;
}
#endif

static bool needs_module(const struct backend_driver *driver)
{
	return driver->module && !built_in(driver->module);
}

static bool suits(const struct backend_driver *driver, const struct uri *uri)
{
	if (needs_module(driver))
		return false;
	for (size_t i = 0; i < uri->host_count; i++)
		if (net_needs_resolver(uri->hosts[i].name))
			return false;
	return true;
}

/* Returns only when it cannot be executed. */
static void *become(const char *path, void *context)
{
	execv(path, context);
	return NULL;
}

int linkage_suit(const struct backend_driver *driver, const struct uri *uri, char **argv,
	      struct error *err)
{
	if (suits(driver, uri))
		return 0;
	linkage_find("dlock-full", become, argv);
	error_set(err, ERROR_INTERNAL, errno, "%s: needs the program dlock-full, which cannot "
		  "be started", needs_module(driver) ? driver->schemes[0] : "a host's name");
	return -1;
}

const struct backend_module *linkage_module(const char *name, struct error *err)
{
	const struct backend_module *module = built_in(name);

	/* Not reached in a program that suits the URI. */
	if (!module)
		error_set(err, ERROR_INTERNAL, 0, "no module for %s in the static program", name);
	return module;
}

/*
 * In place of those of the C library, which would need its shared objects at run time, and
 * which libraries call also for what is an address already. No URI that suits this program
 * leads to another one.
 */
struct literal {
	struct addrinfo info;
	struct sockaddr_storage address;
};

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	struct literal *literal = calloc(1, sizeof(*literal));
	struct addrinfo *info;

	if (!literal)
		return EAI_MEMORY;
	*found = info = &literal->info;
	info->ai_addr = (struct sockaddr *)&literal->address;
	if (!host || !net_literal(host, (uint16_t)(service ? atoi(service) : 0),
				  &literal->address, &info->ai_addrlen)) {
		free(literal);
		return EAI_NONAME;
	}
	info->ai_family = literal->address.ss_family;
	info->ai_socktype = hints ? hints->ai_socktype : 0;
	info->ai_protocol = hints ? hints->ai_protocol : 0;
	return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
	free((struct literal *)found);
}

/* ZooKeeper's library asks for these, for its log; they would ask the name service switch. */
int getpwuid_r(uid_t uid, struct passwd *entry, char *buf, size_t size, struct passwd **found)
{
	(void)uid, (void)entry, (void)buf, (void)size;
	*found = NULL;
	return ENOENT;
}

char *getlogin(void)
{
	return NULL;
}
