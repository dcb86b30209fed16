-- ShedLock's steps; for who has it already (an answer was lost) it extends the lease.
{shedlock_zone}
INSERT IGNORE INTO shedlock (name, lock_until, locked_at, locked_by)
  VALUES (_utf8mb4 {name}, TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    UTC_TIMESTAMP(3), _utf8mb4 {owner});
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3)),
    locked_at = UTC_TIMESTAMP(3), locked_by = _utf8mb4 {owner}
  WHERE name = _utf8mb4 {name} AND lock_until <= UTC_TIMESTAMP(3);
UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {ttl}, UTC_TIMESTAMP(3))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
{shedlock_state}
