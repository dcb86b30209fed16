-- Is it my turn, or does the one whose turn it is not come? Then @go is set.
SET @wanted = COALESCE(@wanted, {mode});
SELECT 1 INTO @go FROM dlock_locks l
  WHERE NOT @go AND l.name = {name} AND (
    {lease_room} AND (@first IS NULL OR {lease_stale}) OR
    @first IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dlock_queue q
      WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} LIMIT 1));
