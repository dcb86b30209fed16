-- The lock is ours alone. A row of another token whose command may still be alive belongs to
-- a holder that has lost the lock: then nothing is written, and @rest is for how long that can
-- last. What other rows say is past. The fence is the clock, or the last one and 1. Who writes
-- this does so again at each renewal: a connection that is idle for longer has lost its host.
SET @now = {now}, SESSION wait_timeout = {idle};
SELECT MAX(dead_by) - @now INTO @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND dead_by > @now AND token <> {digest};
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder,
    lease, dead_by)
  SELECT {strategy}, {name}, '', {digest}, @now, {connection}, CURRENT_USER(), @now,
    IF({rest}, @now + {rest}, 0), 1, {holder}, {lease}, @now + {lease}
    FROM DUAL WHERE @rest IS NULL
  ON DUPLICATE KEY UPDATE token = VALUES(token), fence = GREATEST(fence + 1, VALUES(fence)),
    connection = VALUES(connection), account = VALUES(account), since = VALUES(since),
    until = VALUES(until), count = 1, holder = VALUES(holder), lease = VALUES(lease),
    dead_by = VALUES(dead_by);
DELETE FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer > '' AND @rest IS NULL;
SELECT IF(@rest IS NULL, MAX(fence), 0), @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = '';
