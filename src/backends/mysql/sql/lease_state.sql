-- How it stands for the one with the token: see enum state in lease_call.c. No row:
-- the lock has none. The tenth: for how long there has been room for the first one before
-- me, who does not come.
SELECT l.version,
    IF(l.mode = 0, l.token = {token} AND l.expires > @now,
      COALESCE(h.expires > @now AND l.expires > @now, 0)),
    IF(l.mode = 0, l.version, h.fence), IF(l.mode = 0, l.holds, h.holds),
    l.mode, l.expires - @now,
    @now - IF(l.mode = 0, l.since, (SELECT a.since FROM dlock_holders a
      WHERE a.name = {name} AND a.expires > @now LIMIT 1)),
    IF(l.mode = 0, l.owner, COALESCE(IF(h.expires > @now, h.owner, NULL),
      (SELECT b.owner FROM dlock_holders b
        WHERE b.name = {name} AND b.expires > @now LIMIT 1))),
    l.token,
    IF(@first IS NULL OR NOT {lease_room}, NULL,
      @now - GREATEST(l.freed, IF(l.expires <= @now, l.expires, 0))),
    @first, @me < 18446744073709551615, @asleep,
    IF(@me < 18446744073709551615, (SELECT COUNT(*)
      FROM dlock_queue w FORCE INDEX (name)
      WHERE w.name = {name} AND w.id < @me AND w.asleep = 0), 0),
    @ticket, @done, @next, @dead, @old, @cluster
  {into}
  FROM dlock_locks l LEFT JOIN dlock_holders h ON h.name = {name} AND h.token = {token}
  WHERE l.name = {name};
