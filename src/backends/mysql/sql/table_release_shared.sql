SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
UNLOCK TABLES;
{session_unshare}
