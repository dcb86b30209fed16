-- The dialect shedlock: the table of Java's ShedLock. It has no further columns, so locked_by has
-- the token's digest, and locked_at is the fence. There is no queue. The answers have the columns
-- of those in entries.sql.

-- name: shedlock_tables
-- The table as ShedLock documents it.
CREATE TABLE IF NOT EXISTS shedlock (
  name VARCHAR(64) NOT NULL,
  lock_until TIMESTAMP NOT NULL,
  locked_at TIMESTAMP NOT NULL,
  locked_by VARCHAR(255) NOT NULL,
  PRIMARY KEY (name)
);

-- name: shedlock_grants
GRANT SELECT, INSERT, UPDATE ON shedlock TO {user};

-- name: utc
-- ShedLock writes UTC into columns without a time zone.
timezone('utc', clock_timestamp())

-- name: shedlock_by
-- The beginning of locked_by, before a blank and the holder record.
('dlock-' || left({token}, 32))

-- name: shedlock_locked_by
-- The holder record is cut to the room of the column. NULL without a record.
left({shedlock_by} || ' ' || {owner}, 255)

-- name: shedlock_is_held
s.name = {name} AND s.lock_until > {utc}

-- name: shedlock_fence
(extract(epoch FROM s.locked_at) * 1000000)::bigint

-- name: shedlock_is_ours
-- Of our token, or for break_hold() of this fence.
{shedlock_is_held} AND
  CASE {fence} WHEN 0 THEN left(s.locked_by, 38) = {shedlock_by} ELSE {shedlock_fence} = {fence} END

-- name: shedlock_take
-- If an earlier answer was lost and the lock is already ours, the lease is extended. locked_at grows.
{begin}
INSERT INTO shedlock AS s (name, lock_until, locked_at, locked_by)
  VALUES ({name}, {utc} + {ttl} * interval '1 ms', {utc}, {shedlock_locked_by})
  ON CONFLICT (name) DO UPDATE SET lock_until = {utc} + {ttl} * interval '1 ms', locked_by = excluded.locked_by,
    locked_at = CASE WHEN s.lock_until > {utc} THEN s.locked_at
      ELSE GREATEST({utc}, s.locked_at + interval '1 ms') END
  WHERE s.lock_until <= {utc} OR left(s.locked_by, 38) = {shedlock_by};
SELECT CASE WHEN left(s.locked_by, 38) = {shedlock_by} THEN {shedlock_fence} ELSE 0 END, 0,
    (extract(epoch FROM s.lock_until - {utc}) * 1000)::bigint, 1, 0, ''
  FROM shedlock s WHERE {shedlock_is_held};

-- name: shedlock_renew
-- Extends a lease, and never takes the lock.
{begin}
UPDATE shedlock s SET lock_until = {utc} + {ttl} * interval '1 ms',
    locked_by = COALESCE({shedlock_locked_by}, locked_by)
  WHERE {shedlock_is_ours} RETURNING 1;

-- name: shedlock_release
-- The row stays. The lock becomes free after its minimum hold, and not within the millisecond in
-- which it was taken. A retained lock has no token. A clock that was set back keeps it taken, unless
-- it is broken: for how many ms.
{begin}
{end_stale}
UPDATE shedlock s SET lock_until = GREATEST({utc} + {keep} * interval '1 ms',
      CASE {fence} WHEN 0 THEN s.locked_at + interval '1 ms' END),
    locked_by = CASE WHEN {keep} = 0 THEN s.locked_by ELSE 'dlock-' || repeat('0', 32) ||
      substr(COALESCE({shedlock_locked_by}, s.locked_by), 39) END
  WHERE {shedlock_is_ours}
  RETURNING 1, 0, CASE WHEN s.lock_until > {utc} + ({keep} + 1000) * interval '1 ms'
    THEN (extract(epoch FROM s.lock_until - {utc}) * 1000)::bigint ELSE 0 END;

-- name: shedlock_show
-- Java's ShedLock stores the name of the host.
SELECT {shedlock_fence}, {shedlock_fence}, 0,
    CASE WHEN s.locked_by LIKE 'dlock-%' THEN substr(s.locked_by, 7, 32) ELSE '' END,
    (extract(epoch FROM s.lock_until - {utc}) * 1000)::bigint,
    GREATEST(0, (extract(epoch FROM {utc} - s.locked_at) * 1000)::bigint),
    CASE WHEN s.locked_by LIKE 'dlock-%' AND substr(s.locked_by, 39, 1) = ' ' THEN substr(s.locked_by, 40)
      ELSE 'host=' || replace(replace(s.locked_by, '%', '%25'), '&', '%26') END,
    (left(s.locked_by, 38) = {shedlock_by})::int, 1
  FROM shedlock s WHERE {shedlock_is_held};

-- name: shedlock_list
SELECT name FROM shedlock s WHERE lock_until > {utc};
