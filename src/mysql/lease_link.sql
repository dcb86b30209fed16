-- The connection of the waiter q.
IS_USED_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40)))
