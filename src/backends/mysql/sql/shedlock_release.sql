-- The row stays. Not free before the least time to hold is over, which is kept in
-- locked_by too, for a release that comes from elsewhere; nor in the same millisecond.
{shedlock_zone}
UPDATE shedlock SET lock_until = GREATEST(
    TIMESTAMPADD(MICROSECOND, {rest}, UTC_TIMESTAMP(3)),
    TIMESTAMPADD(MICROSECOND, IF(SUBSTRING(locked_by, 40, 4) = 'min=',
      1000 * CAST(SUBSTRING_INDEX(SUBSTRING(locked_by, 44), '&', 1) AS UNSIGNED), 1000), locked_at))
  WHERE name = _utf8mb4 {name} AND LEFT(locked_by, 38) = {by}
    AND lock_until > UTC_TIMESTAMP(3);
SELECT ROW_COUNT() > 0;
