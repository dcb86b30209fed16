-- Gets in line. Who hangs when it gets the lock is disconnected after a few seconds.
SET SESSION wait_timeout = {hung}, lock_wait_timeout = {limit};
LOCK TABLES {waiter} {table} {lock};
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
