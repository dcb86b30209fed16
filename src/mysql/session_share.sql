-- The lock is ours and that of others.
SET @now = {now};
START TRANSACTION;
INSERT INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, '', '', LAST_INSERT_ID(@now), 0, '', @now,
    0, 0, '')
  ON DUPLICATE KEY UPDATE token = '', connection = 0, holder = '',
    fence = LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence)));
REPLACE INTO dlock_sessions
    (strategy, name, sharer, token, fence, connection, account, since, until, count, holder)
  VALUES ({strategy}, {name}, {digest}, {digest}, LAST_INSERT_ID(), {connection},
    CURRENT_USER(), @now, IF({rest}, @now + {rest}, 0), 1, {holder});
COMMIT;
SELECT LAST_INSERT_ID();
