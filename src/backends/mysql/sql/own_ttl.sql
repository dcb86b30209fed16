-- The TTL (ms) of a hold whose owner is this text, see holder.h: what it begins with. Where nothing
-- is noted, by an older dlock, what is usual, and no less than is left.
IF(owner LIKE 'ttl=%', CAST(SUBSTRING_INDEX(SUBSTRING(owner, 5), '&', 1) AS UNSIGNED),
  GREATEST(expires - @now, {usual}) DIV 1000)
