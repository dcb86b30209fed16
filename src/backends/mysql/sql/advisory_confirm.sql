-- Awake with the lock: from now on the connection may be idle for a whole lease.
SET SESSION wait_timeout = {idle};
SELECT IS_USED_LOCK({key}) = CONNECTION_ID(), CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
