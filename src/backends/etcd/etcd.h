/* SPDX-License-Identifier: MIT */
/*
 * The object of the etcd backend: the members of the cluster, the connections to one of them, and
 * this process's one entry in the queue. backend.c explains how the backend works.
 *
 * Functions that return int return 0, or -1 and set *err, unless their comment has more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "backends/http/http.h"
#include "lock/backend.h"
#include "lock/uri.h"

/* The HTTP status of errors: those of gRPC, as the gateway translates them. */
enum {
	ETCD_NO_LOGIN = 401,
	ETCD_NOT_FOUND = 404, /* the lease is unknown */
};

#define ETCD_HEX_SIZE 17

/* An entry of the queue: a key below the lock's directory, which is attached to a lease. */
struct etcd_entry {
	enum hold_mode mode;
	int slots; /* HOLD_SLOT */
	char id[ETCD_HEX_SIZE]; /* the last part of the key */
	uint64_t created; /* create_revision: its position, and its fence */
	int64_t lease;
	bool foreign; /* not written by dlock */
	int64_t taken_ms; /* when it began to hold or to wait, since the epoch */
	char *text; /* the holder record, or the value of a foreign one */
};

struct etcd_queue {
	struct etcd_entry *entries; /* in their order */
	ptrdiff_t count;
	ptrdiff_t mine; /* the index of our entry; -1: it is not there */
	struct name_list ignored; /* keys there that are no entries */
	bool others; /* there are such keys, or some of other locks */
};

/* The entry of this process. */
struct etcd_own {
	/*
	 * As it is stored, or will be. id is known as soon as there is a token. created 0: it is
	 * not known that there is an entry; lease 0: not granted.
	 */
	struct etcd_entry entry;
	int64_t number; /* that id has, and of the first lease; 0: nothing is named */
	char *directory; /* of the lock, with a '/' at its end */
	char *first, *end; /* its range, and */
	char *key; /* our key, in base64 */
	bool held; /* acquire() has returned HELD, or the entry was found */
	int64_t asked_s; /* the TTL of the lease, as asked for; 0: not known */
	int64_t granted_s; /* its TTL, as granted */
	int64_t sent_ms; /* CLOCK_BOOTTIME before it was extended last; 0: not known */
	uint64_t sent_term; /* see is_proven() in lock.c; 0: that needs no proof */

	/* the watch, if it is open */
	char watched[ETCD_HEX_SIZE]; /* of the entry that blocks ours; "": none */
	bool counts; /* it watches all entries, of which */
	ptrdiff_t before; /* so many are before ours */
	uint64_t seen; /* the revision that before is of */
	size_t member; /* of the watch */
	bool woken; /* an entry has ended since the last try */
};

struct etcd_backend {
	struct backend base;
	const struct uri_host *hosts;
	size_t host_count, at; /* the member in use */
	bool encrypted;
	struct tls_params tls;
	const char *user, *password, *password_file;
	char *prefix; /* of the keys: "" or "locks/" */
	char label[URI_HOST_SIZE + 8]; /* for messages: "etcd HOST:PORT" */
	const char *authority; /* the part of it behind the space */
	char *auth; /* token of the login; NULL: none */
	struct http_conn main, watch;
	int set_fd; /* epoll, with the watch */
	int64_t deadline_ms; /* of the operation */
	/* Of the last reply: */
	struct json_object *reply;
	int status; /* of HTTP; 0: none yet */
	uint64_t term, revision; /* of its header; 0: none yet */
	struct etcd_own own;
};

static inline struct etcd_backend *etcd_from_backend(struct backend *backend)
{
	return (struct etcd_backend *)backend;
}

/* ---- client.c: requests ---- */

/* Bounds of a reply, and of a line of a watch. */
#define ETCD_MOST_BYTES (16 << 20)
#define ETCD_MOST_EVENT (1 << 20)

/* Begin an operation, whose requests end within the timeouts. */
void etcd_begin(struct etcd_backend *etcd);

/* Use another member, and close the connection to the one before. */
void etcd_use_member(struct etcd_backend *etcd, size_t at);

/*
 * Send a request, whose body is json and is freed, and receive the reply. A member that does not
 * answer, or is not fit, is followed by the next one. Each request may be repeated, and
 * base.resent is set when one is. Each reply sets status. path NULL: only connect and log in.
 */
int etcd_call(struct etcd_backend *etcd, const char *path, char *json, struct error *err);

/* ---- json.c: fields of requests and replies ---- */

/* Return what a path as "/responses/0" (RFC 6901) leads to, or NULL. */
struct json_object *etcd_get(struct json_object *object, const char *path);
/* Return a number, which the gateway writes as a string; 0: there is none. */
int64_t etcd_number(struct json_object *object, const char *path);
/* Return a text, or "" if there is none. */
const char *etcd_text(struct json_object *object, const char *path);

/* Set *array to an array of an object. Return its length; 0: there is none. */
size_t etcd_array(struct json_object *object, const char *path, struct json_object **array);

/* Return length bytes in base64, which the caller frees. */
char *etcd_encode(const char *data, size_t length);
/* Return the bytes with a NUL, which the caller frees; "" if the text is no base64. */
char *etcd_decode(const char *text, size_t *length);

/* ---- queue.c: the entries of a lock ---- */

/* Name the lock and the entry of the request, unless that is done. Token "": any entry will do. */
void etcd_name(struct etcd_backend *etcd, const struct request *request);
void etcd_forget(struct etcd_own *own);
/* Return the key of the entry id in base64, which the caller frees. */
char *etcd_key(const struct etcd_own *own, const char *id);

/* Is this the last part of the key of a lock, a number in hex as Go prints it? */
bool etcd_is_id(const char *text);

/* Read the queue from the answer to a range request, and find our entry. */
void etcd_queue_read(struct etcd_backend *etcd, struct json_object *range,
		     struct etcd_queue *queue);
void etcd_queue_free(struct etcd_queue *queue);
/* Return the index of the nearest entry that keeps entry i from holding; -1: it holds. */
ptrdiff_t etcd_queue_blocker(const struct etcd_queue *queue, ptrdiff_t i);

/*
 * Our entry alone; behind a change, it and the last one that was created before; it and those that
 * were created before, or all if it is not known that there is one; all, without taking over what
 * is stored of our entry.
 */
enum etcd_part { ETCD_OWN, ETCD_LAST, ETCD_UNTIL, ETCD_ALL };

/*
 * Read this part of the queue, and take over what is stored of our entry. change: NULL, or a change
 * to make in the same step before, if our entry was created at own.entry.created (0: does not
 * exist). It is freed.
 */
int etcd_read(struct etcd_backend *etcd, enum etcd_part part, char *change,
	      struct etcd_queue *queue, struct error *err);
/* Write the change that stores our entry, with this holder record; NULL: that which it has. */
char *etcd_put(const struct etcd_own *own, const char *text);
/* Delete our entry, if it was created at own.entry.created. HELD: it was there; LOST; or ERROR. */
enum outcome etcd_delete(struct etcd_backend *etcd, struct error *err);

/* Send a request that has nothing but the number of a lease. */
int etcd_call_lease(struct etcd_backend *etcd, const char *path, int64_t lease, struct error *err);

/* ---- lock.c ---- */
backend_grant_fn etcd_acquire, etcd_renew;
backend_release_fn etcd_release;
int64_t etcd_event(struct backend *backend);
void etcd_watch_close(struct etcd_backend *etcd);

/* ---- show.c, check.c ---- */
backend_show_fn etcd_show;
backend_break_fn etcd_break;
int etcd_setup(struct backend *backend, char **plan, struct error *err);
int etcd_check(struct backend *backend, struct findings *findings, struct error *err);
