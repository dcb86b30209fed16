-- Sleeps on @target: until it is let go by who has it, or by the end of that connection.
-- In between a look for whether the one whose turn it is hangs.
SET @woken = IF(@target IS NULL, 1, GET_LOCK(@target, LEAST(FLOOR(@nap / 1000000), 2))),
  @now = {now}, @mode = @firstmode;
SELECT 2 INTO @woken FROM dlock_locks l
  WHERE @woken = 0 AND l.name = {name} AND {lease_room} AND {lease_stale};
SELECT IF(@woken = 0, GET_LOCK(@target, GREATEST(FLOOR(@nap / 1000000) - 2, 0)), @woken);
DO RELEASE_LOCK(COALESCE(@target, 'dlock-'));
