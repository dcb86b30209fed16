-- Puts the row in, or in the place of one that has expired; for who has it already (an
-- answer was lost) it extends the lease. An update on a duplicate takes the row's lock at
-- once; a plain INSERT that fails would share it, and of two that share it and want more
-- one is a deadlock's victim. The assignments are made from left to right. A fence belongs
-- to a new row only.
SET @now = {now};
START TRANSACTION;
INSERT INTO dlock_inserts (name, token, fence, holds, since, expires, keep, owner)
  VALUES ({name}, {token}, 0, 1, @now, @now + {ttl}, IF({keep} = 0, 0, @now + {keep}), {owner})
  ON DUPLICATE KEY UPDATE
    holds = IF(expires > @now, holds, 1),
    since = IF(expires > @now, since, @now),
    keep = IF(expires > @now, keep, VALUES(keep)),
    owner = IF(expires > @now, owner, VALUES(owner)),
    fence = IF(expires > @now, fence, 0),
    token = IF(expires > @now, token, VALUES(token)),
    expires = IF(token = VALUES(token), VALUES(expires), expires);
INSERT INTO dlock_fences (name, fence)
  SELECT i.name, LAST_INSERT_ID(@now) FROM dlock_inserts i
    WHERE i.name = {name} AND i.token = {token} AND i.fence = 0
  ON DUPLICATE KEY UPDATE
    fence = LAST_INSERT_ID(GREATEST(dlock_fences.fence + 1, @now));
UPDATE dlock_inserts SET fence = LAST_INSERT_ID()
  WHERE name = {name} AND token = {token} AND fence = 0;
COMMIT;
{insert_state}
