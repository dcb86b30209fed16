/* SPDX-License-Identifier: MIT */
/*
 * Who holds a lock, or waits for it, as the backends store it and as people
 * read it. No I/O but in holder_self(). Holds no secret: of the command only its
 * name is kept, since arguments may carry passwords.
 */
#ifndef DLOCK_HOLDER_H
#define DLOCK_HOLDER_H

#include <stddef.h>
#include <stdint.h>

struct holder {
	char host[65];		/* "" in any text: not known */
	char user[33];
	char command[129];	/* argv[0] of the command */
	int64_t pid;		/* of dlock on that host; 0: not known */
	int64_t since_ms;	/* acquired (or queued), ms since the epoch; 0: not known */
	int64_t ttl_ms;		/* lease that it was taken with; 0: not known, or there is none */
};

/*
 * This process: host name, effective user (name, or uid in digits), pid, command
 * (NULL: not known), now. Cheap, and asks no directory server.
 */
void holder_self(struct holder *holder, const char *command);

#define HOLDER_TEXT_SIZE 800

/*
 * Writes "ttl=…&host=…&user=…&cmd=…&pid=…&since=…", values percent-encoded, NUL
 * terminated; what is not known is left out. The TTL stands first, where scripts on the
 * server find and replace it. Returns the length.
 */
size_t holder_encode(const struct holder *holder, char buf[static HOLDER_TEXT_SIZE]);

/*
 * Reads what holder_encode() wrote, from a source that is not trusted: unknown
 * keys are passed over, long values cut, control characters and bytes that are
 * not UTF-8 replaced by '?'. Returns 0, or -1 when nothing in it could be used.
 */
int holder_decode(struct holder *holder, const char *text, size_t length);

/* Room for any description; what does not fit is cut. */
#define HOLDER_DESCRIPTION_SIZE 400

/*
 * "held by web2 pid 4312 (root) for 3m12s: /usr/local/bin/backup"; parts that
 * are not known are left out ("held by another client" when none is). age_ms < 0:
 * not known. Returns buf.
 */
const char *holder_describe(const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size);

#endif
