-- The queue of a lock. An entry waits (its fence is 0) or holds. It may hold if there are no
-- entries before it, or if all of them have its mode and that mode is not exclusive.
--
-- The row in dlock_names is the mutex of one lock. A client that adds an entry first writes this
-- row. So the changes are ordered by row locks on one server, and by certification on Galera and
-- Group Replication. Only removals do without it: they can let others hold too late, but never too
-- early.

-- name: entries_tables
CREATE TABLE IF NOT EXISTS dlock_names (
  strategy VARBINARY(16) NOT NULL,
  name VARBINARY(200) NOT NULL,
  fence BIGINT NOT NULL COMMENT 'the last number drawn: it grows, and is the clock where it can be',
  PRIMARY KEY (strategy, name)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dlock_entries (
  strategy VARBINARY(16) NOT NULL,
  name VARBINARY(200) NOT NULL,
  place BIGINT NOT NULL COMMENT 'the number drawn on arrival',
  token VARBINARY(32) NOT NULL COMMENT 'its SHA-256',
  mode INT NOT NULL COMMENT '0: exclusive, -1: shared, N: one of N slots',
  fence BIGINT NOT NULL COMMENT '0: waits; else the number drawn when it took the lock',
  expires BIGINT NOT NULL COMMENT 'microseconds since 1970, UTC',
  conn BIGINT UNSIGNED NOT NULL COMMENT 'the connection that sleeps, or that has the door; 0: at it',
  home VARBINARY(400) NOT NULL COMMENT 'the account and the server of conn',
  owner VARBINARY(800) NOT NULL,
  PRIMARY KEY (strategy, name, place),
  UNIQUE KEY token (strategy, name, token)
) ENGINE = InnoDB;

-- name: entries_grants
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_names TO {user}@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_entries TO {user}@'%';

-- name: lock
strategy = {strategy} AND name = {name}

-- name: draw
-- Draws a number (LAST_INSERT_ID), and keeps the row of the name locked until COMMIT. A condition
-- may stand between this and draw_end. end_stale finds this statement by its comment.
INSERT /* {token} */ INTO dlock_names (strategy, name, fence)
  SELECT {strategy}, {name}, LAST_INSERT_ID({now}) FROM DUAL WHERE {writable}

-- name: draw_end
ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(dlock_names.fence + 1, {now}));

-- name: is_empty
NOT EXISTS (SELECT 1 FROM dlock_entries q WHERE strategy = {strategy} AND name = {name})

-- name: entries_try
-- Takes a lock whose queue is empty. Otherwise locks no row, and the answer is whether holders other
-- than this token exclude {mode}, of which only a client that will not wait needs to know. The queue may
-- become empty after the first statement, so only a number that was drawn counts. The hold is read
-- after COMMIT, because Galera can roll the transaction back at the end of a SELECT, after its rows
-- were sent: there is no error, and COMMIT has nothing to commit.
START TRANSACTION;
{draw} AND {is_empty} {draw_end}
INSERT INTO dlock_entries
    (strategy, name, place, token, mode, fence, expires, conn, home, owner)
  SELECT {strategy}, {name}, LAST_INSERT_ID(), {token}, {mode}, LAST_INSERT_ID(), {now} + {ttl},
    CONNECTION_ID(), @home, {owner} FROM DUAL
  WHERE ROW_COUNT() > 0 AND NOT {read_only} AND {is_empty};
SET @taken = ROW_COUNT();
COMMIT;
SELECT @taken AND COALESCE(MAX(token = {token} AND fence = LAST_INSERT_ID()), 0), LAST_INSERT_ID(),
  SUM(token = {token}) = 0 AND SUM({mode} = 0 OR mode <> {mode}) > 0, 0, 0, 0, -1, 0, 0, 0
  FROM dlock_entries WHERE {lock} AND fence > 0 AND expires > {now} AND (NOT {queue} OR token = {token});

-- name: with_before
-- Entries w, each with the entries q before it, or with none if {all} is not true.
dlock_entries w LEFT JOIN dlock_entries q
    ON q.strategy = w.strategy AND q.name = w.name AND q.place < IF({all}, w.place, 0)
  WHERE w.strategy = {strategy} AND w.name = {name}

-- name: may_hold
-- May the entry w hold?
COUNT(q.place) = 0 OR w.mode <> 0 AND SUM(q.mode <> w.mode) = 0 AND
  (w.mode < 0 OR COUNT(q.place) < w.mode)

-- name: entries_far
-- Do so many wait before {place}, or in all for a client without a place?
(SELECT COUNT(*) FROM (SELECT 1 FROM dlock_entries q WHERE {lock} AND q.fence = 0 AND q.expires > {now} AND
  ({place} = 0 OR q.place < {place}) LIMIT {far}) f) = {far}

-- name: entries_take
-- Adds an entry, unless this token has one, and takes the lock if the entries before it allow this.
-- An exclusive newcomer does not read a queue in which many wait: {all} is then false.
-- Expired entries are deleted, because a clock that is set back would revive them; those behind it
-- delay only others. An earlier request of this token, whose answer was lost, may have taken the
-- lock: then its lease is extended.
START TRANSACTION;
{draw} {draw_end}
SET @all = NOT ({place} = 0 AND {mode} = 0 AND {entries_far});
DELETE FROM dlock_entries WHERE {lock} AND @all AND ({place} = 0 OR place <= {place}) AND
  (expires <= {now} OR place = {late} AND fence = 0);
INSERT INTO dlock_entries
    (strategy, name, place, token, mode, fence, expires, conn, home, owner)
  SELECT {strategy}, {name}, LAST_INSERT_ID(), {token}, {mode}, 0, {now} + {alive},
    CONNECTION_ID(), @home, {owner} FROM DUAL WHERE NOT {read_only}
  ON DUPLICATE KEY UPDATE conn = CONNECTION_ID(), home = @home,
    expires = GREATEST(dlock_entries.expires, {now} + {alive});
SELECT MAX(w.place), MAX(w.fence), {now} + {ttl}, COUNT(q.place), @all AND ({may_hold}),
    IF(@all, SUM(q.fence = 0), {far}), SUM(q.home <> @home), MIN(IF(q.fence = 0, q.place, NULL)),
    MAX(IF(q.fence > 0 AND q.mode > 0 AND q.mode <> {mode}, q.mode, 0))
  INTO @place, @fence, @until, @before, @may, @waiting, @foreign, @first, @slots
  FROM {with_before} AND w.token = {token};
UPDATE dlock_entries SET fence = IF(fence > 0, fence, LAST_INSERT_ID()), expires = @until
  WHERE {lock} AND place = @place AND (fence > 0 OR @may) AND NOT {read_only};
DELETE FROM dlock_entries WHERE {lock} AND place = @place AND fence = 0 AND
  (NOT {queue} OR {mode} > 0 AND @slots > 0);
COMMIT;
SELECT (SELECT COUNT(*) FROM dlock_entries
    WHERE {lock} AND place = @place AND fence > 0 AND expires = @until),
  IF(@fence > 0, @fence, LAST_INSERT_ID()), 0, @place, @before, COALESCE(@waiting, 0), -1,
  COALESCE(@foreign, 0), COALESCE(@slots, 0),
  IF(@may OR @first IS NULL, 0,
    (SELECT IF({may_hold}, @first, 0) FROM {with_before} AND w.place = @first));

-- name: sleep_ms
IF(NOT ({may_hold}), LEAST({sleep}, COALESCE(GREATEST(MIN(IF(q.fence > 0, q.expires, NULL)) - {now}, 0)
  DIV 1000 + 2 + GREATEST(SUM(q.fence = 0) * {patience} - {watch}, 0), {sleep})), 0)

-- name: entries_sleep
-- Sleeps until KILL QUERY ends it, or for {sleep} ms; no longer than the first lease, which may have
-- become shorter since the last request, and as hold_retry_at() says for each waiter before. Does
-- not sleep if the entry may hold, is gone since then, or names an earlier connection, which nobody
-- can wake. It is alone in its packet, because KILL QUERY between two statements of one packet would drop the rest
-- without an error. The columns: was it interrupted, and how long is the sleep without that? One on
-- another connection, where a proxy has led it, does not sleep, and has all of it in this column.
SELECT /* dlock sleep {token} */ SLEEP({sleep_ms} / 1000), IF(COUNT(w.place), {sleep_ms}, {sleep})
  FROM {with_before} AND w.place = {place} AND w.conn = CONNECTION_ID();

-- name: entries_stay
-- Notes that a waiter is alive for which it is too early to take the lock. Returns whether it is one.
SET @far = {entries_far};
UPDATE dlock_entries SET expires = {now} + {alive} WHERE {lock} AND place = {place} AND fence = 0 AND
  conn = CONNECTION_ID() AND expires > {now} AND @far AND NOT {read_only};
SELECT ROW_COUNT();

-- name: entries_sleep_far
-- The sleep of such a waiter, with the columns of entries_sleep.
SELECT /* dlock sleep {token} */ SLEEP(IF(COUNT(*) AND {entries_far}, {sleep}, 0) / 1000),
    IF(COUNT(*) AND NOT {entries_far}, 0, {sleep})
  FROM dlock_entries WHERE {lock} AND place = {place} AND conn = CONNECTION_ID();

-- name: entries_waiters
-- Gives the positions of the first two waiters of this home, behind the number of rows that the
-- statement before it has changed.
SELECT ROW_COUNT(), @conn, MIN(place), MAX(place) FROM (SELECT place FROM dlock_entries q
  WHERE {lock} AND fence = 0 AND home = @home ORDER BY place LIMIT 2) w;

-- name: entries_wake
-- Interrupts the waiter at {place}, if it sleeps for the lock. Returns whether to repeat this,
-- because MariaDB does not show the statement of a busy connection, and whether its connection
-- exists.
--
-- An interrupt between two statements of a packet would leave a waiter without the rest of its
-- answer until its timeout. So MariaDB interrupts this one statement. Oracle's server can interrupt
-- only whatever a connection runs. There the entry is locked from the check to the interrupt, and a
-- waiter that is awake waits for that: entries_awake. The interrupt fails if there is none to make.
--
-- Each list of connections costs MariaDB a table on disk. So one waiter is woken where one is
-- enough.
/*!50700 START TRANSACTION *//*M! DO 0 */;
/*!50700 SELECT COUNT(*) INTO @locked FROM dlock_entries
  WHERE {lock} AND place = {place} FOR UPDATE *//*M! DO 0 */;
SELECT COUNT(ID), MAX(COMMAND = 'Busy'), {now} + {alive},
    MAX(IF(INFO LIKE 'SELECT /* dlock sleep%', COALESCE(/*M!100301 QUERY_ID, */ ID), NULL))
  INTO @there, @busy, @seen, @asleep
  FROM dlock_entries q LEFT JOIN information_schema.PROCESSLIST ON ID = q.conn
  WHERE {lock} AND place = {place};
SELECT @busy, @there;
{interrupt} KILL QUERY /*M!100301 ID */ @asleep {interrupt_end}
COMMIT;

-- name: entries_looked
-- Has this waiter looked at the queue since? Then it has the lock, or has found that it may not have
-- it yet.
SELECT COUNT(*) = 0 FROM dlock_entries
  WHERE {lock} AND place = {place} AND fence = 0 AND expires <= @seen;

-- name: entries_awake
-- Waits for clients that are about to interrupt a sleep that has ended. It is alone in its packet,
-- because they may interrupt this statement.
SELECT COUNT(*) FROM dlock_entries WHERE {lock} AND place = {place} FOR UPDATE;

-- name: dead
-- A waiter whose connection is gone.
q.strategy = {strategy} AND q.name = {name} AND q.place <= {place} AND q.fence = 0 AND
  NOT {entries_there}

-- name: entries_remove_dead
-- Removes the first dead waiter up to the last one that was woken. Locks only this one, because a
-- client that takes the lock has locked entries, too, in another order.
SET @dead = NULL;
SELECT MIN(q.place) INTO @dead FROM dlock_entries q WHERE {dead};
DELETE q FROM dlock_entries q WHERE q.place = @dead AND {dead};
{entries_waiters}

-- name: entries_renew
-- {conn} and {as} are the columns themselves, except for an entry with a door (see the table above)
-- and for a hold that is retained, which has no client's token.
UPDATE dlock_entries SET expires = {now} + {ttl}, owner = COALESCE({owner}, owner), conn = {conn},
    token = {as}
  WHERE {lock} AND token = {token} AND fence > 0 AND expires > {now} AND {writable};
SELECT ROW_COUNT(), 0, 0, 0;

-- name: entries_release
DELETE FROM dlock_entries WHERE {lock} AND token = {token} AND fence > 0 AND expires > {now};
{entries_waiters}

-- name: entries_leave
-- Removes an entry that waits or has expired.
DELETE FROM dlock_entries WHERE {lock} AND token = {token};
{entries_waiters}

-- name: entries_show
-- One row for each entry, or one without an entry. {there}: is its connection there? An entry whose
-- client sleeps at a door waits.
SET @now = {now};
SELECT n.fence, IF(q.conn > 0, q.fence, 0), q.mode, HEX(q.token), (q.expires - @now) DIV 1000,
    GREATEST(0, @now - IF(q.fence > 0, q.fence, q.place)) DIV 1000, q.owner, q.token = {token}, {there}
  FROM dlock_names n LEFT JOIN dlock_entries q
    ON q.strategy = n.strategy AND q.name = n.name AND q.expires > @now
  WHERE n.strategy = {strategy} AND n.name = {name}
  ORDER BY q.fence = 0 OR q.conn = 0, q.place;

-- name: entries_there
-- Is the connection of an entry there? Those of another account may be hidden.
(q.home <> @home OR q.conn IN (SELECT p.ID FROM information_schema.PROCESSLIST p))

-- name: entries_list
SELECT DISTINCT name FROM dlock_entries WHERE strategy = {strategy} AND expires > {now};

-- name: entries_break
SET @conn = 0;
SELECT conn INTO @conn FROM dlock_entries WHERE {lock} AND token = UNHEX({row}) AND home = @home;
DELETE FROM dlock_entries WHERE {lock} AND token = UNHEX({row}) AND fence > 0;
{entries_waiters}
