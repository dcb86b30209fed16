-- Whoever is said to hold it. A connection of our own account that is not there is gone;
-- one of another account we may not be allowed to see.
SELECT s.connection, s.token, s.sharer, s.fence,
    {now} - s.since, s.holder,
    EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p WHERE p.ID = s.connection),
    s.account = CURRENT_USER(), s.count,
    IF(s.until, s.until - {now}, -1), GREATEST(s.dead_by - {now}, 0)
  FROM dlock_sessions s WHERE s.strategy = {strategy} AND s.name = {name} ORDER BY s.sharer;
