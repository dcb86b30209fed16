-- Gives an exclusive hold back, the last acquisition or all of them; or keeps it taken
-- for a time ({keep}, or what was agreed when it was acquired). What is free is so whatever
-- becomes of the clock: 0, and not this moment, which may come once more. The assignments are
-- made from left to right.
UPDATE dlock_locks SET
    freed = {now},
    token = IF(GREATEST(freed + {keep}, keep) > freed, token, ''),
    expires = IF(GREATEST(freed + {keep}, keep) > freed, GREATEST(freed + {keep}, keep), 0)
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > {now} AND
    (holds <= 1 OR {all});
