-- The connection of the waiter q.
IF(@cluster, NULL, IS_USED_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40))))
