-- How it stands now, for the one with the token; one row, see enum state in
-- mysql_lease.h. @version is NULL when the lock has no row. @open: for how long there has
-- been room for the first one before me, who does not come.
SET @mode = @firstmode, @mine = 0, @version = NULL, @holder = '', @held = 0, @rest = 0,
  @open = NULL;
SELECT IF(l.mode = 0, l.version, h.fence), l.version, l.token, l.mode, l.expires - @now,
    IF(l.mode = 0, l.token = {token} AND l.expires > @now,
      COALESCE(h.expires > @now AND l.expires > @now, 0)),
    IF(l.mode = 0, l.holds, h.holds), IF(l.mode = 0, l.since, h.since),
    IF(l.mode = 0, l.owner, ''),
    IF(@first IS NULL OR NOT {lease_room}, NULL,
      @now - GREATEST(l.freed, IF(l.expires <= @now, l.expires, 0)))
  INTO @fence, @version, @holder, @held, @rest, @mine, @holds, @since, @owner, @open
  FROM dlock_locks l LEFT JOIN dlock_holders h ON h.name = {name} AND h.token = {token}
  WHERE l.name = {name};
SELECT a.since, a.owner INTO @since, @owner FROM dlock_holders a
  WHERE @held <> 0 AND a.name = {name} AND a.expires > @now LIMIT 1;
SELECT @version, @mine, @fence, @holds, @held, @rest, @now - @since, @owner,
  @me < 18446744073709551615, @first, @open, (SELECT COUNT(*) FROM dlock_queue w
    WHERE w.name = {name} AND w.id < @me AND w.asleep = 0), @ticket, @done, @next, @dead, @old;
