-- The same when whoever is next sleeps on our ticket: that is let go in one go with the lock, so
-- that the next one wakes up while the row is on its way to the log; a try that comes before it is
-- there waits for it. Told by the statement's id: 0: the ticket was not ours; 1: nobody has it
-- now; else somebody has.
UPDATE dlock_locks SET {lease_freed},
    holds = 0 * LAST_INSERT_ID(IF(RELEASE_LOCK({ticket}) = 1,
      1 + COALESCE(IS_USED_LOCK({ticket}), 0), 0))
  WHERE {lease_ours};
