-- The strategy insert: a row under a unique key, which is there as long as the lock is held.

-- name: insert_tables
-- dlock_inserts has one row for each lock that is held; release deletes the row. Times are
-- microseconds since the epoch (UTC). The token is stored as its SHA-256. dlock_fences keeps the
-- last fence of each lock that was ever taken.
CREATE TABLE IF NOT EXISTS dlock_inserts (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  since BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  keep BIGINT NOT NULL COMMENT 'stays taken until then, released or not',
  owner VARBINARY(800) NOT NULL,
  KEY expires (expires)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dlock_fences (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  fence BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- name: insert_grants
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_inserts TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_fences TO {account};

-- name: insert_take
-- Inserts the row, or takes the place of one that has expired. If an earlier answer was lost and
-- the lock is already ours, the lease is extended. ON DUPLICATE KEY UPDATE locks an existing row
-- exclusively from the start; a plain INSERT that fails would lock it shared, and two clients that
-- share the lock and want more deadlock. Assignments are made from left to right. Only a new row
-- gets a new fence.
SET @now = {now};
START TRANSACTION;
INSERT INTO dlock_inserts (name, token, fence, since, expires, keep, owner)
  SELECT {name}, {token}, 0, @now, @now + {ttl}, IF({keep} = 0, 0, @now + {keep}), {owner}
    FROM DUAL WHERE NOT {read_only}
  ON DUPLICATE KEY UPDATE
    since = IF(expires > @now, since, @now),
    keep = IF(expires > @now, keep, VALUES(keep)),
    owner = IF(expires > @now, owner, VALUES(owner)),
    fence = IF(expires > @now, fence, 0),
    token = IF(expires > @now, token, VALUES(token)),
    expires = IF(token = VALUES(token), VALUES(expires), expires);
INSERT INTO dlock_fences (name, fence)
  SELECT i.name, LAST_INSERT_ID(@now) FROM dlock_inserts i
    WHERE i.name = {name} AND i.token = {token} AND i.fence = 0
  ON DUPLICATE KEY UPDATE
    fence = LAST_INSERT_ID(GREATEST(dlock_fences.fence + 1, @now));
UPDATE dlock_inserts SET fence = LAST_INSERT_ID()
  WHERE name = {name} AND token = {token} AND fence = 0;
COMMIT;
{insert_state}

-- name: insert_state
-- The state of the lock; see struct simple_state. MAX() gives a row also when there is none.
SELECT MAX(token = {token}), MAX(fence), MAX(@now - since), MAX(expires - @now),
    MAX(owner), {read_only}
  FROM dlock_inserts WHERE name = {name} AND expires > @now;

-- name: insert_look
SET @now = {now};
{insert_state}

-- name: insert_renew
-- Extends a lease, and never takes it anew.
SET @now = {now};
UPDATE dlock_inserts SET {renewed}
  WHERE name = {name} AND token = {token} AND expires > @now AND NOT {read_only};
{insert_state}

-- name: insert_release
-- Ends the hold. A row that must stay taken for the minimum hold belongs to no token afterwards. The
-- answer is 1 when the lock was held, and 0 when it was not.
SET @now = {now};
UPDATE dlock_inserts SET expires = GREATEST(keep, @now + {rest}), token = '',
    owner = {kept}
  WHERE name = {name} AND token = {token} AND expires > @now
    AND GREATEST(keep, @now + {rest}) > @now;
SET @kept = ROW_COUNT();
DELETE FROM dlock_inserts WHERE name = {name} AND token = {token} AND expires > @now;
SET @gone = ROW_COUNT();
DELETE FROM dlock_inserts WHERE name = {name} AND token = {token} AND expires <= @now;
SELECT @kept > 0 OR @gone > 0;

-- name: insert_purge
-- Deletes rows that other clients left behind when they died, at least a minute ago.
DELETE FROM dlock_inserts WHERE expires < {now} - 60000000 ORDER BY expires LIMIT 100;

-- name: insert_forget
DELETE FROM dlock_fences WHERE name = {name};

-- name: insert_break
DELETE FROM dlock_inserts WHERE name = {name};

-- name: insert_list
SELECT name FROM dlock_inserts FORCE INDEX (expires) WHERE expires > {now};
