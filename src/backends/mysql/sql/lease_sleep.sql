-- Sleeps on @target: until it is let go by who has it, or by the end of that connection;
-- in between a look for whether the one whose turn it is hangs. 1: it has the ticket; NULL:
-- there was none to sleep on. Who gets the ticket before that look is told by an error: the sum
-- is out of range then, and the rest, which takes its time even to be read, is left out.
SET @woken = IF(@target IS NULL, 2, 18446744073709551615 +
  GET_LOCK(@target, LEAST(FLOOR(@nap / 1000000), 3)) - 18446744073709551615);
SELECT IF(@target IS NULL AND @nap > 0, NULL, IF(@woken = 0 AND @nap >= 4000000 AND
    NOT EXISTS (SELECT 1 FROM dlock_locks l
      WHERE l.name = {name} AND {lease_room} AND {lease_stale}),
  GET_LOCK(@target, FLOOR(@nap / 1000000) - 3), @woken));
