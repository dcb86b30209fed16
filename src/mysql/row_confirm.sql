-- Awake with the lock: from now on the connection may be idle for a whole lease.
SET SESSION wait_timeout = {idle};
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
