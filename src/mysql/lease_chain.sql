-- Whose ticket do I sleep on (@target)? That of the nearest one before me who lives; first
-- in line, the holder's. Every tenth reaches ten places ahead, every hundredth a hundred,
-- because servers take a chain of 32 who wait for each other for a deadlock: like this
-- the longest one of N waiters has the digits of N, added up.
SET @before = NULL;
SELECT q.token INTO @before FROM dlock_queue q
  WHERE @nap > 0 AND q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive}
  ORDER BY q.id DESC LIMIT 1;
SELECT q.token INTO @before FROM dlock_queue q
  WHERE @nap > 0 AND @place % 10 = 0 AND q.name = {name} AND q.id < @me AND
    q.place <= @place - 10 AND q.asleep = 0 AND {alive}
  ORDER BY q.id DESC LIMIT 1;
SELECT q.token INTO @before FROM dlock_queue q
  WHERE @nap > 0 AND @place % 100 = 0 AND q.name = {name} AND q.id < @me AND
    q.place <= @place - 100 AND q.asleep = 0 AND {alive}
  ORDER BY q.id DESC LIMIT 1;
SET @before = COALESCE(@before, IF(@held = 0 AND @rest > 0, @holder, ''));
SET @target = IF(@nap < 1000000 OR @before = '', NULL,
  CONCAT('dlock-', LEFT(HEX(@before), 40)));
-- Nobody behind it: who holds has no connection, so that a release is seen otherwise.
SET @target = IF(@target IS NULL, NULL, IF(IS_FREE_LOCK(@target), NULL, @target));
SET @go = @target IS NOT NULL;
