-- Waiters say in a comment what they wait for; CONCAT, for this statement must not look
-- like one of them.
SELECT ID, TIME * 1000, INFO FROM information_schema.PROCESSLIST
  WHERE INFO LIKE CONCAT('%/* dl', 'ock ', {mark}, ' %') ORDER BY ID;
