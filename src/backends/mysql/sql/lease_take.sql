-- Takes the lock for itself, if it is free and nobody comes before: one statement decides
-- on one row. For who has it already, which can be when an earlier answer was lost ({again}),
-- it extends the lease. The assignments are made from left to right. Behind others it does
-- not look at the row, which would lock it: a crowd that comes would keep it from its holder.
UPDATE dlock_locks SET
    holds = IF(token = {token} AND expires > @now, holds, 1),
    since = IF(token = {token} AND expires > @now, since, @now),
    keep = IF(token = {token} AND expires > @now, keep, IF({keep} = 0, 0, @now + {keep})),
    version = IF(token = {token} AND expires > @now, version, GREATEST(version + 1, @now)),
    mode = 0, token = {token}, owner = {owner}, expires = @now + {ttl}
  WHERE name = {name} AND (@first IS NULL OR {again}) AND
    (expires <= @now AND @first IS NULL OR expires > @now AND token = {token});
