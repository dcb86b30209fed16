-- While the table is locked, this connection can write to no other.
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
UNLOCK TABLES;
{session_end}
