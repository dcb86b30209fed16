-- The lock is ours alone: what other rows say of it is past. The fence is the clock, or
-- the last one and 1.
SET @dlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, '', {digest}, LAST_INSERT_ID(@dlock_now), {connection},
    CURRENT_USER(), @dlock_now, IF({rest}, @dlock_now + {rest}, 0), 1, {holder})
  ON DUPLICATE KEY UPDATE token = VALUES(token),
    fence = LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence))),
    connection = VALUES(connection), account = VALUES(account), since = VALUES(since),
    until = VALUES(until), count = 1, holder = VALUES(holder);
DELETE FROM dlock_sessions WHERE strategy = {strategy} AND name = {name} AND sharer > '';
SELECT LAST_INSERT_ID();
