-- The lock is ours alone: what other rows say of it is past. The fence is the clock, or
-- the last one and 1.
SET @now = {now};
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, '', {digest}, LAST_INSERT_ID(@now), {connection},
    CURRENT_USER(), @now, IF({rest}, @now + {rest}, 0), 1, {holder})
  ON DUPLICATE KEY UPDATE token = VALUES(token),
    fence = LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence))),
    connection = VALUES(connection), account = VALUES(account), since = VALUES(since),
    until = VALUES(until), count = 1, holder = VALUES(holder);
DELETE FROM dlock_sessions WHERE strategy = {strategy} AND name = {name} AND sharer > '';
SELECT LAST_INSERT_ID();
