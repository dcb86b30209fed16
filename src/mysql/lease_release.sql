-- Gives an exclusive hold back, the last acquisition or all of them; or keeps it taken
-- for a time ({keep}, or what was agreed when it was acquired).
UPDATE dlock_locks SET
    token = IF(GREATEST(@now + {keep}, keep) > @now, token, ''),
    expires = GREATEST(@now + {keep}, keep), freed = @now
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now AND
    (holds <= 1 OR {all});
