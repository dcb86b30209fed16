{session_unshare}
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
COMMIT;
