-- Counts a hold that was acquired {holds} times up or down. With an answer lost it can be
-- sent again: it counts once.
UPDATE dlock_locks SET holds = {holds} + {step}, {counted}
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now AND holds = {holds};
SET @done = ROW_COUNT();
