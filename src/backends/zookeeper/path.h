/* SPDX-License-Identifier: MIT */
/* Names of locks as parts of ZooKeeper's paths, and the uuid in names of nodes. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The longest name with every byte percent-encoded, and the NUL. */
#define ZK_COMPONENT_SIZE (3 * 200 + 1)

/*
 * Write name as one component of a path. These are written as %XX: '/', '%', the dots of "." and
 * "..", and characters that ZooKeeper refuses (beyond U+FFFF, private use, U+FFF0 to U+FFFF).
 */
void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE]);

/* Write the name of a component. False: zk_path_encode() never writes this component. */
bool zk_path_decode(const char *component, char *name, size_t size);

#define ZK_UUID_SIZE 37

/*
 * Write the uuid of a token's nodes, 8-4-4-4-12 hex digits. It is made of the token's SHA-256: a
 * process that has the token finds the node, and the node does not reveal the token.
 */
void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE]);
