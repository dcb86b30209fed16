/* SPDX-License-Identifier: MIT */
#include "linkage.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "backend.h"
#include "error.h"
#include "net.h"
#include "uri.h"

static bool suits(const struct backend_driver *driver, const struct uri *uri)
{
	if (driver->module)
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
		  "be started", driver->module ? driver->schemes[0] : "a host's name");
	return -1;
}

/* Not reached in a program that suits the URI. */
const struct backend_module *linkage_module(const char *name, struct error *err)
{
	error_set(err, ERROR_INTERNAL, 0, "no module for %s in the static program", name);
	return NULL;
}

/*
 * In place of those of the C library, which would need its shared objects at run time, and
 * which no URI that suits this program leads to.
 */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	(void)host, (void)service, (void)hints, (void)found;
	return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *found)
{
	(void)found;
}
