-- Who holds waits no longer. Nobody sleeps on the ticket of one who holds with others:
-- @target is our own one then, which lets the next one look.
DELETE FROM dlock_queue WHERE id = @me AND @mine;
-- For how long (@nap, microseconds) is there nothing to do for me? Who is first waits
-- until the lease ends, the others for the one before them; who should have come, and
-- did not for 0.9 s, is passed over (GET_LOCK counts whole seconds). And whose ticket do
-- I sleep on (@target)? That of the nearest one before me who lives; first in line, the
-- holder's. Every fourth reaches four places ahead, every sixteenth sixteen and so on,
-- because servers take a chain of 32 who wait for each other for a deadlock, and some links
-- count twice: like this the longest one of N waiters has the digits of N in base four,
-- added up.
SET @step = CASE
    WHEN @place % 256 = 0 AND @front + 256 <= @place THEN 256
    WHEN @place % 64 = 0 AND @front + 64 <= @place THEN 64
    WHEN @place % 16 = 0 AND @front + 16 <= @place THEN 16
    WHEN @place % 4 = 0 AND @front + 4 <= @place THEN 4
    ELSE 0 END;
SELECT CASE
    WHEN @mine OR @version IS NULL OR @ticket = 0 OR @asleep OR NOT @inline THEN 0
    WHEN @first IS NULL THEN LEAST(@rest + 2000, 6000000)
    WHEN @open IS NOT NULL THEN LEAST(GREATEST(905000 - @open, 1000000), 6000000)
    ELSE 6000000 END,
  IF(@first IS NULL, IF(@held = 0 AND @rest > 0, @holder, ''),
    COALESCE((SELECT q.token FROM dlock_queue q FORCE INDEX (name)
      WHERE q.name = {name} AND q.id < @me AND (@step = 0 OR q.place + @step <= @place) AND
        q.asleep = 0 AND {alive} ORDER BY q.id DESC LIMIT 1), ''))
  INTO @nap, @before;
