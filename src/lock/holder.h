/* SPDX-License-Identifier: MIT */
/*
 * A holder or a waiter of a lock, as the backends store it and as people read it. It contains no
 * secret: only the name of the command without its arguments, which may have passwords, and a note
 * that the user has written for others. Only two things do I/O: holder_self(), and the description
 * of a hold that --min-hold keeps, for which the C library reads the time zone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of a note. */
#define HOLDER_NOTE_MAX 160

/* HOST_NAME_MAX is 64 on Linux. */
#define HOLDER_HOST_SIZE 65

struct holder {
	char host[HOLDER_HOST_SIZE];	/* "" here and below: not known */
	char user[33];
	char command[129];	/* argv[0] of the command */
	char note[HOLDER_NOTE_MAX + 1];	/* of the user, for whoever is refused */
	int64_t pid;		/* of dlock on this host; 0: not known */
	int64_t since_ms;	/* when it acquired or queued, ms since the epoch; 0: not known */
	int64_t ttl_ms;		/* of the lease at first; 0: not known, or there is no lease */
	/*
	 * Released, and taken until then for the rest of its minimum hold: ms since the epoch, by
	 * the clock of the server, or of the holder's host. 0: not released, as far as known.
	 */
	int64_t kept_ms;
	int64_t min_ms;		/* the minimum hold of `dlock acquire`; 0: none, or not known */
	/* The process that the hold lives with ends it then: ms since the epoch; 0: it does not. */
	int64_t until_ms;
	/* 1: sends away waiters that came before with the same wish: --replace-waiters. 0: none. */
	int64_t replaces;
};

/*
 * Describes this process: host name, effective user (the name, or the uid in digits), pid, command
 * (NULL: not known) and time. Fast, and without a request to a directory server.
 */
void holder_self(struct holder *holder, const char *command);

/* The name of this host; "": not known. */
void holder_host(char host[static HOLDER_HOST_SIZE]);

#define HOLDER_TEXT_SIZE 832
/* What a table's column has room for. */
#define HOLDER_COLUMN_SIZE 800

/*
 * Writes "ttl=…&host=…&user=…&cmd=…&pid=…&since=…&kept=…&min=…&until=…&replaces=1&note=…" and a
 * NUL, with percent-encoded values and without those that are not known. The note comes last, and
 * is cut where it does not fit into a table's column. Returns the length.
 */
size_t holder_encode(const struct holder *holder, char buf[static HOLDER_TEXT_SIZE]);

/*
 * Reads what holder_encode() has written. Anybody may have changed the text: unknown keys are
 * ignored, long values are cut, control characters and bytes that are not UTF-8 become '?'. Returns
 * 0, or -1 when nothing in the text could be used, and all of *holder is 0.
 */
int holder_decode(struct holder *holder, const char *text, size_t length);

/* Room for any description; what does not fit is cut. */
#define HOLDER_DESCRIPTION_SIZE 560

/*
 * Writes "held by web2 pid 4312 (root) for 3m12s: /usr/local/bin/backup: NOTE" without the parts
 * that are not known, or "held by another client" when none is. age_ms less than 0: not known.
 * Of a holder that is nothing but a note, it writes "held by nobody known: NOTE".
 * Behind the age of a hold that is kept stands ", kept until 03:10:00 (backup has ended): NOTE".
 * Returns buf.
 */
const char *holder_describe(const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size);
/* Room for a host, a pid and a user. */
#define HOLDER_PROCESS_SIZE 160

/* Writes of that "web2 pid 4312 (root)", or "" when none of the three is known. Returns buf. */
const char *holder_describe_process(const struct holder *holder,
				    char buf[static HOLDER_PROCESS_SIZE]);
/*
 * Writes the end of that: "/usr/local/bin/backup: NOTE", or "kept until 03:10:00 (backup has
 * ended): NOTE" in local time, with the date if that is another day. Returns buf.
 */
const char *holder_describe_work(const struct holder *holder, char *buf, size_t size);
/* Like holder_describe(), with "replaced by", of the waiter that has sent this one away. */
const char *holder_describe_newer(const struct holder *newer, char *buf, size_t size);
