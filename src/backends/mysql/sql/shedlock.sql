-- The dialect shedlock: the table of Java's ShedLock. It has no further columns, so locked_by has
-- the token's digest, and locked_at is the fence. There is no queue. The answers have the columns
-- of those in entries.sql.

-- name: shedlock_tables
-- The table as ShedLock documents it.
CREATE TABLE IF NOT EXISTS shedlock (
  name VARCHAR(64) NOT NULL,
  lock_until TIMESTAMP(3) NOT NULL,
  locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  locked_by VARCHAR(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB CHARACTER SET utf8mb4;

-- name: shedlock_grants
GRANT SELECT, INSERT, UPDATE ON {database}.shedlock TO {user}@'%';

-- name: shedlock_zone
-- ShedLock writes UTC into columns that the server reads as local time, so all clients of a table
-- must use the same time zone: that of the server unless ?time-zone= names another one. Times that
-- do not fit are errors.
SET SESSION time_zone = {zone}, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';

-- name: shedlock_is_held
name = _utf8mb4 {name} AND lock_until > UTC_TIMESTAMP(3)

-- name: shedlock_by
-- The beginning of locked_by, before a blank and the holder record.
CONCAT('dlock-', LEFT(LOWER(HEX({token})), 32))

-- name: shedlock_locked_by
-- The holder record is cut to the room of the column. NULL without a record.
LEFT(CONCAT({shedlock_by}, ' ', CONVERT({owner} USING utf8mb4)), 255)

-- name: shedlock_is_ours
{shedlock_is_held} AND LEFT(locked_by, 38) = {shedlock_by}

-- name: shedlock_fence
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at)

-- name: shedlock_take
-- Follows the steps of ShedLock. If an earlier answer was lost and the lock is already ours, the
-- lease is extended. locked_at never goes back: it is no earlier than the previous lock_until,
-- which is at least a millisecond after the previous locked_at. MAX() gives a row also when there
-- is none.
{shedlock_zone}
{is_writable}
INSERT IGNORE /* {token} */ INTO shedlock (name, lock_until, locked_at, locked_by)
  SELECT _utf8mb4 {name}, TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    UTC_TIMESTAMP(3), {shedlock_locked_by} FROM DUAL WHERE NOT {read_only};
UPDATE /* {token} */ shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_at = GREATEST(UTC_TIMESTAMP(3), TIMESTAMPADD(MICROSECOND, 1000, locked_at)),
    locked_by = {shedlock_locked_by}
  WHERE name = _utf8mb4 {name} AND lock_until <= UTC_TIMESTAMP(3) AND NOT {read_only};
UPDATE /* {token} */ shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3))
  WHERE {shedlock_is_ours} AND NOT {read_only};
SELECT MAX(LEFT(locked_by, 38) = {shedlock_by}), MAX({shedlock_fence}), 0, 0, 0, 0,
    COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until)) DIV 1000, -1), 0, 0, 0
  FROM shedlock WHERE {shedlock_is_held};

-- name: shedlock_renew
-- Extends a lease, and never takes the lock.
{shedlock_zone}
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_by = COALESCE({shedlock_locked_by}, locked_by)
  WHERE {shedlock_is_ours} AND {writable};
SELECT ROW_COUNT(), 0, 0, 0;

-- name: shedlock_release
-- The third column is below 0 if a clock that was set back keeps the lock taken: for how many ms.
-- The row stays. The lock becomes free after its minimum hold, and not within the millisecond in
-- which it was taken. A retained lock has no token.
{shedlock_zone}
UPDATE shedlock SET lock_until = GREATEST(TIMESTAMPADD(MICROSECOND, {keep}, UTC_TIMESTAMP(3)),
    TIMESTAMPADD(MICROSECOND, 1000, locked_at)),
    locked_by = IF({keep} > 0, CONCAT('dlock-', REPEAT('0', 32),
      SUBSTRING(COALESCE({shedlock_locked_by}, locked_by), 39)), locked_by)
  WHERE {shedlock_is_ours};
SELECT ROW_COUNT(), 0, COALESCE(MIN(IF(lock_until > TIMESTAMPADD(MICROSECOND, {keep} + 1000000,
    UTC_TIMESTAMP(3)), TIMESTAMPDIFF(MICROSECOND, lock_until, UTC_TIMESTAMP(3)) DIV 1000, 0)), 0), 0
  FROM shedlock WHERE name = _utf8mb4 {name};

-- name: shedlock_break
{shedlock_zone}
UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3)
  WHERE {shedlock_is_held} AND {shedlock_fence} = {fence};
SELECT ROW_COUNT(), 0, 0, 0;

-- name: shedlock_show
-- Java's ShedLock stores the name of the host.
{shedlock_zone}
SELECT {shedlock_fence}, {shedlock_fence}, 0,
    IF(locked_by LIKE 'dlock-%', SUBSTRING(locked_by, 7, 32), ''),
    TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until) DIV 1000,
    GREATEST(0, TIMESTAMPDIFF(MICROSECOND, locked_at, UTC_TIMESTAMP(6))) DIV 1000,
    IF(locked_by LIKE 'dlock-%' AND SUBSTRING(locked_by, 39, 1) = ' ', SUBSTRING(locked_by, 40),
      CONCAT('host=', REPLACE(REPLACE(locked_by, '%', '%25'), '&', '%26'))),
    LEFT(locked_by, 38) = {shedlock_by}, 1
  FROM shedlock WHERE {shedlock_is_held};

-- name: shedlock_list
-- The table has no other key than the name, so the whole table is read.
{shedlock_zone}
SELECT name FROM shedlock WHERE lock_until > UTC_TIMESTAMP(3);

-- name: shedlock_check
-- Also the offset of the time zone from UTC, and its difference between January and July: the days
-- between two midnights have 24 hours each, unless there is daylight saving time in one of them.
{shedlock_zone}
{facts}
UNION ALL SELECT 'zone_min', TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())
UNION ALL SELECT 'zone_daylight_s', UNIX_TIMESTAMP(MAKEDATE(YEAR(NOW()), 196)) -
  UNIX_TIMESTAMP(MAKEDATE(YEAR(NOW()), 15)) - (196 - 15) * 86400;
