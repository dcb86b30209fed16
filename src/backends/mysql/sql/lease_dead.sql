-- Waiters that died, before the first one that lives.
SET @first = NULL, @now = {now};
SELECT q.id INTO @first FROM dlock_queue q
  WHERE q.name = {name} AND {alive} ORDER BY q.id LIMIT 1;
SELECT q.id FROM dlock_queue q
  WHERE q.name = {name} AND q.id < COALESCE(@first, 18446744073709551615) AND NOT ({alive})
  LIMIT 100;
