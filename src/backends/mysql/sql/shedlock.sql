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
GRANT SELECT, INSERT, UPDATE ON {database}.shedlock TO {account};

-- name: shedlock_zone
-- ShedLock writes UTC into columns that the server takes for local time, so all clients of a table
-- must use the same time zone: that of the server unless ?time-zone= says otherwise. Times that do
-- not fit are errors.
SET SESSION time_zone = {zone}, sql_mode = 'STRICT_ALL_TABLES';

-- name: shedlock_ttl
-- The TTL in ms that locked_by notes. Where none is noted, the usual TTL is taken, but no less
-- than what is left of the lease.
IF(LOCATE('ttl=', locked_by), CAST(SUBSTRING_INDEX(SUBSTRING(locked_by,
    LOCATE('ttl=', locked_by) + 4), '&', 1) AS UNSIGNED),
  GREATEST(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lock_until), {usual}) DIV 1000)

-- name: shedlock_take
-- Follows the steps of ShedLock. If an earlier answer was lost and the lock is already ours, the
-- lease is extended.
{shedlock_zone}
INSERT IGNORE INTO shedlock (name, lock_until, locked_at, locked_by)
  SELECT _utf8mb4 {name}, TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    UTC_TIMESTAMP(3), _utf8mb4 {owner} FROM DUAL WHERE NOT {read_only};
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_at = UTC_TIMESTAMP(3), locked_by = _utf8mb4 {owner}
  WHERE name = _utf8mb4 {name} AND lock_until <= UTC_TIMESTAMP(3) AND NOT {read_only};
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3) AND NOT {read_only};
{shedlock_state}

-- name: shedlock_state
-- The state of the lock; see struct simple_state. locked_at never goes back: it is no earlier than
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
-- Extends a lease, by its own TTL when {ttl} is 0, and never takes it anew. Assignments are made
-- from left to right.
{shedlock_zone}
UPDATE shedlock SET
    lock_until = TIMESTAMPADD(MICROSECOND, IF({ttl} > 0, {ttl}, 1000 * {shedlock_ttl}),
      UTC_TIMESTAMP(3)),
    locked_by = IF({ttl} > 0 AND LOCATE('ttl=', locked_by), INSERT(locked_by,
      LOCATE('ttl=', locked_by) + 4, CHAR_LENGTH({shedlock_ttl}), {ttl} DIV 1000), locked_by)
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3) AND NOT {read_only};
{shedlock_state}

-- name: shedlock_release
-- The row stays. The lock becomes free when its minimum hold is over, and not within the
-- millisecond in which it was taken. locked_by notes the minimum hold for a release that comes
-- from elsewhere.
{shedlock_zone}
UPDATE shedlock SET lock_until = GREATEST(
    TIMESTAMPADD(MICROSECOND, {rest}, UTC_TIMESTAMP(3)),
    TIMESTAMPADD(MICROSECOND, IF(SUBSTRING(locked_by, 40, 4) = 'min=',
      1000 * CAST(SUBSTRING_INDEX(SUBSTRING(locked_by, 44), '&', 1) AS UNSIGNED), 1000), locked_at))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
SELECT ROW_COUNT() > 0;

-- name: shedlock_forget
DELETE FROM shedlock WHERE name = _utf8mb4 {name};

-- name: shedlock_break
{shedlock_zone}
UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3)
  WHERE name = _utf8mb4 {name} AND lock_until > UTC_TIMESTAMP(3);

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
