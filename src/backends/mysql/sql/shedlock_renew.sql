-- Extends a lease, never takes it anew; by its own TTL when {ttl} is 0. The assignments are made
-- from left to right.
{shedlock_zone}
UPDATE shedlock SET
    lock_until = TIMESTAMPADD(MICROSECOND, IF({ttl} > 0, {ttl}, 1000 * {shedlock_ttl}),
      UTC_TIMESTAMP(3)),
    locked_by = IF({ttl} > 0 AND LOCATE('ttl=', locked_by), INSERT(locked_by,
      LOCATE('ttl=', locked_by) + 4, CHAR_LENGTH({shedlock_ttl}), {ttl} DIV 1000), locked_by)
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
{shedlock_state}
