/* SPDX-License-Identifier: MIT */
/* Names of locks as parts of ZooKeeper's paths, and the uuid in names of nodes. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The longest name with every byte percent-encoded, and the NUL. */
#define ZK_COMPONENT_SIZE (3 * 200 + 1)

/*
 * Writes name as one component of a path. Each byte stands for itself, but %XX for '/', '%',
 * the dots of "." and "..", and characters that ZooKeeper does not take (beyond U+FFFF, private
 * use, U+FFF0 to U+FFFF).
 */
void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE]);

/* The name that a component stands for; false when zk_path_encode() never writes this one. */
bool zk_path_decode(const char *component, char *name, size_t size);

#define ZK_UUID_SIZE 37

/*
 * The uuid by which the nodes of a token are known, 8-4-4-4-12 hex digits. It is made of the
 * token's SHA-256: a process that has the token finds the node, and a process that sees the node
 * does not learn the token.
 */
void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE]);
