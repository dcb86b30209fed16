/* SPDX-License-Identifier: MIT */
/*
 * A holder or a waiter of a lock, as the backends store it and as people read it. It contains no
 * secret: the name of the command without its arguments, which may have passwords, and a note of
 * the user's for others. Two functions do I/O: holder_self(), and the description of a hold that
 * is retained, for which the C library reads the time zone.
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
	char note[HOLDER_NOTE_MAX + 1];	/* the user's, for those who do not get the lock */
	int64_t pid;		/* of dlock on this host; 0: not known */
	int64_t since_ms;	/* when it acquired or queued, ms since the epoch; 0: not known */
	int64_t ttl_ms;		/* of the lease at first; 0: not known, or there is no lease */
	/*
	 * Released, and retained until then by its minimum hold: ms since the epoch, by the clock
	 * of the server, or of the holder's host. 0: not released, as far as known.
	 */
	int64_t kept_ms;
	/* Its command ended with 0, under --once-per: ms since the epoch; 0: it did not. */
	int64_t done_ms;
	int64_t min_ms;		/* the minimum hold of `dlock acquire`; 0: none, or not known */
	/* The process that the hold lives with ends it then: ms since the epoch; 0: it does not. */
	int64_t until_ms;
};

/*
 * Describe this process: host name, effective user (the name, or the uid in digits), pid, command
 * (NULL: not known) and time. Sends no request to a directory server.
 */
void holder_self(struct holder *holder, const char *command);

/* Write the name of this host; "": not known. */
void holder_host(char host[static HOLDER_HOST_SIZE]);

#define HOLDER_TEXT_SIZE 868
/* Room in a column of a table in a database. */
#define HOLDER_COLUMN_SIZE 800

/*
 * Write "ttl=…&pid=…&since=…&kept=…&done=…&min=…&until=…&host=…&user=…&cmd=…&note=…" and
 * a NUL, with percent-encoded values and without those that are not known. The note comes last,
 * and is cut to fit into a table's column; a column with less room cuts more of the end. Returns
 * the length.
 */
size_t holder_encode(const struct holder *holder, char buf[static HOLDER_TEXT_SIZE]);

/*
 * Read a text of holder_encode(), which anybody may have changed: unknown keys are ignored, long
 * values are cut, control characters and bytes that are not UTF-8 become '?'. Returns 0, or -1 with
 * a zeroed *holder if nothing in the text is usable.
 */
int holder_decode(struct holder *holder, const char *text, size_t length);

/* Room for any description; what does not fit is cut. */
#define HOLDER_DESCRIPTION_SIZE 560

/*
 * Write "held by web2 pid 4312 (root) for 3m12s: /usr/local/bin/backup: NOTE" without the parts
 * that are not known, or "held by another client" if none is. age_ms below 0: not known. A holder
 * with only a note gives "held by nobody known: NOTE". A retained hold ends with ", kept until
 * 03:10:00 (backup has ended): NOTE", or with --once-per ", done until 03:10:00 (backup has
 * succeeded): NOTE". Returns buf.
 */
const char *holder_describe(const struct holder *holder, int64_t age_ms,
			    char *buf, size_t size);
/* Room for a host, a pid and a user. */
#define HOLDER_PROCESS_SIZE 160

/* Write only "web2 pid 4312 (root)", or "" if none of the three is known. Returns buf. */
const char *holder_describe_process(const struct holder *holder,
				    char buf[static HOLDER_PROCESS_SIZE]);
/*
 * Write only the end: "/usr/local/bin/backup: NOTE", or "kept until 03:10:00 (backup has ended):
 * NOTE" in local time, with the date if that is another day. Returns buf.
 */
const char *holder_describe_work(const struct holder *holder, char *buf, size_t size);
/* Write "done by web1 at 03:00:04" about a hold with done_ms. Returns buf. */
const char *holder_describe_done(const struct holder *holder, char *buf, size_t size);
