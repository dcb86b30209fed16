-- The TTL (ms) that locked_by notes. Where it notes none, what is usual, and no less than is left.
IF(LOCATE('ttl=', locked_by), CAST(SUBSTRING_INDEX(SUBSTRING(locked_by,
    LOCATE('ttl=', locked_by) + 4), '&', 1) AS UNSIGNED),
  GREATEST(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lock_until), {usual}) DIV 1000)
