-- The strategy lease: the tables, the pieces that the statements share, then taking and waiting,
-- holding, giving back, and showing. lease.c says how they work together.

-- name: lease_tables
-- dlock_locks has one row for each lock that was ever taken. Times are microseconds since the
-- epoch (UTC). A lock is free when expires has passed. A mode of 0 is exclusive, -1 is shared, and
-- N is one of N slots. The token is stored as its SHA-256, so that a reader of the table cannot
-- release the lock. dlock_holders lists those who hold a lock together, shared or in slots.
-- dlock_queue lists waiters, in the order of turn and id; place numbers them within one lock in the
-- order of arrival.
CREATE TABLE IF NOT EXISTS dlock_locks (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  version BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'the last fence',
  mode INT NOT NULL DEFAULT 0,
  token VARBINARY(32) NOT NULL DEFAULT '' COMMENT 'of an exclusive holder',
  since BIGINT NOT NULL DEFAULT 0 COMMENT 'held since',
  expires BIGINT NOT NULL DEFAULT 0 COMMENT 'end of the last lease',
  keep BIGINT NOT NULL DEFAULT 0 COMMENT 'stays taken until then, released or not',
  freed BIGINT NOT NULL DEFAULT 0 COMMENT 'when a hold last came or went',
  owner VARBINARY(800) NOT NULL DEFAULT '',
  newest BIGINT NOT NULL DEFAULT 0 COMMENT 'when the last one came with --replace-waiters',
  newest_owner VARBINARY(800) NOT NULL DEFAULT '' COMMENT 'who that is',
  overtakings BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'how often a waiter got before others'
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dlock_holders (
  name VARBINARY(200) NOT NULL,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  since BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  keep BIGINT NOT NULL,
  owner VARBINARY(800) NOT NULL,
  PRIMARY KEY (name, token)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dlock_queue (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARBINARY(200) NOT NULL,
  token VARBINARY(32) NOT NULL,
  mode INT NOT NULL,
  place BIGINT UNSIGNED NOT NULL,
  turn BIGINT NOT NULL DEFAULT 0 COMMENT 'since',
  replaces TINYINT NOT NULL DEFAULT 0 COMMENT 'came with --replace-waiters',
  since BIGINT NOT NULL,
  seen BIGINT NOT NULL DEFAULT 0 COMMENT 'last look, where GET_LOCK is refused',
  asleep TINYINT NOT NULL DEFAULT 0 COMMENT 'did not come when it was its turn',
  owner VARBINARY(800) NOT NULL,
  UNIQUE KEY token (token),
  UNIQUE KEY name (name, id, asleep),
  UNIQUE KEY line (name, turn, id, asleep)
) ENGINE = InnoDB;

-- name: lease_grants
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_locks TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_holders TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_queue TO {account};

-- name: lease_now
-- Sets the variables that other texts expect. Further assignments may follow before the semicolon.
SET @now = {now}, @me = 18446744073709551615, @turn = 9223372036854775807, @place = 0,
  @first = NULL, @wanted = NULL, @fence = NULL, @version = NULL, @holder = '', @held = 0,
  @rest = 0, @mine = 0, @asleep = 0,
  @done = 0, @next = NULL, @dead = 0, @old = NULL, @open = NULL, @inline = 0, @ahead = 0,
  @newer = NULL, @arrived = 0, @overtakings = NULL, @read_only = {read_only}

-- name: lease_state
-- The state of the lock as the owner of the token sees it; read_state() in lease_call.c reads
-- the columns. There is no row when the lock has none. The ninth column is how long there has been
-- room for the first waiter before this one, who does not come. The columns @me, @place, @turn and
-- @since are this waiter's row of the queue, for lease_line_back; @me is 0 when there is none. Two
-- columns are for --replace-waiters: who has sent this waiter away, and the time that counts as
-- that of its arrival if it has just come. The last column is read after the changes of the same
-- request: if it is 0, the server took those changes as the primary.
SELECT l.version,
    IF(l.mode = 0, l.token = {token} AND l.expires > @now,
      COALESCE(h.expires > @now AND l.expires > @now, 0)),
    IF(l.mode = 0, l.version, h.fence), l.mode, l.expires - @now,
    @now - IF(l.mode = 0, l.since, (SELECT a.since FROM dlock_holders a
      WHERE a.name = {name} AND a.expires > @now LIMIT 1)),
    IF(l.mode = 0, l.owner, COALESCE(IF(h.expires > @now, h.owner, NULL),
      (SELECT b.owner FROM dlock_holders b
        WHERE b.name = {name} AND b.expires > @now LIMIT 1))),
    l.token,
    IF(@first IS NULL OR NOT {lease_room}, NULL,
      @now - GREATEST(l.freed, IF(l.expires <= @now, l.expires, 0))),
    @first, IF(@me < 18446744073709551615, @me, 0), @asleep,
    IF(@me < 18446744073709551615, (SELECT COUNT(*)
      FROM dlock_queue q FORCE INDEX (line)
      WHERE q.name = {name} AND {lease_before} AND q.asleep = 0), 0),
    @ticket, @done, @next, @dead, @old, @cluster,
    IF(l.newest > {arrived}, l.newest_owner, NULL), GREATEST(l.newest + 1, @now),
    @place, @turn, @since, {read_only}
  {into}
  FROM dlock_locks l LEFT JOIN dlock_holders h ON h.name = {name} AND h.token = {token}
  WHERE l.name = {name};

-- name: lease_brief
-- Takes the lock exclusively if it is free and nobody stands in line, not even a waiter that died.
-- Most locks are free, so this costs the server less than lease_first and lease_take.
SELECT id INTO @first FROM dlock_queue FORCE INDEX (line) WHERE name = {name} LIMIT 1;
{lease_take_free};

-- name: lease_brief_now
-- Sets what lease_brief and lease_brief_state expect, as lease_now does.
SET @now = {now}, @first = NULL

-- name: lease_brief_state
-- What lease_state tells, in the same columns, of a lock that has one holder or none.
SELECT l.version, l.mode = 0 AND l.token = {token} AND l.expires > @now, l.version,
    l.mode, l.expires - @now, @now - l.since, l.owner, l.token, NULL, NULL, 0, 0, 0,
    @ticket, 0, NULL, 0, NULL, @cluster,
    IF(l.newest > {arrived}, l.newest_owner, NULL), GREATEST(l.newest + 1, @now), 0, 0, 0,
    {read_only}
  FROM dlock_locks l WHERE l.name = {name};

-- name: lease_into
INTO @version, @mine, @fence, @held, @rest, @age, @owner, @holder, @open,
  @first, @inline, @asleep, @ahead, @ticket, @done, @next, @dead, @old, @cluster,
  @newer, @arrived, @place, @turn, @since, @read_only

-- name: lease_tell
SELECT @version, @mine, @fence, @held, @rest, @age, @owner, @holder, @open,
  @first, @inline, @asleep, @ahead, @ticket, @done, @next, @dead, @old, @cluster,
  @newer, @arrived, @place, @turn, @since, @read_only;

-- name: lease_alive
-- A waiter (q) is alive as long as its connection holds its ticket. In a cluster a ticket is known
-- to one node only; there a waiter is alive if it looked within the last 15 s.
IF(@cluster, {lease_seen}, IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40))) = 0)

-- name: lease_seen
-- The test for a live waiter where GET_LOCK is refused.
q.seen > {now} - 15000000

-- name: lease_before
-- True for a waiter (q) that stands in line before this one.
q.turn <= @turn AND (q.turn < @turn OR q.id < @me)

-- name: lease_link
-- The connection number of the waiter q.
IF(@cluster, NULL, IS_USED_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40))))

-- name: lease_room
-- True when one more hold in the mode @wanted can enter the lock l.
(l.expires <= {clock} OR @wanted <> 0 AND l.mode = @wanted AND (@wanted < 0 OR (SELECT COUNT(*)
FROM dlock_holders r WHERE r.name = {name} AND r.expires > {clock}) < @wanted))

-- name: lease_stale
-- True when there has been room in the lock l for longer than the 0.9 s that a waiter may take to
-- come.
GREATEST(l.freed, IF(l.expires <= {clock}, l.expires, 0)) < {clock} - 900000

-- name: lease_ours
-- True for an exclusive hold of this token.
name = {name} AND token = {token} AND mode = 0 AND expires > {now}

-- name: lease_ours_together
-- True for the hold of this token among those who hold together; after lease_together.
name = {name} AND token = {token} AND @held <> 0 AND @until > @now AND expires > @now

-- name: lease_together
-- Begins a change of those who hold together, for which everybody locks the row of the lock: see
-- lease_join.
SET @until = 0;
ROLLBACK;
START TRANSACTION;
SELECT mode, expires INTO @held, @until FROM dlock_locks WHERE name = {name} FOR UPDATE;
SET @now = {now};

-- name: lease_together_end
-- Ends a change that frees nothing: the lock lasts as long as the last lease of its holders.
SET @done = ROW_COUNT();
SELECT COALESCE(MAX(expires), @now) INTO @until FROM dlock_holders WHERE name = {name};
UPDATE dlock_locks SET expires = @until WHERE name = {name} AND @done > 0;
COMMIT;

-- name: lease_freed
-- Gives back an exclusive hold, or keeps it taken for {keep} microseconds or until the minimum
-- hold that was agreed at acquisition. A free lock has 0 in expires rather than the current time,
-- because a clock that is set back would reach that time again. Assignments are made from left to
-- right.
freed = {now},
token = IF(GREATEST(freed + {keep}, keep) > freed, token, ''),
expires = IF(GREATEST(freed + {keep}, keep) > freed, GREATEST(freed + {keep}, keep), 0),
owner = IF(expires > 0, {kept}, owner)

-- name: lease_turnstile
CONCAT('dlock-line-', SHA1({name}))

-- name: lease_make
-- Creates the row of a lock that has none yet, and says whether the server is read-only.
INSERT IGNORE INTO dlock_locks (name) SELECT {name} FROM DUAL WHERE NOT {read_only};
SELECT {read_only};

-- name: lease_ticket
-- Takes this connection's own ticket, on which others sleep and by which they see that we live.
-- @ticket is 0 while an old connection of ours still has it. The server closes a connection that
-- is silent for {idle} s, and its ticket goes with it, so nobody dead stays in line for longer
-- than one TTL. An earlier try may have taken the ticket already; GET_LOCK is not called twice,
-- because RELEASE_LOCK would then be needed twice.
, @ticket = IF(@cluster, NULL, IF(IS_USED_LOCK({ticket}) = CONNECTION_ID(), 1,
    GET_LOCK({ticket}, {patience}))), SESSION wait_timeout = {idle}

-- name: lease_old
-- Finds out whether the server still has an earlier connection of ours that holds our ticket.
, @old = IF(IS_USED_LOCK({ticket}) = {connection}, {connection}, NULL)

-- name: lease_first
-- Finds the first waiter in line (@first). At READ COMMITTED only a plain SELECT reads without
-- taking locks.
SELECT q.id, q.mode INTO @first, @wanted FROM dlock_queue q FORCE INDEX (line)
  WHERE q.name = {name} AND q.asleep = 0 AND {alive} ORDER BY q.turn, q.id LIMIT 1;

-- name: lease_take
-- Takes the lock exclusively if it is free and nobody comes first; one UPDATE decides on one row.
-- If an earlier answer was lost ({again}) and the lock is already ours, the lease is extended.
-- Assignments are made from left to right. When others come first, the row is not touched: a crowd
-- of newcomers that locked the row would get in the holder's way.
UPDATE dlock_locks SET
    since = IF(token = {token} AND expires > @now, since, @now),
    keep = IF(token = {token} AND expires > @now, keep, IF({keep} = 0, 0, @now + {keep})),
    version = IF(token = {token} AND expires > @now, version, GREATEST(version + 1, @now)),
    mode = 0, token = {token}, owner = {owner}, expires = @now + {ttl}
  WHERE name = {name} AND (@first IS NULL OR {again}) AND NOT {read_only} AND
    (expires <= @now AND @first IS NULL AND newest <= {arrived} OR
      expires > @now AND token = {token});

-- name: lease_join
-- Takes the lock together with others, shared or in a slot. Everybody who changes the holders of a
-- lock first locks its row, so they come one after the other and cannot deadlock. A client for
-- which there is no room (@room) does not touch the row: a crowd of newcomers that locked the row
-- would get in the holders' way.
SET @wanted = COALESCE(@wanted, {mode}), @room = NULL;
SELECT {name} INTO @room FROM dlock_locks l WHERE l.name = {name} AND NOT {read_only} AND
  (@first IS NULL AND {lease_room} OR
    EXISTS (SELECT 1 FROM dlock_holders h WHERE h.name = {name} AND h.token = {token}));
ROLLBACK;
START TRANSACTION;
SELECT version, mode, expires, newest INTO @version, @held, @until, @last FROM dlock_locks
  WHERE name = @room FOR UPDATE;
SET @now = {now};
DELETE FROM dlock_holders WHERE name = @room AND (expires <= @now OR @until <= @now);
SELECT COUNT(*) INTO @used FROM dlock_holders WHERE name = {name};
SELECT fence INTO @fence FROM dlock_holders WHERE name = @room AND token = {token};
SET @take = @fence IS NOT NULL OR @version IS NOT NULL AND @first IS NULL AND @last <= {arrived} AND
  (@until <= @now OR @held = {mode} AND ({mode} < 0 OR @used < {mode}));
SET @fence = COALESCE(@fence, GREATEST(@version + 1, @now));
INSERT INTO dlock_holders (name, token, fence, since, expires, keep, owner)
  SELECT {name}, {token}, @fence, @now, @now + {ttl}, IF({keep} = 0, 0, @now + {keep}), {owner}
    FROM DUAL WHERE @take
  ON DUPLICATE KEY UPDATE expires = @now + {ttl};
UPDATE dlock_locks SET
    since = IF(expires <= @now, @now, since),
    expires = GREATEST(IF(expires <= @now, 0, expires), @now + {ttl}),
    version = GREATEST(version, @fence), mode = {mode}, token = '', keep = 0,
    owner = '', freed = @now
  WHERE name = @room AND @take;
COMMIT;

-- name: lease_rest
-- Lets go of the ticket that the last sleep may have ended with.
, @nap = RELEASE_LOCK(COALESCE(@target, 'dlock-'))

-- name: lease_line_begin
-- Waiters get in line one at a time, so that each has a place of its own, on which lease_nap
-- relies. Nobody waits longer than 1 s for that.
SET @turnstile = IF(@cluster, NULL, IF(IS_USED_LOCK({lease_turnstile}) = CONNECTION_ID(), 1,
  GET_LOCK({lease_turnstile}, 1)));

-- name: lease_line
-- Gets in line, or finds by the token the place that was kept. Whoever comes later has a
-- later time, even if the server's clock was set back.
SET @place = 0, @last = 0;
SELECT place, since INTO @place, @last FROM dlock_queue FORCE INDEX (name)
  WHERE name = {name} ORDER BY id DESC LIMIT 1;
SET @last = GREATEST(@last + 1, {now});
INSERT INTO dlock_queue
    (name, token, mode, place, turn, replaces, since, seen, owner)
  VALUES ({name}, {token}, {mode}, @place + 1, @last, {replaces}, @last, {now}, {owner})
  ON DUPLICATE KEY UPDATE asleep = 0;

-- name: lease_line_back
-- Comes back to the place that this waiter had in line. While its connection was broken it was
-- taken for dead, and a holder may have removed its row (lease_bury). A server that has lost its
-- data may have given the number of the row to somebody else.
SET @id = {id};
SELECT NULL INTO @id FROM dlock_queue WHERE id = {id};
INSERT INTO dlock_queue
    (id, name, token, mode, place, turn, replaces, since, seen, owner)
  VALUES (@id, {name}, {token}, {mode}, {place}, {turn}, {replaces}, {since}, {now}, {owner})
  ON DUPLICATE KEY UPDATE asleep = 0;

-- name: lease_replace
-- Sends all waiters away that came with --replace-waiters before this one: each finds that when it
-- looks, and cannot take the lock any more.
UPDATE dlock_locks SET newest = {arrived}, newest_owner = {owner}
  WHERE name = {name} AND newest < {arrived};

-- name: lease_replaced
-- Lists the connections of the waiters that lease_replace sends away.
SELECT {link} FROM dlock_queue q FORCE INDEX (name)
  WHERE q.name = {name} AND q.replaces AND q.token <> {token} AND {alive};

-- name: lease_line_end
SET @turnstile = IF(@turnstile, RELEASE_LOCK({lease_turnstile}), NULL);

-- name: lease_overtake
-- Notes in the row of the lock that this waiter, which has just got in line or has its ticket anew,
-- stands before others. If one of them has looked before that, and is woken, it finds by the number
-- that it has to look again (lease_turn). When nobody stands behind, the row is not touched.
SET @behind = NULL;
SELECT 1 INTO @behind FROM dlock_queue me JOIN dlock_queue q FORCE INDEX (line)
  ON q.name = me.name AND q.turn >= me.turn AND (q.turn > me.turn OR q.id > me.id)
  WHERE me.token = {token} LIMIT 1;
UPDATE dlock_locks SET overtakings = overtakings + 1 WHERE name = {name} AND @behind = 1;

-- name: lease_look
-- Finds this waiter's own place (@me) and the first live waiter before it (@first). The number of
-- overtakings is read first, so that whoever comes after that changes it.
SELECT overtakings INTO @overtakings FROM dlock_locks WHERE name = {name};
SELECT id, turn, place, since, asleep INTO @me, @turn, @place, @since, @asleep FROM dlock_queue
  WHERE token = {token};
SELECT q.id, q.mode INTO @first, @wanted FROM dlock_queue q FORCE INDEX (line)
  WHERE q.name = {name} AND {lease_before} AND q.asleep = 0 AND {alive}
  ORDER BY q.turn, q.id LIMIT 1;

-- name: lease_seen_now
-- Notes that this waiter is still in line, where there are no tickets to show it.
UPDATE dlock_queue SET seen = {now} WHERE id = @me;

-- name: lease_nap
-- A client that now holds the lock leaves the line. Otherwise @nap becomes the time in
-- microseconds for which this waiter has nothing to do. The first in line waits until the lease
-- ends, the others wait for the one before them; a waiter that should have come and did not within
-- 0.9 s is passed over (GET_LOCK counts whole seconds). @before becomes the token whose ticket
-- this waiter sleeps on: that of the nearest live waiter before it, or that of the holder. Servers
-- take a chain of 32 connections that wait for each other for a deadlock, and some links count
-- twice. Therefore every fourth waiter to come sleeps on the nearest fourth waiter before it, every
-- sixteenth on the nearest sixteenth, and so on (@step). In a line in the order of arrival the
-- longest chain of N waiters has as many links as the digits of N in base four add up to.
DELETE FROM dlock_queue WHERE id = @me AND @mine;
SET @step = CASE WHEN @place % 256 = 0 THEN 256 WHEN @place % 64 = 0 THEN 64
    WHEN @place % 16 = 0 THEN 16 WHEN @place % 4 = 0 THEN 4 ELSE 1 END, @far = NULL;
SELECT MAX(CASE WHEN q.place % LEAST(@step, 256) = 0 THEN @step
    WHEN q.place % LEAST(@step, 64) = 0 THEN 64 WHEN q.place % LEAST(@step, 16) = 0 THEN 16
    WHEN q.place % 4 = 0 THEN 4 ELSE 1 END)
  INTO @far FROM dlock_queue q FORCE INDEX (line)
  WHERE @step > 1 AND q.name = {name} AND {lease_before} AND q.asleep = 0 AND {alive};
SET @step = COALESCE(@far, 1);
SELECT CASE
    WHEN @mine OR @version IS NULL OR @ticket = 0 OR @asleep OR NOT @inline OR
      @newer IS NOT NULL OR @read_only THEN 0
    WHEN @first IS NULL THEN LEAST(@rest + 2000, 6000000)
    WHEN @open IS NOT NULL THEN LEAST(GREATEST(905000 - @open, 1000000), 6000000)
    ELSE 6000000 END,
  IF(@first IS NULL, IF(@held = 0 AND @rest > 0, @holder, ''),
    COALESCE((SELECT q.token FROM dlock_queue q FORCE INDEX (line)
      WHERE q.name = {name} AND {lease_before} AND q.place % @step = 0 AND
        q.asleep = 0 AND {alive} ORDER BY q.turn DESC, q.id DESC LIMIT 1), ''))
  INTO @nap, @before;

-- name: lease_drop
-- Nobody sleeps on the ticket of a client that holds together with others, so the next waiter may
-- look now.
DO IF(@mine, RELEASE_LOCK({ticket}), 0);

-- name: lease_target
-- There is no ticket to sleep on when the holder has no connection; then lease_doze sees the
-- release. If waiters before this one left the line meanwhile, @nap becomes 0 and this waiter
-- looks again at once.
SET @target = IF(@nap < 1000000 OR @before = '' OR
    IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(@before), 40))), NULL,
    CONCAT('dlock-', LEFT(HEX(@before), 40))),
  @nap = IF(@target IS NULL AND @first IS NOT NULL AND @nap >= 1000000, 0, @nap), @go = 0;

-- name: lease_no_target
SET @target = NULL, @go = 0;

-- name: lease_doze
-- Sleeps a slice of @nap without a ticket to sleep on, after checking whether it is this waiter's
-- turn, or whether the waiter whose turn it is does not come. Several slices go in one request;
-- once @go is set the remaining ones do nothing.
SET @wanted = COALESCE(@wanted, {mode});
SELECT 1 INTO @go FROM dlock_locks l
  WHERE NOT @go AND l.name = {name} AND (
    {lease_room} AND (@first IS NULL OR {lease_stale}) OR
    @first IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dlock_queue q FORCE INDEX (line)
      WHERE q.name = {name} AND {lease_before} AND q.asleep = 0 AND {alive} LIMIT 1));
SET @go = IF(@go OR @target IS NOT NULL OR @nap <= 0, 1, SLEEP(LEAST(@nap, {slice}) / 1000000)),
  @nap = @nap - IF(@target IS NULL, {slice}, 0);

-- name: lease_sleep
-- Sleeps on @target until its owner lets it go or the owner's connection ends, and looks once in
-- between for a waiter that hangs although it is its turn. The result is 1 with the ticket, and
-- NULL when there was none to sleep on. A waiter that gets the ticket before that look is told so
-- by an error: the sum is out of range, so the server skips the long statement that follows and
-- need not even parse it.
SET @woken = IF(@target IS NULL, 2, 18446744073709551615 +
  GET_LOCK(@target, LEAST(FLOOR(@nap / 1000000), 3)) - 18446744073709551615);
SELECT IF(@target IS NULL AND @nap > 0, NULL, IF(@woken = 0 AND @nap >= 4000000 AND
    NOT EXISTS (SELECT 1 FROM dlock_locks l
      WHERE l.name = {name} AND {lease_room} AND {lease_stale}),
  GET_LOCK(@target, FLOOR(@nap / 1000000) - 3), @woken));

-- name: lease_mark
-- Puts this waiter back in its place after others had passed over it: see lease_overtake.
UPDATE dlock_queue SET asleep = 0 WHERE id = @me;
UPDATE dlock_locks SET overtakings = overtakings + 1 WHERE name = {name};

-- name: lease_pass
-- Passes over the first waiter in line, whose turn it was and who did not come. That waiter keeps
-- its place for when it wakes; from now on it is the next one's turn.
UPDATE dlock_queue SET asleep = 1 WHERE id = {first};
UPDATE dlock_locks SET freed = {now} WHERE name = {name};

-- name: lease_behind
-- Looks again for waiters before this one. At READ COMMITTED only a SELECT by itself reads without
-- taking locks.
SET @first = NULL;
SELECT q.id INTO @first FROM dlock_queue q FORCE INDEX (line)
  WHERE q.name = {name} AND {lease_before} AND q.asleep = 0 AND {alive}
  ORDER BY q.turn, q.id LIMIT 1;

-- name: lease_turn
-- Takes the lock after the ticket that this waiter slept on was let go. Nobody stood before it when
-- it looked (@first), and nobody got before it since: the number of overtakings is what it was.
-- Nothing stands after the UPDATE, because the client is woken only by the end of the request.
{lease_take_free} AND overtakings = @overtakings;

-- name: lease_take_free
-- Takes the lock if it is free and @first is NULL; LAST_INSERT_ID is the fence then. Assignments
-- are made from left to right.
UPDATE dlock_locks SET
    since = {now}, keep = IF({keep} = 0, 0, since + {keep}),
    version = LAST_INSERT_ID(GREATEST(version + 1, since)),
    mode = 0, token = {token}, owner = {owner}, expires = since + {ttl}
  WHERE name = {name} AND expires <= {now} AND @first IS NULL AND newest <= {arrived} AND
    NOT {read_only}

-- name: lease_settle
-- Cleans up for a client that has stopped waiting: lets go of the ticket it slept on and leaves
-- the line.
DO RELEASE_LOCK(@target);
DELETE FROM dlock_queue WHERE id = @me;

-- name: lease_unline
-- Leaves the line by the primary key, as everybody who deletes there does.
SET @me = NULL;
SELECT id INTO @me FROM dlock_queue WHERE token = {token};
DELETE FROM dlock_queue WHERE id = @me;

-- name: lease_renew
-- Extends an exclusive lease, and never takes it anew.
UPDATE dlock_locks SET {renewed}
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now AND NOT {read_only};

-- name: lease_renew_shared
-- Extends the lease of one of those who hold together.
{lease_together}
UPDATE dlock_holders SET {renewed}
  WHERE {lease_ours_together} AND NOT {read_only};
{lease_together_end}

-- name: lease_let_go
-- Gives back an exclusive hold when the next waiter sleeps on our ticket. The ticket is let go by
-- the same statement, so that the waiter wakes while the row is on its way to the log; if the
-- waiter tries before the row is written, it waits for the row. LAST_INSERT_ID says what became of
-- the ticket: 0 that it was not ours, 1 that nobody has it now, more that somebody has it.
-- The last column is whether anybody stands in line: if nobody has the ticket, they are dead.
UPDATE dlock_locks SET {lease_freed},
    mode = 0 * LAST_INSERT_ID(IF(RELEASE_LOCK({ticket}) = 1,
      1 + COALESCE(IS_USED_LOCK({ticket}), 0), 0))
  WHERE {lease_ours};
SELECT ROW_COUNT(), LAST_INSERT_ID(), EXISTS (SELECT 1 FROM dlock_queue WHERE name = {name});

-- name: lease_release
-- Gives an exclusive hold back.
UPDATE dlock_locks SET {lease_freed} WHERE {lease_ours};

-- name: lease_set_done
SET @done = ROW_COUNT();

-- name: lease_untie
-- Lets go of our ticket before anything else is done, so that the next waiter wakes early.
SET @done = ROW_COUNT(), @nap = RELEASE_LOCK({ticket});

-- name: lease_release_shared
-- Gives back the hold of one of those who hold together.
{lease_together}
UPDATE dlock_holders SET expires = GREATEST(@now + {keep}, keep),
    owner = IF(expires > @now, {kept}, owner)
  WHERE {lease_ours_together};
SET @done = ROW_COUNT();
DELETE FROM dlock_holders WHERE name = {name} AND expires <= @now;
SELECT COALESCE(MAX(expires), 0) INTO @until FROM dlock_holders WHERE name = {name};
UPDATE dlock_locks SET expires = @until, freed = @now WHERE name = {name} AND @done > 0;
COMMIT;

-- name: lease_next
-- Finds the connection of the next waiter in line (@next) and whether waiters before it have died
-- (@dead).
SELECT q.id, q.mode, {link}, COALESCE(d.id <> q.id, 1) INTO @first, @wanted, @next, @dead
  FROM dlock_queue d FORCE INDEX (line) LEFT JOIN dlock_queue q ON q.id = (SELECT q.id
    FROM dlock_queue q FORCE INDEX (line)
    WHERE q.name = {name} AND q.asleep = 0 AND {alive} ORDER BY q.turn, q.id LIMIT 1)
  WHERE d.name = {name} ORDER BY d.turn, d.id LIMIT 1;

-- name: lease_dead
-- Lists dead waiters that stand before the first live one.
SET @turn = 9223372036854775807, @me = 18446744073709551615, @now = {now};
SELECT q.turn, q.id INTO @turn, @me FROM dlock_queue q FORCE INDEX (line)
  WHERE q.name = {name} AND {alive} ORDER BY q.turn, q.id LIMIT 1;
SELECT q.id FROM dlock_queue q FORCE INDEX (line)
  WHERE q.name = {name} AND {lease_before} AND NOT ({alive})
  LIMIT 100;

-- name: lease_bury
-- Removes those waiters of a list of dead ones that have not come back since.
DELETE q FROM dlock_queue q WHERE q.id IN ({ids}) AND NOT ({alive});

-- name: lease_forget
-- Removes the row, and the fence with it, of a name that will not be used again.
DELETE FROM dlock_locks WHERE name = {name} AND expires <= {now};

-- name: lease_inspect
-- Shows what is known of a lock: the lock itself ('l'), its holders ('h') and its waiters ('w').
SELECT 'l' AS kind, l.version AS number, l.mode, 0, 0, '', 0 FROM dlock_locks l
  WHERE l.name = {name}
UNION ALL
SELECT 'h', l.version, 0, @now - l.since, l.expires - @now, l.owner, 0
  FROM dlock_locks l
  WHERE l.name = {name} AND l.mode = 0 AND l.expires > @now
UNION ALL
SELECT 'h', h.fence, l.mode, @now - h.since, h.expires - @now, h.owner, 0
  FROM dlock_locks l JOIN dlock_holders h ON h.name = {name}
  WHERE l.name = {name} AND l.mode <> 0 AND l.expires > @now AND h.expires > @now
UNION ALL
SELECT 'w', q.id, q.mode, @now - q.since, 0, q.owner, q.turn FROM dlock_queue q
  WHERE q.name = {name} AND {alive}
ORDER BY 1, 7, 2;

-- name: lease_break
-- Takes the lock away from everybody whom the SELECT in the middle shows.
ROLLBACK;
START TRANSACTION;
SELECT version INTO @version FROM dlock_locks WHERE name = {name} FOR UPDATE;
SET @now = {now};
{lease_inspect}
UPDATE dlock_locks SET token = '', expires = 0, keep = 0, freed = @now
  WHERE name = {name} AND expires > @now;
DELETE FROM dlock_holders WHERE name = {name};
COMMIT;

-- name: lease_watch_begin
-- @go becomes 0 when the lock is held, so that there is something to wait for.
SET @go = 1, @now = {now};
SELECT 0 INTO @go FROM dlock_locks l WHERE l.name = {name} AND l.expires > @now;

-- name: lease_watch
-- Waits one slice for the lock to become free.
SET @go = IF(@go, 1, SLEEP({slice} / 1000000)), @now = {now};
SELECT 1 INTO @go FROM dlock_locks l WHERE NOT @go AND l.name = {name} AND l.expires <= @now;

-- name: lease_list
-- Lists held locks in the order of their names, starting after {after}.
SELECT name FROM dlock_locks WHERE name > {after} AND expires > {now} ORDER BY name LIMIT 1000;

-- name: lease_list_queue
-- Lists locks that somebody waits for, starting after {after}. MariaDB 11 would read and sort all
-- rows instead of the first ones of the key.
SET @now = {now};
SELECT DISTINCT q.name FROM dlock_queue q FORCE INDEX (name) WHERE q.name > {after} AND {alive}
  ORDER BY q.name LIMIT 1000;
