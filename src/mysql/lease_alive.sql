-- Does this waiter (q) live? As long as its connection does: it holds its ticket.
IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40))) = 0
