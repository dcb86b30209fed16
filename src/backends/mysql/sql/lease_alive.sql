-- Does this waiter (q) live? As long as its connection does: it holds its ticket. In a
-- cluster tickets are the node's alone: there it has looked within 15 s.
IF(@cluster, {lease_seen}, IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(q.token), 40))) = 0)
