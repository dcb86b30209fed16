-- The lock is ours and that of others; see session_register.sql. Only one who had it alone
-- is in our way.
SET @now = {now}, SESSION wait_timeout = {idle};
SELECT MAX(dead_by) - @now INTO @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = '' AND dead_by > @now
    AND token <> {digest};
START TRANSACTION;
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  SELECT {strategy}, {name}, '', '', @now, 0, '', @now, 0, 0, '' FROM DUAL WHERE @rest IS NULL
  ON DUPLICATE KEY UPDATE token = '', connection = 0, holder = '', dead_by = 0,
    fence = GREATEST(fence + 1, VALUES(fence));
REPLACE INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder,
    lease, dead_by)
  SELECT strategy, name, {digest}, {digest}, fence, {connection}, CURRENT_USER(), @now,
    IF({rest}, @now + {rest}, 0), 1, {holder}, {lease}, @now + {lease} FROM dlock_sessions
    WHERE strategy = {strategy} AND name = {name} AND sharer = '' AND @rest IS NULL;
COMMIT;
SELECT IF(@rest IS NULL, MAX(fence), 0), @rest FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = {digest};
