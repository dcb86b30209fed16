/* SPDX-License-Identifier: MIT */
/*
 * Locks in etcd, over its JSON gateway: HTTP by http/, JSON by json-c.
 *
 * A process that wants the lock makes a key below PREFIX/NAME/, an entry of the queue, which is
 * attached to a lease. The order is that of the keys' creation, and an entry holds if no entry
 * before it excludes it (hold_blocker()). These are the keys of Go's concurrency.Mutex, so that
 * `etcdctl lock` and dlock exclude each other. The fence is create_revision.
 *
 * The number of the key's first lease is made of the token (queue.c). So each request may be
 * repeated, at another member, too: a lease that is there is not granted twice, and the transaction
 * that makes the key does nothing if the key is there. A lease keeps the TTL that it was granted
 * with. Another TTL, or a minimum hold, takes another lease, to which the key moves; it keeps its
 * place. The server numbers that lease. If its reply is lost, it ends unused.
 *
 * The lease. The leader ends leases. A new leader begins all of them again, so they never end
 * early, with one exception: a leader that was replaced, and has not noticed, may still answer a
 * keepalive (etcd 12528, 15247). That extends nothing. So a keepalive counts only after a read or
 * write of our key, for which a majority confirms the leader. Both must be of the same term: a
 * member's term is that of the last change that it has applied, and it only grows. If it is the
 * same before the keepalive and in the answer to the read, one leader was in office all the time.
 *
 * Waiting. A waiter watches the last entry before its own that excludes it, over a connection of
 * its own. When that has ended, it writes when it began to hold and reads the queue, of which an
 * exclusive one needs the last entry alone, in one transaction. A waiter for a slot watches all
 * entries, counts those before its own, and asks when there are few enough. Each watches its own
 * key, too, as does a holder: somebody may break the lock, or an old leader may end the lease. A
 * waiter that is dead or stopped delays the others until its lease ends, as with `etcdctl lock`.
 *
 * A release removes the key, which tells whether it was still there, and then revokes the lease.
 *
 * All reads and changes are one request (etcd_read()): a range of the queue, alone or behind a
 * change in one transaction. Whatever it shows of our entry is taken over, its lease, too, because
 * another process with the token may have moved it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "etcd.h"
#include "lock/uri_tls.h"

#define TLS_HINT    "TLS is chosen by etcds: or ?tls=yes"
/* Leaves room in a key for a lock's name. */
#define PREFIX_MOST 300

static void close_backend(struct backend *backend)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);

	etcd_watch_close(etcd);
	http_close(&etcd->main);
	close(etcd->set_fd);
	json_object_put(etcd->reply);
	memory_free_secret(etcd->auth);
	etcd_forget(&etcd->own);
	free(etcd->prefix);
	free(etcd);
}

/* Read "/PREFIX", whose slashes at the end do not count. */
static int read_prefix(struct etcd_backend *etcd, const struct uri *uri, struct error *err)
{
	const char *path = uri->path[0] ? uri->path + 1 : "";
	size_t length = strlen(path);

	while (length && path[length - 1] == '/')
		length--;
	etcd->prefix = memory_format("%.*s%s", (int)length, path, length ? "/" : "");
	if (length <= PREFIX_MOST)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s: the prefix of the keys is longer than %d bytes",
			 uri->scheme, PREFIX_MOST);
}

static int read_login(struct etcd_backend *etcd, const struct uri *uri, struct error *err)
{
	etcd->user = uri->user && uri->user[0] ? uri->user : NULL;
	etcd->password = uri->password;
	etcd->password_file = uri_param(uri, "password-file");
	if (!etcd->user == !etcd->password)
		return 0;
	return error_set(err, ERROR_USAGE, 0,
			 "%s: a user needs a password, and a password a user: "
			 "write %s://USER:PASSWORD@HOST, or ?password-file=PATH",
			 uri->scheme, uri->scheme);
}

static struct backend *open_backend(const struct uri *uri, struct error *err)
{
	static const char *const known[] = { URI_COMMON_PARAMS, "tls", URI_TLS_PARAMS, NULL };
	struct etcd_backend *etcd = memory_new(1, sizeof(*etcd));

	etcd->base.can = BACKEND_SHARED | BACKEND_SLOTS;
	etcd->main = etcd->watch = (struct http_conn)HTTP_CLOSED;
	etcd->set_fd = epoll_create1(EPOLL_CLOEXEC);
	etcd->hosts = uri->hosts;
	etcd->host_count = uri->host_count;
	etcd->tls.hint = TLS_HINT;
	if (etcd->host_count)
		etcd_use_member(etcd, 0);
	else
		error_set(err, ERROR_USAGE, 0,
			  "%s: there is no host: write %s://HOST[:PORT]/PREFIX", uri->scheme,
			  uri->scheme);
	if (etcd->host_count && !uri_check_params(uri, known, err) &&
	    !read_prefix(etcd, uri, err) && !read_login(etcd, uri, err) &&
	    !uri_tls_read(uri, !strcmp(uri->scheme, "etcds"), &etcd->encrypted, &etcd->tls, err))
		return &etcd->base;
	close_backend(&etcd->base);
	return NULL;
}

static int connect_backend(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);

	(void)request;
	etcd_begin(etcd);
	return etcd_call(etcd, NULL, NULL, err);
}

static int get_fd(struct backend *backend)
{
	return etcd_from_backend(backend)->set_fd;
}

static const struct backend_ops etcd_ops = {
	.open = open_backend,
	.close = close_backend,
	.connect = connect_backend,
	.acquire = etcd_acquire,
	.fd = get_fd,
	.event = etcd_event,
	.renew = etcd_renew,
	.release = etcd_release,
	.show = etcd_show,
	.break_hold = etcd_break,
	.setup = etcd_setup,
	.check = etcd_check,
};

static const char *describe_library(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "json-c %s, " HTTP_LIBRARY, json_c_version());
	return text;
}

const struct backend_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.ops = &etcd_ops,
};
