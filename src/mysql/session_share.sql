-- The lock is ours and that of others.
SET @dlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
START TRANSACTION;
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, holder)
  VALUES ({strategy}, {name}, '', '', LAST_INSERT_ID(@dlock_now), 0, '', @dlock_now, '')
  ON DUPLICATE KEY UPDATE token = '', connection = 0, holder = '',
    fence = LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence)));
REPLACE INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, holder)
  VALUES ({strategy}, {name}, {digest}, {digest}, LAST_INSERT_ID(), {connection},
    CURRENT_USER(), @dlock_now, {holder});
COMMIT;
SELECT LAST_INSERT_ID();
