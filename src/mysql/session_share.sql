-- The lock is ours and that of others.
SET @dlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
START TRANSACTION;
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, '', '', LAST_INSERT_ID(@dlock_now), 0, '', @dlock_now,
    0, 0, '')
  ON DUPLICATE KEY UPDATE token = '', connection = 0, holder = '',
    fence = LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence)));
REPLACE INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, {digest}, {digest}, LAST_INSERT_ID(), {connection},
    CURRENT_USER(), @dlock_now, IF({rest}, @dlock_now + {rest}, 0), 1, {holder});
COMMIT;
SELECT LAST_INSERT_ID();
