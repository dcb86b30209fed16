/* SPDX-License-Identifier: MIT */
#include "directory.h"

#include <stdio.h>
#include <string.h>

#include "lock.h"
#include "path.h"

void zk_directory(const struct zk_backend *zk, const char *name, char path[static ZK_PATH_SIZE])
{
	char component[ZK_COMPONENT_SIZE];

	zk_path_encode(name, component);
	snprintf(path, ZK_PATH_SIZE, "%s/%s", zk->root, component);
}

/* ZOK also when the node was there. */
static int make(struct zk_backend *zk, const char *path, const char *text, int mode)
{
	int rc = zk_call_end(zk_create(&zk->conn, path, text, mode));

	return rc == ZNODEEXISTS ? ZOK : rc;
}

/* From the first part of the path to the last one. */
int zk_make_root(struct zk_backend *zk, struct error *err)
{
	char path[ZK_PATH_SIZE];
	int rc;

	snprintf(path, sizeof(path), "%s", zk->root);
	for (char *slash = path; slash; ) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		rc = make(zk, path, "", ZOO_PERSISTENT);
		if (rc != ZOK)
			return zk_call_error(&zk->conn, rc, "create", path, err);
		if (slash)
			*slash = '/';
	}
	return 0;
}

int zk_make_directory(struct zk_backend *zk, const char *path, struct error *err)
{
	int rc = ZNONODE;

	for (int tries = 0; tries < 3 && rc == ZNONODE; tries++) {
		if (tries && zk_make_root(zk, err))
			return -1;
		rc = make(zk, path, "", ZOO_CONTAINER);
		if (rc == ZUNIMPLEMENTED)
			rc = make(zk, path, ZK_OWN_DIRECTORY, ZOO_PERSISTENT);
	}
	return rc == ZOK ? 0 : zk_call_error(&zk->conn, rc, "create", path, err);
}

void zk_remove_directory(struct zk_backend *zk, const char *path)
{
	zk_call_end(zk_delete(&zk->conn, path, -1));
}

bool zk_is_own_directory(const struct zk_call *data)
{
	const size_t length = strlen(ZK_OWN_DIRECTORY);

	return data->rc == ZOK && data->length >= length &&
	       !memcmp(data->text, ZK_OWN_DIRECTORY, length) &&
	       (data->length == length || data->text[length] == '&');
}

void zk_tidy_directory(struct zk_backend *zk, const char *path, const struct Stat *stat)
{
	struct zk_call *call;
	bool own;

	if (stat->ephemeralOwner || stat->dataLength < (int32_t)strlen(ZK_OWN_DIRECTORY))
		return;
	call = zk_get(&zk->conn, path, 0);
	own = zk_call_wait(call) == ZOK && zk_is_own_directory(call);
	zk_call_free(call);
	if (own)
		zk_remove_directory(zk, path);
}
