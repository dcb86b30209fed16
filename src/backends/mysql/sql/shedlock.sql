-- The dialect shedlock: the table of Java's ShedLock. Its columns are all there is, so the token's
-- digest stands in locked_by, and locked_at is the fence.

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
-- ShedLock writes UTC into columns that the server takes for local time, so all clients of a table
-- must use the same time zone: that of the server unless ?time-zone= says otherwise. Times that do
-- not fit are errors.
SET SESSION time_zone = {zone}, sql_mode = 'STRICT_ALL_TABLES';

-- name: shedlock_take
-- Follows the steps of ShedLock. If an earlier answer was lost and the lock is already ours, the
-- lease is extended.
{shedlock_zone}
INSERT IGNORE /* {token} */ INTO shedlock (name, lock_until, locked_at, locked_by)
  SELECT _utf8mb4 {name}, TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    UTC_TIMESTAMP(3), _utf8mb4 {owner} FROM DUAL WHERE NOT {read_only};
UPDATE /* {token} */ shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_at = UTC_TIMESTAMP(3), locked_by = _utf8mb4 {owner}
  WHERE name = _utf8mb4 {name} AND lock_until <= UTC_TIMESTAMP(3) AND NOT {read_only};
UPDATE /* {token} */ shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3) AND NOT {read_only};
{shedlock_state}

-- name: shedlock_state
-- The state of the lock; see enum column in shedlock.c. locked_at never goes back: it is no earlier than
-- the previous lock_until, which is at least a millisecond after the previous locked_at. MAX()
-- gives a row also when there is none.
SELECT MAX(LEFT(locked_by, 38) = {by}), MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at)),
    MAX(TIMESTAMPDIFF(MICROSECOND, locked_at, UTC_TIMESTAMP(6))),
    MAX(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until)), MAX(locked_by), {read_only}
  FROM shedlock WHERE name = _utf8mb4 {name} AND lock_until > UTC_TIMESTAMP(3);

-- name: shedlock_look
{shedlock_zone}
{shedlock_state}

-- name: shedlock_renew
-- Extends a lease, and never takes it anew.
{shedlock_zone}
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_by = IF({changes}, _utf8mb4 {owner}, locked_by)
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3) AND NOT {read_only};
{shedlock_state}

-- name: shedlock_release
-- The row stays. The lock becomes free when its minimum hold is over, and not within the
-- millisecond in which it was taken. A lock that is only kept has the token of nobody.
{shedlock_zone}
UPDATE shedlock SET lock_until = GREATEST(TIMESTAMPADD(MICROSECOND, {keep}, UTC_TIMESTAMP(3)),
    TIMESTAMPADD(MICROSECOND, 1000, locked_at)),
    locked_by = IF({changes}, CONCAT('dlock-', REPEAT('0', 32), SUBSTRING(_utf8mb4 {owner}, 39)),
      locked_by)
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
SELECT ROW_COUNT();

-- name: shedlock_break
{shedlock_zone}
UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3)
  WHERE name = _utf8mb4 {name} AND locked_at = TIMESTAMPADD(MICROSECOND, {fence}, '1970-01-01')
    AND lock_until > UTC_TIMESTAMP(3);
SELECT ROW_COUNT();

-- name: shedlock_list
-- The table has no other key than the name, so the whole table is read.
{shedlock_zone}
SELECT name FROM shedlock WHERE lock_until > UTC_TIMESTAMP(3);

-- name: shedlock_check
-- How far the time zone is off UTC, and by how much that differs between January and July: the days
-- between two midnights have 24 hours each, unless there is daylight saving time in one of them.
{shedlock_zone}
SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()),
  UNIX_TIMESTAMP(MAKEDATE(YEAR(NOW()), 196)) - UNIX_TIMESTAMP(MAKEDATE(YEAR(NOW()), 15)) -
    (196 - 15) * 86400;
