-- The table dlock_sessions, in which the strategies row, advisory and table note who holds.
-- session_parts.h says what a registration means.

-- name: session_tables
-- dlock_sessions notes who holds a lock that lives with a connection, and the last fence. Each
-- lock has one row with an empty sharer, which stays, and one more row for each of those who share
-- the lock. The token is stored as its SHA-256.
CREATE TABLE IF NOT EXISTS dlock_sessions (
  strategy VARBINARY(16) NOT NULL,
  name VARBINARY(200) NOT NULL,
  sharer VARBINARY(32) NOT NULL,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  account VARBINARY(400) NOT NULL,
  since BIGINT NOT NULL COMMENT 'microseconds since 1970, UTC',
  until BIGINT NOT NULL COMMENT 'the same; 0: not by itself',
  holder VARBINARY(800) NOT NULL,
  lease BIGINT NOT NULL DEFAULT 0 COMMENT 'microseconds from a renewal to dead_by',
  dead_by BIGINT NOT NULL DEFAULT 0 COMMENT 'its command is dead by then; 0: it is dead',
  PRIMARY KEY (strategy, name, sharer)
) ENGINE = InnoDB;

-- name: session_grants
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_sessions TO {account};

-- name: session_register
-- Notes that this connection holds the lock alone. A row of another token whose command may still
-- be alive belongs to a holder that lost the lock: then nothing is written, and @rest says for how
-- long that command can live. All other rows are history. The fence is the clock, or the last
-- fence plus 1. Each renewal writes this row again, so a connection that is idle for longer than
-- {idle} s has lost its host.
SET @now = {now}, SESSION wait_timeout = {idle};
SELECT MAX(dead_by) - @now INTO @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND dead_by > @now AND token <> {token};
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, holder, lease,
    dead_by)
  SELECT {strategy}, {name}, '', {token}, @now, {connection}, CURRENT_USER(), @now,
    IF({rest}, @now + {rest}, 0), {owner}, {lease}, @now + {lease}
    FROM DUAL WHERE @rest IS NULL
  ON DUPLICATE KEY UPDATE token = VALUES(token), fence = GREATEST(fence + 1, VALUES(fence)),
    connection = VALUES(connection), account = VALUES(account), since = VALUES(since),
    until = VALUES(until), holder = VALUES(holder), lease = VALUES(lease),
    dead_by = VALUES(dead_by);
DELETE FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer > '' AND @rest IS NULL;
SELECT IF(@rest IS NULL, MAX(fence), 0), @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = '';

-- name: session_share
-- Notes that this connection holds the lock together with others. Only a former exclusive holder
-- is in the way here; session_register explains the rest.
SET @now = {now}, SESSION wait_timeout = {idle};
SELECT MAX(dead_by) - @now INTO @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = '' AND dead_by > @now
    AND token <> {token};
START TRANSACTION;
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, holder)
  SELECT {strategy}, {name}, '', '', @now, 0, '', @now, 0, '' FROM DUAL WHERE @rest IS NULL
  ON DUPLICATE KEY UPDATE token = '', connection = 0, holder = '', dead_by = 0,
    fence = GREATEST(fence + 1, VALUES(fence));
REPLACE INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, holder, lease,
    dead_by)
  SELECT strategy, name, {token}, {token}, fence, {connection}, CURRENT_USER(), @now,
    IF({rest}, @now + {rest}, 0), {owner}, {lease}, @now + {lease} FROM dlock_sessions
    WHERE strategy = {strategy} AND name = {name} AND sharer = '' AND @rest IS NULL;
COMMIT;
SELECT IF(@rest IS NULL, MAX(fence), 0), @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = {token};

-- name: session_ours
-- True for the registration of this token, alone or among those who share the lock.
strategy = {strategy} AND name = {name} AND sharer IN ('', {token}) AND token = {token}

-- name: session_extend
-- Begins the lease anew. A registration that has ended meanwhile stays ended.
UPDATE dlock_sessions SET dead_by = {now} + {lease}
  WHERE {session_ours} AND dead_by > 0;

-- name: session_until
-- Notes the time at which the hold ends by itself.
UPDATE dlock_sessions SET until = {now} + {rest} WHERE {session_ours};

-- name: session_end
-- Notes that no process of the command is alive any more, so that the next holder need not wait
-- for it.
UPDATE dlock_sessions SET dead_by = 0 WHERE {session_ours};

-- name: session_keep
-- Does what session_end does, and notes that the lock stays taken for {kept_for} us, for the
-- minimum hold (see lock/holder.h); {acquired} for a hold of dlock acquire. Assignments are made
-- from left to right.
UPDATE dlock_sessions SET dead_by = 0, until = {now} + {kept_for},
    holder = CONCAT(SUBSTRING_INDEX(holder, '&kept=', 1), '&kept=', until DIV 1000,
      IF({acquired}, '&min=1', ''))
  WHERE {session_ours};

-- name: session_leave
-- Does what session_end does, and deletes the row of a shared hold, which status no longer shows.
DELETE FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = {token};
{session_end}

-- name: session_behind
-- Cuts a dead_by that is further away than one lease, which happens when the server's clock is set
-- back.
UPDATE dlock_sessions SET dead_by = {now} + lease
  WHERE strategy = {strategy} AND name = {name} AND token <> {token}
    AND dead_by > {now} + lease;

-- name: session_bury
-- Notes, on the word of a user who breaks the lock, that this holder's command is dead.
UPDATE dlock_sessions SET dead_by = 0
  WHERE strategy = {strategy} AND name = {name} AND connection = {connection}
    AND fence = {fence};

-- name: session_forget
DELETE FROM dlock_sessions WHERE strategy = {strategy} AND name = {name};

-- name: session_holders
-- Lists the registered holders. A connection of our own account that is not listed is gone;
-- connections of other accounts may be hidden from us.
SELECT s.connection, s.token, s.sharer, s.fence,
    {now} - s.since, s.holder,
    EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p WHERE p.ID = s.connection),
    s.account = CURRENT_USER(),
    IF(s.until, s.until - {now}, -1), GREATEST(s.dead_by - {now}, 0), s.dead_by = 0
  FROM dlock_sessions s WHERE s.strategy = {strategy} AND s.name = {name} ORDER BY s.sharer;

-- name: session_uptime
-- Gives a name and a number of seconds. Connection numbers start again when the server does.
SHOW GLOBAL STATUS LIKE 'Uptime';

-- name: session_list
SELECT name FROM dlock_sessions WHERE strategy = {strategy} GROUP BY name;

-- name: session_facts
-- What every answer about a hold says of the session and the server, after whether it holds.
CONNECTION_ID(), {read_only}, {wsrep}, @@SESSION.wait_timeout

-- name: session_nap
-- The lock is ours, but the command of an earlier holder may still be alive. If this client hangs
-- meanwhile, the server closes the connection after {hung} s, as it does for a waiter.
SET SESSION wait_timeout = {hung};
SELECT {waiter} SLEEP({nap} / 1000) = 0, {session_facts};

-- name: session_prove
-- Proves that this is still the session that holds. The question itself keeps the connection from
-- being idle.
SELECT 1, {session_facts};

-- name: session_check
-- Shows whether settings stay with the session. A proxy may share one connection among many
-- clients.
SET SESSION wait_timeout = 7654;
SELECT @@SESSION.wait_timeout;
