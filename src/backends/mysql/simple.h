/* SPDX-License-Identifier: MIT */
/*
 * What the strategy insert and the dialect shedlock have in common: a lock is a row with
 * a token and an end by the server's clock, taken, extended and given back by statements
 * that each stand for themselves. Nobody is woken when it becomes free: waiters look,
 * again and again, less and less often.
 */
#ifndef DLOCK_MYSQL_SIMPLE_H
#define DLOCK_MYSQL_SIMPLE_H

#include "lock.h"
#include "waiters.h"

/*
 * How one of them does it. take, look and renew end with a row: is it ours, the fence,
 * microseconds since it is held, and until it expires, how often it was acquired, the
 * holder's text; or with none, when nobody holds it. release with a number: 0 it was not
 * held, 1 it was, 2 it still is, for it was acquired more than once.
 */
struct simple_kind {
	const char *name;		/* "?strategy=insert" */
	const char *mark;		/* of waiters, see waiters.h */
	const char *take, *look, *renew, *release, *list, *break_hold, *forget;
	const char *count;		/* as insert_count.sql; NULL: acquisitions are not */
	const char *purge;		/* after a release; or NULL */
	const char *exists;		/* a number, 0: the table is not there */
	/* Can name be locked at all? 0, or -1 with *err. */
	int (*admit)(const char *name, struct error *err);
	/* What the table has of a holder, NUL-terminated. */
	size_t (*encode)(const struct request *request, const char *by,
			 char text[static HOLDER_TEXT_SIZE]);
	void (*decode)(struct holder *holder, const char *text, size_t length);
};

struct simple {
	const struct simple_kind *kind;
	char zone[80];			/* ready for SQL */
	bool waiting;			/* asleep in a statement */
	int64_t pause_ms;		/* the last one */
	int64_t lease_end_ms;		/* of the last grant; 0: none */
	unsigned long stale;		/* connection that ended under a request; 0: none */
};

static inline struct simple *simple_of(const struct mysql_backend *my)
{
	return my->state;
}

/* "dlock-" and 32 hex digits of the token's digest. */
#define SIMPLE_BY_SIZE 39

/* ---- simple.c: for simple_count.c and simple_show.c ---- */

/* What a request asks for beside the request proper. */
struct simple_extra {
	int64_t keep_ms, pause_ms, holds;
	int step;
	bool one;
};
extern const struct simple_extra simple_no_extra;

/* All that the texts may want. The pointers are good as long as request and words are. */
struct simple_words {
	struct sql_value values[16];
	unsigned char digest[SHA256_SIZE];
	char by[SIMPLE_BY_SIZE];
	char owner[HOLDER_TEXT_SIZE];
	char mark[WAITERS_MARK_SIZE];
	char comment[WAITERS_COMMENT_SIZE];
};
void simple_make_words(const struct mysql_backend *my, const struct request *request,
		       const struct simple_extra *extra, struct simple_words *words);

/* What the row that a text ends with says; see struct simple_kind. */
struct simple_state {
	bool held, mine;
	uint64_t fence;
	int64_t age_us, rest_us, holds;
	struct holder holder;
};
/* Runs one of the texts that tell the state. 0 or -1. */
int simple_ask(struct mysql_backend *my, const char *sql, const struct request *request,
	       struct simple_state *state, struct error *err);
/* Is there a table to look at? 1, 0 or -1. */
int simple_exists(struct mysql_backend *my, struct error *err);
/* How it stands, for who makes no table for that. 0 or -1. */
int simple_look(struct mysql_backend *my, const struct request *request,
		struct simple_state *state, struct error *err);
/*
 * mysql_run(), for what the server may still be at when the connection is gone: a
 * statement that waits for a row, and would take the lock when nobody wants it any more.
 */
int simple_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	       MYSQL_RES **rows, struct error *err);
/* Did statements get in each other's way, and nothing was done? */
bool simple_contended(const struct mysql_backend *my);
/* Can such a wish be granted at all? 0, or -1 with *err. */
int simple_refuse(const struct simple *simple, const struct request *request,
		  struct error *err);

/* ---- simple_count.c ---- */

/*
 * One acquisition less. HELD: that is all; BUSY: it is the last one, which stays; LOST: there
 * is none; ERROR.
 */
enum outcome simple_count_down(struct mysql_backend *my, const struct request *request,
			       struct error *err);

/* ---- both ---- */

/* The slots of struct mysql_strategy; open by the kind's own. */
int simple_open(struct mysql_backend *my, const struct simple_kind *kind, struct error *err);
void simple_close(struct mysql_backend *my);
enum outcome simple_acquire(struct mysql_backend *my, const struct request *request,
			    struct grant *grant, struct error *err);
int64_t simple_event(struct mysql_backend *my);
enum outcome simple_renew(struct mysql_backend *my, const struct request *request,
			  struct grant *grant, struct error *err);
enum outcome simple_verify(struct mysql_backend *my, const struct request *request,
			   struct error *err);
enum outcome simple_release(struct mysql_backend *my, const struct request *request,
			    enum release how, int64_t keep_ms, struct error *err);
enum outcome simple_again(struct mysql_backend *my, const struct request *request,
			  struct grant *grant, struct error *err);
int simple_inspect(struct mysql_backend *my, const char *name, bool listen,
		   struct lock_view *view, struct error *err);
int simple_list(struct mysql_backend *my, struct name_list *names, struct error *err);
int simple_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		 struct error *err);

#define SIMPLE_SLOTS \
	.close = simple_close, .acquire = simple_acquire, .event = simple_event, \
	.renew = simple_renew, .verify = simple_verify, .release = simple_release, \
	.again = simple_again, .inspect = simple_inspect, .list = simple_list, \
	.break_hold = simple_break

#endif
