-- Gives an exclusive hold back, the last acquisition or all of them; or keeps it taken
-- for a time ({keep}, or what was agreed when it was acquired). What is free is so whatever
-- becomes of the clock: 0, and not this moment, which may come once more.
UPDATE dlock_locks SET
    token = IF(GREATEST(@now + {keep}, keep) > @now, token, ''),
    expires = IF(GREATEST(@now + {keep}, keep) > @now, GREATEST(@now + {keep}, keep), 0),
    freed = @now
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now AND
    (holds <= 1 OR {all});
