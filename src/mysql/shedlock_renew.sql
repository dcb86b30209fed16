-- Extends a lease, never takes it anew.
{shedlock_zone}
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
{shedlock_state}
