/* SPDX-License-Identifier: MIT */
/* Names of locks as parts of ZooKeeper's paths, and the uuid in names of nodes. No I/O. */
#ifndef DLOCK_ZOOKEEPER_PATH_H
#define DLOCK_ZOOKEEPER_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The longest name with every byte percent-encoded, and the NUL. */
#define ZK_COMPONENT_SIZE (3 * 200 + 1)

/*
 * Writes name as one component of a path. Stands for itself but for '/', '%', names made
 * of dots that ZooKeeper reserves, and characters that it does not take (beyond U+FFFF,
 * private use, U+FFF0 to U+FFFF): those become %XX.
 */
void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE]);

/* The name that a component stands for; false when zk_path_encode() writes no such one. */
bool zk_path_decode(const char *component, char *name, size_t size);

#define ZK_UUID_SIZE 37

/*
 * The uuid by which the nodes of a token are known, 8-4-4-4-12 hex digits: made of the
 * token's SHA-256, so that who has the token finds the node, and who sees the node does not
 * get the token.
 */
void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE]);

#endif
