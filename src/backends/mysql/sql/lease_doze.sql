-- A part of @nap without a ticket to sleep on, after a look at how it stands: is it my turn,
-- or does the one whose turn it is not come? Several of these go in one request; once @go
-- is set the rest does nothing.
SET @wanted = COALESCE(@wanted, {mode});
SELECT 1 INTO @go FROM dlock_locks l
  WHERE NOT @go AND l.name = {name} AND (
    {lease_room} AND (@first IS NULL OR {lease_stale}) OR
    @first IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dlock_queue q
      WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} LIMIT 1));
SET @go = IF(@go OR @target IS NOT NULL OR @nap <= 0, 1, SLEEP(LEAST(@nap, {slice}) / 1000000)),
  @nap = @nap - IF(@target IS NULL, {slice}, 0);
