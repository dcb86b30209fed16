-- Awake with the lock: from now on the connection may be idle for a whole lease, and waits
-- for nothing.
SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = 1;
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
