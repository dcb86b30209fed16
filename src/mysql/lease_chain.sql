-- Whose ticket do I sleep on (@target)? That of the nearest one before me who lives; first
-- in line, the holder's. Every tenth reaches ten places ahead, every hundredth a hundred,
-- because servers take a chain of 32 who wait for each other for a deadlock: like this
-- the longest one of N waiters has the digits of N, added up. Nobody behind the ticket:
-- who holds has no connection, and a release is seen otherwise (lease_doze.sql).
SELECT IF(@nap < 1000000, '', COALESCE(
    IF(@place % 100, NULL, (SELECT q.token FROM dlock_queue q
      WHERE q.name = {name} AND q.id < @me AND q.place <= @place - 100 AND q.asleep = 0 AND
        {alive} ORDER BY q.id DESC LIMIT 1)),
    IF(@place % 10, NULL, (SELECT q.token FROM dlock_queue q
      WHERE q.name = {name} AND q.id < @me AND q.place <= @place - 10 AND q.asleep = 0 AND
        {alive} ORDER BY q.id DESC LIMIT 1)),
    (SELECT q.token FROM dlock_queue q
      WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive}
      ORDER BY q.id DESC LIMIT 1),
    IF(@held = 0 AND @rest > 0, @holder, ''))) INTO @before;
SET @target = IF(@before = '' OR IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(@before), 40))), NULL,
  CONCAT('dlock-', LEFT(HEX(@before), 40)));
