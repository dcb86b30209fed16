-- What there is; see struct simple_state. locked_at never steps back: it is no earlier than
-- the lock_until before it, and that is a millisecond later than its locked_at at least.
SELECT LEFT(locked_by, 38) = {by}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at),
    TIMESTAMPDIFF(MICROSECOND, locked_at, UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until), 1, locked_by
  FROM shedlock WHERE name = _utf8mb4 {name} AND lock_until > UTC_TIMESTAMP(3);
