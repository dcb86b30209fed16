/* SPDX-License-Identifier: MIT */
/* What this process knows of its own entry in the queue, and the end of that entry. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "acquire.h"

void zk_watch_forget(struct zk_own *own)
{
	for (int i = 0; i < ZK_WATCHED; i++)
		free(own->watched[i].name);
	memset(own->watched, 0, sizeof(own->watched));
}

void zk_own_forget(struct zk_own *own)
{
	zk_queue_finish(&own->queue);
	zk_watch_forget(own);
	*own = (struct zk_own){ .held = false };
}

void zk_own_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	zk_own_forget(&zk->own);
}

/* Our entry is gone, though the session is not. Sets *err. Returns -1. */
int zk_own_gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: its entry in the queue was removed, because it "
		  "did not respond when its turn came: back in the queue, at its end",
		  zk->conn.label);
	/* A waiter reports it before it tries again: see zk_conn_again(). */
	if (zk->own.state == ZK_WAITING)
		err->errnum = ESTALE;
	/* With what is left of it: the shadow, should somebody have removed the entry alone. */
	zk_own_leave(zk);
	return -1;
}

/* A request that writes our entry has failed with rc. Sets *err. Returns -1. */
int zk_own_failed(struct zk_backend *zk, int rc, const char *what, struct error *err)
{
	if (rc == ZNONODE)
		return zk_own_gone(zk, err);
	zk_call_error(&zk->conn, rc, what, zk->own.at.node, err);
	/* It may have been written. find_entry() reads what is stored. */
	zk->own.maybe = true;
	zk->own.at.node[0] = '\0';
	return -1;
}

/* Delete our entry, and keep the session for what is shown next. */
void zk_own_delete(struct zk_backend *zk)
{
	if (zk_call_end(zk_delete_pair(&zk->conn, &zk->own.at, -1)) != ZOK)
		zk_conn_close(&zk->conn);
	zk_own_forget(&zk->own);
}

/* Our entry was written. 0, or -1 with *err. */
int zk_own_written(struct zk_backend *zk, const struct zk_call *set, enum zk_state state,
			struct error *err)
{
	if (set->rc != ZOK)
		return zk_own_failed(zk, set->rc, "write", err);
	zk->own.version = set->stat.version;
	zk->own.fence = (uint64_t)set->stat.czxid;
	zk->own.state = state;
	return 0;
}
