-- Whoever gets the lock next sees that this hold has ended in good order.
{session_end}
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
COMMIT;
